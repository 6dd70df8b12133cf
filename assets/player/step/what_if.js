// What if the draw had been another: drag u of the token under the cursor; the server walks the round
// again over what verification already computed, by the one rule in Python. Nothing is decoded.
// Knows a round's record; a result is marked counterfactual and never enters the run.

import { EXTRA } from "../cursor.js";
import { setText } from "../dom.js";
import { probability } from "../probability.js";
import { tokenLabel } from "../tooltip.js";
import { counterfactual } from "./counterfactual.js";

export class WhatIf {
  // `onChange` hears that another draw is thought of.
  constructor(refs, ask, onChange) {
    Object.assign(this, { refs, ask, onChange });
    refs.whatIfDraw.addEventListener("input", () => this.dragged());
    refs.whatIfReset.addEventListener("click", () => (this.reset(), this.onChange()));
    refs.whatIfFork.addEventListener("click", () => refs.forkGo.focus());
    this.clear();
  }

  clear() {
    this.key = null;
    this.thought = null;
    this.question = (this.question ?? 0) + 1; // a reply under way is of another place
    this.refs.whatIf.hidden = true;
  }

  draw(trace, cursor) {
    const { refs } = this;
    const { node, current: round } = cursor;
    const isDrawn = node !== null && node !== EXTRA && cursor.moment.phase === "judge" && !trace.isGreedy && !round.isTypical;
    const u = isDrawn ? round.verdict(node).u : null;
    refs.whatIf.hidden = u === null;
    if (u === null) return this.clear();
    if (this.key === `${cursor.round} ${node}` && this.trace === trace) return;
    Object.assign(this, { key: `${cursor.round} ${node}`, trace, round, node });
    this.reset();
  }

  // The draws that differ from the record's, by node.
  get forced() {
    if (this.key === null || this.refs.whatIfActions.hidden) return {};
    return { [this.node]: Number(this.refs.whatIfDraw.value) };
  }

  reset() {
    const { refs, round, node, trace } = this;
    const { u, accept } = round.verdict(node);
    this.question += 1;
    this.thought = null;
    refs.whatIfDraw.value = String(u);
    setText(refs.whatIfValue, probability(u));
    const text = tokenLabel(trace.text(round.tokenId(node)));
    const side = u < accept ? `At ${probability(accept)} or above ${text} is rejected.` : `Below ${probability(accept)} ${text} is accepted.`;
    setText(refs.whatIfText, accept >= 1 ? `Any u accepts ${text}: p ≥ q.` : accept <= 0 ? `No u accepts ${text}: p is 0 here.` : `Drag u. ${side}`);
    setText(refs.whatIfResult, "");
    refs.whatIfActions.hidden = true;
  }

  async dragged() {
    const { refs, round, node, trace } = this;
    const u = Number(refs.whatIfDraw.value);
    setText(refs.whatIfValue, probability(u));
    refs.whatIfActions.hidden = false;
    this.onChange();
    const question = (this.question += 1);
    const reply = await this.ask("what_if", { record: round.record, forced: { [node]: u }, ends: trace.endIds });
    if (question !== this.question) return;
    this.thought = reply && !reply.error && reply.differs ? counterfactual(round, reply, { [node]: u }) : null;
    this.onChange();
    setText(refs.whatIfResult, this.words(reply, trace, round));
  }

  words(reply, trace, round) {
    if (!reply) return "The server cannot be reached.";
    if (reply.error) return reply.error;
    const texts = (ids) => ids.map((id) => (id === null ? "…" : tokenLabel(trace.text(id)))).join(" ");
    const was = texts(round.emitted.map((each) => each.id));
    if (!reply.differs) return `Nothing changes: the round still adds ${was}`;
    return `Counterfactual: the round would add ${texts(reply.emitted)} instead of ${was}`;
  }
}
