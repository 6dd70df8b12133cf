// A widget about one drafted token of a recorded run and its verdict. It shows p and q as bars that
// the learner can drag, and the draw u on a line. It also draws the position a thousand times, by
// the right rule or by a wrong one.

import { codeMoment } from "../../shared/code_moments.js";
import { CodeView } from "../../shared/code_view.js";
import { EXTRA } from "../../shared/cursor.js";
import { element, setText } from "../../shared/dom.js";
import { probability } from "../../shared/number_words.js";
import { DRAWS, Redraw, redrawPlan } from "../../shared/redraw.js";
import { RedrawView } from "../../shared/redraw_view.js";
import { tokenLabel } from "../../shared/token_label.js";
import { Widget } from "../widget.js";
import {
  acceptance,
  barsOf,
  beyond,
  changed,
  common,
  overlap,
  owedBin,
} from "./two_distributions.js";
import { doubledBin, RedrawFromTarget } from "./wrong_redraw.js";

const CONTEXT = 14; // tokens of the text before the draft
const [WIDE, NARROW] = [0.9, 0.1]; // overlaps that exercises ask the learner to reach

// A strip shows the parts of a probability, one per token. These are the smallest share of the
// strip that is drawn, and the smallest share with enough space for the token's name.
const [SLIVER, NAMED] = [0.002, 0.12];
const STEPS = 200; // steps of a slider from 0 to 1

