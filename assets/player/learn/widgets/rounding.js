// A widget about rounding. It compares the logits of a forward over one token with those of a
// forward over several: for each position of a text, the gap between the two best logits and how
// far rounding moved them. A sum in two orders shows the cause.

import { drawing, element, setText } from "../../shared/dom.js";
import { tokenLabel } from "../../shared/token_label.js";
import { OrderWidget } from "../order_widget.js";
import { isNear, roundingNumbers, shuffled, sum32 } from "./rounding_places.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [640, 274, 46, 36]; // size of the picture and its margins, in pixels
const DIGITS = 10; // digits of a sum that are shown
/** @type {Record<string, string>} */
const BITS = { float32: "32-bit numbers", bfloat16: "16-bit numbers (bfloat16)" };

export class Rounding extends OrderWidget {
  static id = "rounding";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "rounding");
    /** @type {number[]} */
    this.sums = [];
    /** @type {number[]} */
    this.leads = []; // the gaps that the learner's button adds up, in the order of the last sum
    this.head = element("h3", "sweep-title");
    this.key = element("p", "guess-key hint");
    this.picture = element("div", "rounding-picture");
    this.words = element("p", "forward-words");
    this.words.setAttribute("aria-live", "polite");
    this.again = element("button", "primary", "Add them in another order");
    this.again.type = "button";
    this.again.dataset.again = "";
    this.again.addEventListener("click", () => this.add());
    this.list = element("ol", "rounding-sums");
    box.classList.add("rounding");
    box.replaceChildren(
      this.head,
      this.key,
      this.picture,
      this.words,
      this.again,
      this.list,
      this.row.box,
    );
    this.key.append(
      marked("is-margin", "lead of the best token over the second"),
      marked("is-moved", "moved by rounding"),
      marked("is-near", "moved by at least its lead"),
    );
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.sums = [];
    const numbers = scene.numbers ?? "float32";
    const isAsked = scene.show === "ask";
    this.setOrder(
      `rounding-${numbers}`,
      { form: this.pairForm, numbers },
      scene.show === "sum" || scene.known === "true",
    );
    this.row.box.hidden = isAsked || scene.show === "sum";
    this.draw();
    if (this.found && !isAsked) this.on.reached("shown");
  }

  reveal() {
    this.scene = { ...this.scene, show: "margins" };
    this.showFound();
    this.draw();
    this.on.changed();
  }

  // Sum all measured gaps once more. From the second time on, take them in a new random order.
  add() {
    this.leads = this.sums.length ? shuffled(this.leads) : this.places.map(({ margin }) => margin);
    this.sums.push(sum32(this.leads));
    this.drawSums();
    if (new Set(this.sums).size > 1) this.on.reached("added");
    this.on.changed();
  }

  /** @returns {import("./rounding_places.js").RoundedPlace[]} */
  get places() {
    return this.found?.places ?? [];
  }

  get values() {
    const { found, planned, sums } = this;
    return {
      ...roundingNumbers(this.places),
      places: (found ?? planned)?.places.length,
      model: (found ?? planned)?.model,
      prompt: found?.prompt,
      together: (found ?? planned)?.together,
      bits: BITS[this.scene.numbers ?? "float32"],
      orders: sums.length || undefined,
      different: sums.length ? new Set(sums).size : undefined,
    };
  }

  draw() {
    const { found, scene } = this;
    const isSum = scene.show === "sum";
    const isShown = !isSum && scene.show !== "ask" && found !== null;
    setText(
      this.head,
      isSum
        ? "The leads of all places, added up"
        : `Two forwards, ${BITS[scene.numbers ?? "float32"]}`,
    );
    this.key.hidden = !isShown;
    this.picture.hidden = isSum;
    this.words.hidden = isSum;
    this.again.hidden = this.list.hidden = !isSum;
    if (isSum) return this.drawSums();
    this.picture.replaceChildren(drawing(picture(isShown ? this.places : [])));
    setText(this.words, isShown ? this.sentence() : "");
  }

  sentence() {
    const { first, second, margin = 0, most_moved: most = 0, near, places } = this.values;
    return `Nearest to a tie: ${tokenLabel(first ?? "")} leads ${tokenLabel(second ?? "")} by ${brief(margin)}. Rounding moved a lead by at most ${brief(most)}. It was at least as large as the lead at ${near} of ${places} places.`;
  }

  drawSums() {
    const [first] = this.sums;
    this.list.replaceChildren(
      ...this.sums.map((sum) => {
        const row = element("li", sum === first ? "" : "is-other");
        row.append(
          element("span", "number", sum.toPrecision(DIGITS)),
          element(
            "span",
            "hint",
            sum === first ? "" : `${brief(Math.abs(sum - first))} away from the first`,
          ),
        );
        return row;
      }),
    );
  }
}

