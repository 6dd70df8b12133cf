// A position of the text drawn anew, live: bars of kept guesses and of the target's own draws fill up to p,
// and the distance from p falls with its noise floor. Knows no run: a plan, and what its bins are called.

import { element, setText } from "./dom.js";
import { DRAWS, Redraw } from "./redraw.js";

const SHOWN = 10; // bins of their own
const SECONDS = 3.5; // of a thousand draws
const BEGIN = 2.4; // how slowly the first draws come: the power of time by which they add up
const FULL = 0.8; // of a track, for the largest p
const [WIDTH, HEIGHT, MOST] = [260, 120, 0.5]; // of the curve, and the distance at its top

// What is drawn: `label` names a bin by its token's id, `own` is the outcome of the target's own draws,
// `Rule` draws, and `isLossy` says that it cannot come out as p.
/** @typedef {{ plan: RedrawPlan, seed: number, label: (id: number | null) => string, own: string, isLossy?: boolean, Rule?: typeof Redraw }} RedrawSubject */

export class RedrawView {
  /**
   * @param {HTMLElement} box with the drawing of the curve
   * @param {() => void} [onDraw] hears when something was drawn
   */
  constructor(box, onDraw = () => {}) {
    this.box = box;
    this.onDraw = onDraw;
    /** @type {RedrawSubject | null} */
    this.subject = null;
    /** @type {Redraw | null} */
    this.redraw = null;
    this.how = element("p", "redraw-how");
    /** @type {{ count: number, distance: number, floor: number }[]} */
    this.history = [];
    this.series = 0; // how many times it began here
    this.frame = 0;
    this.isOpen = false; // the bars have their room once someone asks for them
    this.go = element("button", "primary");
    this.go.type = "button";
    this.go.title = "Redraw this position (R)";
    this.go.setAttribute("aria-keyshortcuts", "R");
    this.go.addEventListener("click", () => this.start());
    this.over = element("button", "chip", "Start over");
    this.over.type = "button";
    this.over.addEventListener("click", () => this.restart());
    this.said = element("p", "redraw-said");
    this.said.setAttribute("role", "status");
    const buttons = element("p", "row tight");
    buttons.append(this.go, this.over);
    this.bins = element("ol", "redraw-bins");
    this.bins.setAttribute("aria-label", "What came out, by token");
    this.curve = /** @type {SVGElement} */ (box.querySelector("svg"));
    const side = element("div", "redraw-side");
    side.append(this.curve, curveKey(), this.said);
    this.body = element("div", "redraw-body");
    const left = element("div");
    left.append(barsKey(), this.bins);
    this.body.append(left, side);
    this.box.replaceChildren(this.how, buttons, this.body);
  }

  get plan() {
    return this.subject?.plan ?? null;
  }

  // Another position, null for none; `how` says how it is drawn, or why there is none.
  /**
   * @param {RedrawSubject | null} subject
   * @param {string} how
   */
  setSubject(subject, how) {
    cancelAnimationFrame(this.frame);
    this.subject = subject;
    this.series = 0;
    setText(this.how, how);
    this.forget();
  }

  forget() {
    this.redraw = null;
    this.history = [];
    this.go.disabled = !this.subject;
    this.draw();
  }

  restart() {
    cancelAnimationFrame(this.frame);
    this.series += 1;
    this.forget();
    this.go.focus({ preventScroll: true });
  }

