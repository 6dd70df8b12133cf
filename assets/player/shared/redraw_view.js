// A position of the text drawn anew, live: bars of kept guesses and of the target's own draws fill up to p,
// and the distance from p falls with its noise floor. Knows no run: a plan, and what its bins are called.

import { blankRows, cameOutRows, CURVE, drawCurve, keyLine, percent } from "./came_out.js";
import { drawing, element, setText } from "./dom.js";
import { DRAWS, Redraw } from "./redraw.js";

const SHOWN = 10; // bins of their own
const SECONDS = 3.5; // of a thousand draws
const BEGIN = 2.4; // how slowly the first draws come: the power of time by which they add up
const MOST = 0.5; // the distance at the top of the curve
const NOTHING = { redraw: null, history: [], series: 0 };

// What is drawn: `label` names a bin by its token's id, `own` is the outcome of the target's own draws,
// `Rule` draws, `isLossy` says that it cannot come out as p, and `written` is a token that has a bar, however
// rare.
/** @typedef {{ plan: RedrawPlan, seed: number, label: (id: number | null) => string, own: string, isLossy?: boolean, written?: number | null, Rule?: typeof Redraw }} RedrawSubject */

// What was drawn of a place so far.
/** @typedef {{ redraw: Redraw | null, history: { count: number, distance: number, floor: number }[], series: number }} Drawn */

export class RedrawView {
  /**
   * @param {HTMLElement} box
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
    this.goal = 0; // as many draws are to be made
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
    this.curve = /** @type {SVGElement} */ (drawing(CURVE));
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
  // `drawn`: what `drawn` of this view was when the place was left.
  /**
   * @param {RedrawSubject | null} subject
   * @param {string} how
   * @param {Drawn} [drawn]
   */
  setSubject(subject, how, { redraw, history, series } = NOTHING) {
    cancelAnimationFrame(this.frame);
    this.subject = subject;
    this.series = series;
    setText(this.how, how);
    this.redraw = redraw;
    this.history = [...history];
    this.goal = redraw?.count ?? 0;
    this.isOpen ||= redraw !== null;
    this.go.disabled = !subject;
    this.draw();
  }

  /** @returns {Drawn} */
  get drawn() {
    const { redraw, history, series } = this;
    return { redraw, history, series };
  }

  // No draws are on their way.
  get isDone() {
    return this.redraw !== null && this.redraw.count >= this.goal;
  }

  restart() {
    cancelAnimationFrame(this.frame);
    this.series += 1;
    this.redraw = null;
    this.history = [];
    this.draw();
    this.go.focus({ preventScroll: true });
  }

  // A thousand draws, or a thousand more; at once for who wants no motion.
  start() {
    const { subject } = this;
    if (!subject) return;
    this.isOpen = true;
    this.body.hidden = false;
    cancelAnimationFrame(this.frame);
    const { Rule = Redraw, plan, seed } = subject;
    const redraw = (this.redraw ??= new Rule(plan, seed + this.series));
    const [from, goal] = [redraw.count, redraw.count + DRAWS];
    this.goal = goal;
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
    this.goal = this.redraw?.count ?? 0;
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
    this.bins.replaceChildren(...(subject ? rows(subject, redraw) : blankRows(SHOWN + 2)));
    this.drawCurve();
    setText(this.said, subject && redraw ? resultWords(redraw, subject.isLossy ?? false, this.isDone) : "");
  }

  // The distance and its floor, as they fell.
  drawCurve() {
    const last = Math.max(DRAWS, this.history.at(-1)?.count ?? 0);
    const height = (/** @type {number} */ value) => Math.min(1, value / MOST);
    drawCurve(this.curve, this.history.map(({ count, distance, floor }) => ({ at: count / last, distance: height(distance), floor: height(floor) })));
  }
}

// The verdict comes when the draws stand still, so that it does not change its mind on the way.
/**
 * @param {Redraw} redraw
 * @param {boolean} isLossy
 * @param {boolean} isDone
 */
function resultWords({ count, distance, ceiling, accepted }, isLossy, isDone) {
  const kept = accepted.reduce((sum, each) => sum + each, 0);
  const many = `${count.toLocaleString("en")} draws`;
  const told = `${many}, ${Math.round((100 * kept) / count)} % of them kept guesses. Distance from p (total variation): ${distance.toFixed(3)}.`;
  if (!isDone) return told;
  const chance = `of as many draws from p itself hardly one series in a hundred lies farther away than ${ceiling.toFixed(3)}`;
  if (distance <= ceiling) return `${told} No more than chance: ${chance}.`;
  return `${told} More than chance: ${chance}. ${isLossy ? "More draws bring it no nearer: the rule is lossy." : "Draw more."}`;
}

// By falling p, the written token in the last place if not in one before, then all others together.
/**
 * @param {RedrawSubject} subject
 * @param {Redraw | null} redraw
 */
function rows({ plan, label, own, written = null }, redraw) {
  const bins = plan.p.map((_, bin) => bin);
  const shown = bins.slice(0, Math.min(SHOWN, bins.length - 1));
  const rare = written === null ? -1 : plan.ids.indexOf(written);
  if (rare >= SHOWN) shown[SHOWN - 1] = rare;
  const groups = [...shown.map((bin) => [bin]), bins.filter((bin) => !shown.includes(bin))];
  const bars = groups.map((group, at) => {
    const sum = (/** @type {number[]} */ values) => group.reduce((total, bin) => total + values[bin], 0);
    const [kept, drawn] = redraw ? [sum(redraw.accepted), sum(redraw.drawn)].map((each) => each / redraw.count) : [0, 0];
    const id = plan.ids[group[0]];
    const name = at === groups.length - 1 || id === null ? "all others" : label(id);
    const shares = /** @type {[string, number][]} */ ([["accepted", kept], [own, drawn]]);
    return { name, p: sum(plan.p), shares, came: kept + drawn > 0 ? percent(kept + drawn) : "" };
  });
  return cameOutRows(bars, SHOWN + 1);
}

function barsKey() {
  return keyLine([["i", "accepted", "guesses that were kept"], ["i", "recovered", "the target’s own draws"], ["b", "", "p, where they should end"]]);
}

function curveKey() {
  return keyLine([["i", "line", "distance from p"], ["i", "line floor", "noise floor: exact draws"]]);
}
