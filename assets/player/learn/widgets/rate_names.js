// A widget about one race whose numbers have different names in different engines. It lists the
// names, converts one number into the others, and shows three reports of which one is wrong.

import { element, setText } from "../../shared/dom.js";
import { OrderWidget } from "../order_widget.js";
import { fromTotal, rateNumbers } from "./rate_numbers.js";

const CLOSE = 0.005; // a converted number this close to the run's own counts as reached
/** @type {[string, string][]} */
const SOURCES = [
  ["length", "tokens per forward (Mean acceptance length, accept length)"],
  ["used", "accepted / drafted (draft acceptance rate, accept rate)"],
];

export class RateNames extends OrderWidget {
  static id = "rate-names";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "race");
    this.isRevealed = false;
    this.table = element("table", "verdicts rate-table");
    this.form = element("div", "plan-form rate-form");
    this.from = element("select");
    this.from.dataset.name = "from";
    this.from.append(
      ...SOURCES.map(([name, title]) => {
        const made = element("option", "", title);
        made.value = name;
        return made;
      }),
    );
    this.value = numberInput("value");
    this.K = numberInput("K");
    for (const input of [this.from, this.value, this.K])
      input.addEventListener("input", () => this.convert());
    this.form.append(
      field("I have", this.from),
      field("its value", this.value),
      field("K, drafted tokens", this.K),
    );
    this.result = element("dl", "plan-facts");
    this.reports = element("ol", "rate-reports");
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    box.classList.add("rate-names");
    box.replaceChildren(this.reports, this.table, this.form, this.result, this.words, this.row.box);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.isRevealed = false;
    this.setOrder("race-hundred", { race: "hundred" }, scene.known === "true");
    this.row.box.hidden = scene.show !== "names" || scene.hidden === "true";
    this.value.value = this.K.value = "";
    this.draw();
    if (this.found && scene.show === "names" && scene.hidden !== "true") this.on.reached("shown");
  }

  reveal() {
    this.isRevealed = true;
    this.scene = { ...this.scene, hidden: "false" };
    if (!this.found) this.replay();
    this.draw();
    this.on.changed();
  }

  came() {
    this.draw();
    if (this.scene.show === "names") this.on.reached("shown");
  }

  // The numbers of the measurement, or of the recording before anything is measured.
  get numbers() {
    const message = this.found ?? this.planned;
    return message && rateNumbers(message.rounds, message.length);
  }

  get values() {
    const { numbers } = this;
    const { length: K, task } = this.found ?? this.planned ?? {};
    const naive = numbers && K ? 1 + K * numbers.alpha : undefined;
    return {
      task,
      K,
      drafts: numbers?.drafts,
      drafted: numbers?.drafted,
      accepted: numbers?.accepted,
      examined: numbers?.examined,
      alpha: numbers?.alpha,
      used: numbers?.used,
      length: numbers?.length,
      naive,
      implied: naive && (naive - 1) / K,
      first: numbers?.positions[0],
      positions: numbers && places(numbers.positions),
    };
  }

  // Convert the typed number, and show what follows from it.
  convert() {
    const { numbers } = this;
    const name = /** @type {"length" | "used"} */ (this.from.value);
    const isComplete = this.value.value !== "" && this.K.value !== "";
    const found = isComplete
      ? fromTotal(name, this.value.valueAsNumber, this.K.valueAsNumber)
      : null;
    this.result.hidden = !found;
    setText(
      this.words,
      found
        ? ""
        : isComplete
          ? "No run with drafts of that many tokens has this number."
          : "Type both numbers.",
    );
    if (!found) return;
    const rows = [
      ["tokens per forward", found.length.toFixed(2)],
      ["accepted / drafted", percent(found.used)],
      ["accepted / examined (α)", "does not follow"],
    ];
    this.result.replaceChildren(
      ...rows.flatMap(([title, value]) => [element("dt", "", title), element("dd", "", value)]),
    );
    if (numbers && name === "length" && Math.abs(found.used - numbers.used) < CLOSE)
      this.on.reached("converted");
  }

  draw() {
    const { scene, numbers } = this;
    const isHidden = scene.hidden === "true";
    this.table.hidden = scene.show !== "names" || isHidden || !this.found;
    this.form.hidden = scene.show === "names" || (scene.show === "reports" && isHidden);
    this.reports.hidden = scene.show !== "reports";
    this.result.hidden = true;
    setText(this.words, this.form.hidden ? "" : "Type both numbers.");
    if (!numbers) return setText(this.words, "Nothing is measured yet.");
    const { drafts, drafted, examined, accepted, positions } = numbers;
    if (scene.show === "names" && this.table.hidden)
      setText(
        this.words,
        `${drafts} drafts of ${positions.length} tokens: ${drafted} tokens drafted, ${examined} examined, ${accepted} accepted.`,
      );
    if (!this.table.hidden) this.drawNames(numbers);
    if (scene.show === "reports") this.drawReports(numbers);
  }

  /** @param {ReturnType<typeof rateNumbers>} numbers */
  drawNames({ positions, alpha, used, length }) {
    const rows = [
      ["vLLM", "Mean acceptance length", length.toFixed(2), "tokens per forward"],
      ["vLLM", "Avg Draft acceptance rate", percent(used), "accepted / drafted"],
      [
        "vLLM",
        "Per-position acceptance rate",
        places(positions),
        "drafts accepted up to each position",
      ],
      ["SGLang", "accept length", length.toFixed(2), "tokens per forward"],
      ["SGLang", "accept rate", used.toFixed(2), "accepted / drafted"],
      ["llama.cpp", "draft acceptance rate", used.toFixed(2), "accepted / drafted"],
      [
        "this page",
        "acceptance rate α",
        this.scene.hidden === "alpha" ? "?" : alpha.toFixed(2),
        "accepted / examined",
      ],
    ];
    const head = element("tr");
    for (const name of ["engine", "its name", "this run", "what it is"])
      head.append(element("th", "", name));
    const [top, body] = [element("thead"), element("tbody")];
    top.append(head);
    body.append(
      ...rows.map((cells) => {
        const row = element("tr");
        row.append(...cells.map((text, at) => element("td", at === 2 ? "rate-value" : "", text)));
        return row;
      }),
    );
    this.table.replaceChildren(top, body);
  }

  /** @param {ReturnType<typeof rateNumbers>} numbers */
  drawReports({ alpha, used, length, positions }) {
    const K = positions.length;
    const told = [
      `Drafts of ${K} tokens. Acceptance rate ${percent(used)} (accepted / drafted), ${length.toFixed(2)} tokens per forward.`,
      `Drafts of ${K} tokens. Acceptance rate ${percent(alpha)} (accepted / examined), ${length.toFixed(2)} tokens per forward.`,
      `Drafts of ${K} tokens. Acceptance rate ${percent(used)} (accepted / drafted), ${(1 + K * alpha).toFixed(2)} tokens per forward.`,
    ];
    this.reports.replaceChildren(
      ...told.map((text, at) => {
        const isWrong = this.isRevealed && at === 2;
        const item = element("li", isWrong ? "rejected" : "");
        item.append(element("b", "", `Report ${"ABC"[at]}`), ` ${text}`);
        return item;
      }),
    );
  }
}

/** @param {string} name */
function numberInput(name) {
  const input = element("input");
  input.type = "number";
  input.min = "0";
  input.step = "any";
  input.dataset.name = name;
  return input;
}

/**
 * @param {string} title
 * @param {HTMLElement} input
 */
function field(title, input) {
  const label = element("label", "plan-field");
  label.append(element("span", "", title), input);
  return label;
}

/** @param {number[]} positions */
function places(positions) {
  return positions.map((share) => share.toFixed(2)).join(", ");
}

/** @param {number} share */
function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}