  // A thousand draws, or a thousand more; at once for who wants no motion.
  start() {
    const { subject } = this;
    if (!subject) return;
    this.isOpen = true;
    cancelAnimationFrame(this.frame);
    const { Rule = Redraw, plan, seed } = subject;
    const redraw = (this.redraw ??= new Rule(plan, seed + this.series));
    const [from, goal] = [redraw.count, redraw.count + DRAWS];
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return this.add(redraw, goal);
    const began = performance.now();
    const step = (/** @type {number} */ now) => {
      const share = Math.min(1, (now - began) / (1000 * SECONDS));
      this.add(redraw, from + Math.ceil(DRAWS * share ** BEGIN));
      if (redraw.count < goal) this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  halt() {
    cancelAnimationFrame(this.frame);
  }

  /**
   * @param {Redraw} redraw
   * @param {number} goal
   */
  add(redraw, goal) {
    while (redraw.count < goal) {
      redraw.draw(Math.min(10, goal - redraw.count));
      const { count, distance, floor } = redraw;
      this.history.push({ count, distance, floor });
    }
    this.draw();
    this.onDraw();
  }

  // ---- drawing

  draw() {
    const { subject, redraw } = this;
    this.box.classList.toggle("is-off", !subject);
    this.box.closest(".card")?.classList.toggle("is-to-come", !subject);
    this.body.hidden = !this.isOpen;
    this.over.hidden = !redraw;
    setText(this.go, redraw ? "1,000 more draws" : "Redraw this position 1,000 times");
    this.bins.replaceChildren(...(subject ? rows(subject, redraw) : blanks()));
    this.drawCurve();
    setText(this.said, subject && redraw ? resultWords(redraw, subject.isLossy ?? false) : "");
  }

  // The distance and its floor, as they fell.
  drawCurve() {
    const last = Math.max(DRAWS, this.history.at(-1)?.count ?? 0);
    for (const name of /** @type {("distance" | "floor")[]} */ (["distance", "floor"])) {
      const points = this.history.map((at) => `${((WIDTH * at.count) / last).toFixed(1)},${(HEIGHT * (1 - Math.min(1, at[name] / MOST))).toFixed(1)}`);
      this.curve.querySelector(`.${name}`)?.setAttribute("points", points.join(" "));
    }
  }
}

/**
 * @param {Redraw} redraw
 * @param {boolean} isLossy
 */
function resultWords({ count, distance, floor, accepted }, isLossy) {
  const kept = accepted.reduce((sum, each) => sum + each, 0);
  const told = `${count.toLocaleString("en")} draws, ${Math.round((100 * kept) / count)} % of them kept guesses. Distance from p (total variation): ${distance.toFixed(3)}; as many exact draws would be ${floor.toFixed(3)} away on average.`;
  if (distance < 2 * floor) return `${told} So only noise is left.`;
  return isLossy ? `${told} More draws bring it no nearer: the rule is lossy.` : `${told} Chance: draw more.`;
}

// By falling p, then all others together.
/**
 * @param {RedrawSubject} subject
 * @param {Redraw | null} redraw
 */
function rows({ plan, label, own }, redraw) {
  const most = Math.max(...plan.p);
  const bins = plan.p.map((_, bin) => bin);
  const shown = bins.slice(0, Math.min(SHOWN, bins.length - 1)).map((bin) => [bin]);
  const groups = [...shown, bins.slice(shown.length)];
  const made = groups.map((group, at) => {
    const sum = (/** @type {number[]} */ values) => group.reduce((total, bin) => total + values[bin], 0);
    const counts = redraw ? [sum(redraw.accepted), sum(redraw.drawn)].map((each) => each / redraw.count) : [0, 0];
    const id = plan.ids[group[0]];
    const name = at === groups.length - 1 || id === null ? "all others" : label(id);
    return row(name, sum(plan.p), counts, own, most);
  });
  return [headRow(), ...made, ...blanks().slice(made.length + 1)];
}

/**
 * @param {string} name
 * @param {number} p
 * @param {number[]} counts
 * @param {string} own
 * @param {number} most
 */
function row(name, p, [kept, drawn], own, most) {
  const made = element("li");
  const track = element("span", "redraw-track");
  const width = (/** @type {number} */ share) => `${Math.min(100, (100 * FULL * share) / most)}%`;
  for (const [outcome, share] of /** @type {[string, number][]} */ ([["accepted", kept], [own, drawn]])) {
    const bar = element("i", outcome);
    bar.style.width = width(share);
    track.append(bar);
  }
  const goal = element("b");
  goal.style.left = width(p);
  track.append(goal);
  const came = kept + drawn > 0 ? percent(kept + drawn) : "";
  made.append(element("span", "redraw-name", name), track, element("span", "number", came), element("span", "number goal", percent(p)));
  return made;
}

function headRow() {
  const made = element("li", "hint");
  made.append(element("span"), element("span"), element("span", "number", "came out"), element("span", "number", "p"));
  return made;
}

// Rows that hold the room of those to come, their head's among them.
function blanks() {
  return Array.from({ length: SHOWN + 2 }, () => {
    const made = element("li", "is-blank", "\u00a0");
    made.setAttribute("aria-hidden", "true");
    return made;
  });
}

/** @param {number} value */
function percent(value) {
  return value > 0 && value < 0.0005 ? "< 0.1 %" : `${(100 * value).toFixed(1)} %`;
}

function barsKey() {
  const key = element("p", "redraw-key hint");
  key.append(keyed(element("i", "accepted"), "guesses that were kept"), keyed(element("i", "recovered"), "the target’s own draws"), keyed(element("b"), "p, where they should end"));
  return key;
}

function curveKey() {
  const key = element("p", "redraw-key hint");
  key.append(keyed(element("i", "line"), "distance from p"), keyed(element("i", "line floor"), "noise floor: exact draws"));
  return key;
}

/**
 * @param {HTMLElement} mark
 * @param {string} words
 */
function keyed(mark, words) {
  const made = element("span");
  made.append(mark, words);
  return made;
}