/**
 * @param {string} className
 * @param {string} words
 */
function marked(className, words) {
  const made = element("span");
  made.append(element("i", className), words);
  return made;
}

/** @param {string} digits */
function raised(digits) {
  return [...digits].map((each) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(each)]).join("");
}

// Write a value with two significant digits, however small it is.
/** @param {number} value */
function brief(value) {
  if (value === 0) return "0";
  return Math.abs(value) < 0.001
    ? value.toExponential(1).replace(/e-(\d+)/, (_, power) => ` × 10⁻${raised(power)}`)
    : value.toPrecision(2);
}

// Return a picture of the gaps and the changes by rounding, position by position, on a logarithmic
// scale.
/** @param {import("./rounding_places.js").RoundedPlace[]} places */
function picture(places) {
  const all = places.flatMap(({ margin, moved }) => [margin, moved]).filter((each) => each > 0);
  const least = Math.floor(Math.log10(Math.min(1e-6, ...all)));
  const low = least - 1; // a logarithmic scale has no 0, so 0 is drawn one power of ten below the smallest value
  const high = Math.ceil(Math.log10(Math.max(10, ...all)));
  const y = (/** @type {number} */ value) =>
    HEIGHT -
    BOTTOM -
    ((Math.max(low, value > 0 ? Math.log10(value) : low) - low) / (high - low)) *
      (HEIGHT - BOTTOM - 12);
  const x = (/** @type {number} */ at) =>
    LEFT + 8 + (at * (WIDTH - LEFT - 16)) / Math.max(1, (places.length || 64) - 1);
  const powers = Array.from({ length: high - low + 1 }, (_, at) => low + at);
  const lines = powers.map(
    (
      power,
    ) => `<line x1="${LEFT}" x2="${WIDTH}" y1="${y(10 ** power)}" y2="${y(10 ** power)}" class="grid"/>
    <text x="${LEFT - 6}" y="${y(10 ** power) + 4}" text-anchor="end">${power === low ? "0" : `10${power < 0 ? "⁻" : ""}${raised(String(Math.abs(power)))}`}</text>`,
  );
  const dots = places.map((each, at) => {
    const near = isNear(each) ? " is-near" : "";
    return `<line x1="${x(at)}" x2="${x(at)}" y1="${y(each.margin)}" y2="${y(each.moved)}" class="stem${near}"/>
      <circle cx="${x(at)}" cy="${y(each.margin)}" r="4" class="is-margin${near}"/><rect x="${x(at) - 3.2}" y="${y(each.moved) - 3.2}" width="6.4" height="6.4" class="is-moved${near}"/>`;
  });
  const label = places.length
    ? "Lead of the best token, and how far rounding moved it, at each position of the text"
    : "Nothing is measured yet";
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${lines.join("")}${dots.join("")}
    <text x="${(LEFT + WIDTH) / 2}" y="${HEIGHT - 4}" text-anchor="middle">places of the text</text></svg>`;
}
