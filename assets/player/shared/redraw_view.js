// An animated repetition of the draws at one position. Bars of accepted drafted tokens and of the
// target's own draws grow towards p, and the distance from p decreases with its noise floor. The
// view needs only a plan and the names of its bins, no run.

import { blankRows, cameOutRows, CURVE, drawCurve, drawnShare, keyLine } from "./came_out.js";
import { drawing, element, setText } from "./dom.js";
import { DRAWS, Redraw } from "./redraw.js";

const SHOWN = 10; // number of bins that have a bar of their own
const SECONDS = 3.5; // duration of a thousand draws
const BEGIN = 2.4; // exponent of the animation's speed; a larger one starts more slowly
const MOST = 0.5; // the distance at the top of the curve
const NOTHING = { redraw: null, history: [], series: 0 };

// The position whose draws are repeated. `plan` is a plan of shared/redraw.js. `label` returns the
// name of a bin from its token id. `own` is the name of the outcome of tokens that the target draws
// itself. `Rule` is the class that makes the draws. `isLossy` is true if the rule is lossy, so that
// the draws need not follow p. `written` is the id of a token that has a bar even if it is rare.
/** @typedef {{ plan: RedrawPlan, seed: number, label: (id: number | null) => string, own: string, isLossy?: boolean, written?: number | null, Rule?: typeof Redraw }} RedrawSubject */

// The draws of a position so far.
/** @typedef {{ redraw: Redraw | null, history: { count: number, distance: number, floor: number }[], series: number }} Drawn */

export class RedrawView {
  /**
   * @param {HTMLElement} box
   * @param {() => void} [onDraw] is called after each drawing
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
    this.series = 0; // how often drawing was started at this position
    this.goal = 0; // how many draws are wanted in total
    this.frame = 0;
    this.isOpen = false; // false until the first draw; the bars then appear
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
    this.bins.setAttribute("aria-label", "Drawn shares by token");
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

  // Show another position, or none if `subject` is null. `how` says how the tokens of the position
  // are drawn, or why there is none. The last argument has the earlier draws (`drawn`) of this
  // position, if the user has come back to it.
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

  // Return whether all wanted draws were made.
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

  // Start a thousand draws, or a thousand more. They appear at once if the system setting asks for
  // reduced motion.
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
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches)
      return this.add(redraw, goal);
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

  draw() {
    const { subject, redraw } = this;
    this.box.classList.toggle("is-off", !subject);
    this.box.closest(".card")?.classList.toggle("is-to-come", !subject);
    this.body.hidden = !this.isOpen;
    this.over.hidden = !redraw;
    setText(this.go, redraw ? "1,000 more draws" : "Redraw this position 1,000 times");
    this.bins.replaceChildren(...(subject ? rows(subject, redraw) : blankRows(SHOWN + 2)));
    this.drawCurve();
    setText(
      this.said,
      subject && redraw ? resultWords(redraw, subject.isLossy ?? false, this.isDone) : "",
    );
  }

  // Draw the curves of the distance and its noise floor.
  drawCurve() {
    const last = Math.max(DRAWS, this.history.at(-1)?.count ?? 0);
    const height = (/** @type {number} */ value) => Math.min(1, value / MOST);
    drawCurve(
      this.curve,
      this.history.map(({ count, distance, floor }) => ({
        at: count / last,
        distance: height(distance),
        floor: height(floor),
      })),
    );
  }
}

// Return the result of the draws in words. The verdict appears only after the last draw, because an
// earlier verdict could change again.
/**
 * @param {Redraw} redraw
 * @param {boolean} isLossy
 * @param {boolean} isDone
 */
function resultWords({ count, distance, ceiling, accepted }, isLossy, isDone) {
  const kept = accepted.reduce((sum, each) => sum + each, 0);
  const many = `${count.toLocaleString("en")} draws`;
  const sentence = `${many}, ${Math.round((100 * kept) / count)} % of them kept a guess. Distance from p (total variation): ${distance.toFixed(3)}.`;
  if (!isDone) return sentence;
  const chance = `if as many tokens are drawn from p itself, hardly one series in a hundred has a distance above ${ceiling.toFixed(3)}`;
  if (distance <= ceiling) return `${sentence} No more than chance: ${chance}.`;
  return `${sentence} More than chance: ${chance}. ${isLossy ? "More draws do not bring it nearer, because the rule is lossy." : "Draw more."}`;
}

// Return the rows, sorted by decreasing p, and a last row for all other tokens. If the token
// `written` is too rare for the list, it replaces the last single token.
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
    const sum = (/** @type {number[]} */ values) =>
      group.reduce((total, bin) => total + values[bin], 0);
    const [kept, drawn] = redraw
      ? [sum(redraw.accepted), sum(redraw.drawn)].map((each) => each / redraw.count)
      : [0, 0];
    const id = plan.ids[group[0]];
    const name = at === groups.length - 1 || id === null ? "all others" : label(id);
    const shares = /** @type {[string, number][]} */ ([
      ["accepted", kept],
      [own, drawn],
    ]);
    return { name, p: sum(plan.p), shares, came: kept + drawn > 0 ? drawnShare(kept + drawn) : "" };
  });
  return cameOutRows(bars, SHOWN + 1);
}

function barsKey() {
  return keyLine([
    ["i", "accepted", "guesses that were kept"],
    ["i", "recovered", "the target’s own draws"],
    ["b", "", "p, where they should end"],
  ]);
}

function curveKey() {
  return keyLine([
    ["i", "line", "distance from p"],
    ["i", "line floor", "noise floor: exact draws"],
  ]);
}