export class AcceptReject extends Widget {
  static id = "accept-reject";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Record<string, string>} */
    this.scene = {};
    /** @type {any} the recorded position: trace, round, node, plan */
    this.place = null;
    /** @type {ReturnType<typeof barsOf> | null} */
    this.bars = null;
    /** @type {ReturnType<AcceptReject["row"]>[]} */
    this.sliders = [];
    this.u = 0;
    this.isRevealed = false;
    this.seen = new Set(); // the verdicts that the learner has produced in this step
    this.context = element("p", "guess-context");
    this.key = barsKey();
    this.rows = element("div", "guess-bars");
    this.balance = element("dl", "guess-balance");
    this.line = new DrawLine((u) => this.setDraw(u));
    this.verdict = element("p", "guess-verdict");
    this.verdict.setAttribute("role", "status");
    const redraw = element("div", "redraw");
    this.redraw = new RedrawView(redraw, () => this.drawn());
    this.redrawBox = redraw;
    box.classList.add("guess");
    this.codeBox = element("div", "guess-code");
    this.code = new CodeView(this.codeBox, course.setup.code);
    box.replaceChildren(
      this.context,
      this.key,
      this.rows,
      this.balance,
      this.line.box,
      this.verdict,
      redraw,
      this.codeBox,
    );
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.scene = scene;
    this.isRevealed = false;
    this.seen.clear();
    this.redraw.halt();
    const trace = await this.course.recordings.open(scene.trace);
    if (this.scene !== scene) return; // the learner has moved to another step
    const round = trace.rounds[Number(scene.round) - 1];
    const node = Number(scene.node ?? 0);
    const id = round.tokenId(node);
    const plan = /** @type {RedrawPlan} */ (redrawPlan(round, round.parentOf(node)));
    const bars = barsOf(plan, plan.ids.indexOf(id));
    const { p, q, u } = round.verdict(node);
    bars.p[bars.guess] = p; // the plan has scaled p and q, but the verdict compares the recorded values
    bars.q[bars.guess] = q;
    this.place = { trace, round, node, id, plan };
    this.bars = bars;
    this.recorded = u ?? 0;
    this.u = scene.u === "free" ? 0 : this.recorded;
    this.build();
    if (scene.u === "free") this.seen.add(this.isKept);
    this.on.changed();
  }

  reveal() {
    this.isRevealed = true;
    this.draw();
    this.on.changed();
  }

  get values() {
    const { place, bars } = this;
    if (!place || !bars) return {};
    const { trace, id, plan } = place;
    const [p, q] = [bars.p[bars.guess], bars.q[bars.guess]];
    const text = (/** @type {number} */ each) => trace.text(each);
    const favourite = plan.ids[0];
    const owed = owedBin(plan);
    const [most, least] = [this.largestGap(1), this.largestGap(-1)];
    return {
      token: text(id),
      p,
      q,
      u: this.u,
      ratio: q > 0 ? p / q : Infinity,
      common: Math.min(p, q),
      left: Math.max(0, p - q),
      accept: acceptance(p, q),
      recorded_u: this.recorded,
      p_share: p,
      q_share: q,
      accept_share: acceptance(p, q),
      reject: 1 - acceptance(p, q),
      overlap: overlap(bars),
      thrown: 1 - overlap(bars),
      wide: WIDE,
      narrow: NARROW,
      favourite: text(favourite),
      favourite_p: plan.p[0],
      prompt: trace.header.prompt,
      model: trace.header.target.name,
      draws: DRAWS,
      distance: this.redraw.redraw?.distance,
      floor: this.redraw.redraw?.floor,
      more_token: most?.token,
      more_came: most?.came,
      more_p: most?.p,
      twice_token: text(plan.ids[doubledBin(plan)]),
      owed_token: text(plan.ids[owed]),
      owed_p: plan.p[owed],
      owed_common: Math.min(plan.p[owed], plan.q[owed]),
      owed_left: Math.max(0, plan.p[owed] - plan.q[owed]),
      less_token: least?.token,
      less_came: least?.came,
      less_p: least?.p,
    };
  }

  // Return the token that was drawn too often (`sign` 1) or too rarely (`sign` -1) by the largest
  // amount.
  /** @param {number} sign */
  largestGap(sign) {
    const { redraw } = this.redraw;
    if (!redraw) return null;
    const { plan, trace } = this.place;
    const gaps = plan.p
      .slice(0, -1)
      .map((/** @type {number} */ p, /** @type {number} */ bin) => sign * (redraw.share(bin) - p));
    const bin = gaps.indexOf(Math.max(...gaps));
    return { token: trace.text(plan.ids[bin]), came: redraw.share(bin), p: plan.p[bin] };
  }

  /** @param {number} u */
  setDraw(u) {
    this.u = u;
    this.draw();
    this.seen.add(this.isKept);
    if (this.seen.size === 2) this.on.reached("both-verdicts");
    this.on.changed();
  }

  get isKept() {
    const { bars } = this;
    return bars !== null && this.u < acceptance(bars.p[bars.guess], bars.q[bars.guess]);
  }

  /**
   * @param {"p" | "q"} which
   * @param {number} at
   * @param {number} value
   */
  drag(which, at, value) {
    const { bars } = this;
    if (!bars) return;
    this.bars = { ...bars, [which]: changed(bars[which], at, value) };
    this.draw();
    const shared = overlap(this.bars);
    if (shared >= WIDE) this.on.reached("wide-overlap");
    if (shared <= NARROW) this.on.reached("narrow-overlap");
    this.on.changed();
  }

  drawn() {
    const { redraw } = this.redraw;
    if (redraw && redraw.count >= DRAWS) this.on.reached("drawn");
    this.on.changed();
  }

  halt() {
    this.redraw.halt();
  }

  build() {
    const { scene, place, bars } = this;
    if (!bars) return;
    this.drawContext();
    const isRedraw = scene.show === "redraw";
    this.rows.hidden = this.key.hidden = isRedraw;
    this.redrawBox.hidden = !isRedraw;
    this.line.box.hidden = this.verdict.hidden = scene.u === undefined;
    const shown = scene.show === "guess" ? [bars.guess] : bars.p.map((_, at) => at);
    this.sliders = shown.map((at) => this.row(at));
    this.rows.replaceChildren(...this.sliders.map(({ row }) => row));
    this.line.setFree(scene.u === "free");
    if (isRedraw) this.setRedraw(place);
    this.draw();
  }

  /** @param {any} place */
  setRedraw({ trace, plan, round }) {
    const isWrong = this.scene.rule === "target";
    const Rule = isWrong ? RedrawFromTarget : Redraw;
    const label = (/** @type {number | null} */ id) =>
      id === null ? "" : tokenLabel(trace.text(id));
    const from = isWrong ? "from p" : "from what is left of p";
    this.redraw.setSubject(
      { plan, seed: round.record.i * 1024, label, own: "recovered", isLossy: isWrong, Rule },
      `Each time a guess is drawn from q and kept with probability min(1, p/q); after a rejection the word is drawn ${from}.`,
    );
  }

  // Mark the lines of code that judge the drafted token, or that draw its replacement.
  /**
   * @param {boolean} isTold
   * @param {number} chance
   */
  drawCode(isTold, chance) {
    const { scene, place, u } = this;
    this.codeBox.hidden = scene.code !== "true" || !isTold;
    if (this.codeBox.hidden) return;
    const isRedraw = scene.show === "redraw";
    const moment = codeMoment(
      place.trace,
      place.round,
      isRedraw ? { phase: "extra", node: EXTRA } : { phase: "judge", node: place.node },
    );
    if (!isRedraw)
      Object.assign(moment.values, { uniform: probability(u), "min(1, p/q)": probability(chance) });
    this.code.show({ ...moment, name: isRedraw ? "extra" : this.isKept ? "accepted" : "rejected" });
  }

  // Show the text up to and including the drafted token, as if it were accepted.
  drawContext() {
    const { trace, round, node, id } = this.place;
    const { depth } = round.record.tree.nodes;
    const end = round.firstToken + (node === EXTRA ? 0 : depth[node] - 1);
    const before = trace.main.tokens
      .slice(Math.max(0, end - CONTEXT), end)
      .map((/** @type {Token} */ { text }) => text)
      .join("");
    this.context.replaceChildren(
      element("span", "hint", `“${trace.header.prompt}” `),
      end > CONTEXT ? "… " : "",
      before,
      element("mark", "", trace.text(id)),
    );
  }

  /**
   * @param {number} at
   * @returns {{ row: HTMLElement, at: number, shared: HTMLElement, sliders: { which: "p" | "q", input: HTMLInputElement, number: HTMLElement }[] }}
   */
  row(at) {
    const { bars, scene } = this;
    const name = this.nameOf(at);
    const row = element("div", at === bars?.guess ? "guess-row is-guess" : "guess-row");
    const both = element("div", "guess-both");
    const shared = element("i", "guess-shared");
    shared.hidden = scene.show !== "overlap" && scene.show !== "balance";
    const sliders = /** @type {("p" | "q")[]} */ (["p", "q"]).map((which) => {
      const input = slider(`${which === "p" ? "target p" : "draft q"} of ${name}`, which);
      input.disabled = scene.drag !== "true";
      input.addEventListener("input", () => this.drag(which, at, Number(input.value) / STEPS));
      const number = element("span", "number");
      const line = element("label", "guess-slider");
      line.append(element("i", "", which), input, number);
      both.append(line);
      return { which, input, number };
    });
    both.append(shared);
    row.append(element("span", "guess-name", name), both);
    return { row, at, sliders, shared };
  }

  draw() {
    const { bars, scene } = this;
    if (!bars) return;
    for (const { at, sliders, shared } of this.sliders) {
      for (const { which, input, number } of sliders) {
        const value = bars[which][at];
        input.value = String(Math.round(value * STEPS));
        input.style.setProperty("--fill", `${100 * value}%`);
        setText(number, probability(value));
      }
      shared.style.setProperty("--share", String(common(bars, at)));
    }
    const chance = acceptance(bars.p[bars.guess], bars.q[bars.guess]);
    const isTold = scene.verdict !== "hidden" || this.isRevealed;
    this.balance.hidden = scene.show !== "balance" || !isTold;
    if (!this.balance.hidden) this.drawBalance(bars);
    this.line.draw(this.u, chance, isTold);
    this.verdict.className = `guess-verdict${isTold ? (this.isKept ? " accepted" : " rejected") : ""}`;
    const words = this.isKept
      ? "u is below it: the guess is kept"
      : "u is not below it: the guess is thrown away";
    this.drawCode(isTold, chance);
    setText(
      this.verdict,
      isTold
        ? `min(1, p/q) = ${probability(chance)}, u = ${probability(this.u)}: ${words}.`
        : "Kept, or thrown away?",
    );
  }

  // Show by how much q exceeds p and by how much p exceeds q, as two strips of the same scale.
  /** @param {import("./two_distributions.js").Bars} bars */
  drawBalance(bars) {
    const { thrown, owed } = beyond(bars);
    this.balance.replaceChildren(
      ...this.strip("thrown away: q beyond p", "rejected", thrown),
      ...this.strip("still owed: p beyond q", "recovered", owed),
    );
  }

  /**
   * @param {string} title
   * @param {string} className
   * @param {number[]} shares the share of each bar in the strip
   */
  strip(title, className, shares) {
    const strip = element("span", `balance-strip ${className}`);
    shares.forEach((share, at) => {
      if (share < SLIVER) return;
      const part = element("i", "", share < NAMED ? "" : this.nameOf(at));
      part.title = `${this.nameOf(at)} ${probability(share)}`;
      part.style.width = `${100 * share}%`;
      strip.append(part);
    });
    const sum = element("dd");
    sum.append(
      strip,
      element("span", "number", probability(shares.reduce((total, share) => total + share, 0))),
    );
    return [element("dt", "hint", title), sum];
  }

  /** @param {number} at */
  nameOf(at) {
    const label = this.bars?.labels[at] ?? null;
    return label === null ? "all others" : tokenLabel(this.place.trace.text(Number(label)));
  }
}

// The draw u on a line from 0 to 1. Below the acceptance probability the drafted token is accepted.
class DrawLine {
  /** @param {(u: number) => void} onMove */
  constructor(onMove) {
    this.box = element("div", "draw-line");
    this.input = slider("uniform draw u", "u");
    this.input.addEventListener("input", () => onMove(Number(this.input.value) / STEPS));
    this.roll = element("button", "chip", "Draw u");
    this.roll.type = "button";
    this.roll.addEventListener("click", () => onMove(Math.random()));
    this.zones = element("div", "draw-zones");
    this.zones.append(
      element("span", "accepted", "kept"),
      element("span", "rejected", "thrown away"),
    );
    const label = element("label", "guess-slider");
    this.number = element("span", "number");
    label.append(element("i", "", "u"), this.input, this.number);
    this.box.append(this.zones, label, this.roll);
  }

  /** @param {boolean} isFree */
  setFree(isFree) {
    this.input.disabled = !isFree;
    this.roll.hidden = !isFree;
  }

  /**
   * @param {number} u
   * @param {number} chance
   * @param {boolean} isTold
   */
  draw(u, chance, isTold) {
    this.input.value = String(Math.round(u * STEPS));
    this.box.style.setProperty("--chance", `${100 * chance}%`);
    this.zones.style.visibility = isTold ? "" : "hidden";
    setText(this.number, probability(u));
  }
}

/**
 * @param {string} label
 * @param {string} className
 */
function slider(label, className) {
  const input = element("input", `bar-${className}`);
  input.type = "range";
  input.min = "0";
  input.max = String(STEPS);
  input.setAttribute("aria-label", label);
  return input;
}

function barsKey() {
  const key = element("p", "guess-key hint");
  const target = element("span");
  target.append(element("i", "bar-p"), "p, the target’s");
  const draft = element("span");
  draft.append(element("i", "bar-q"), "q, the draft’s");
  key.append(target, draft);
  return key;
}
