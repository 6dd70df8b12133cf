// The lab: its cards, and what keys do on it.
// Knows its cards by name and no card's inside.

import { AdviceCard } from "./advice_card.js";
import { ClaimsCard } from "./claims_card.js";
import { CostCard } from "./cost_card.js";
import { PeersCard } from "./peers_card.js";
import { SettingForm } from "./setting_form.js";
import { SweepCard } from "./sweep_card.js";

export class LabPage {
  constructor(refs, theme, setup, gradio) {
    this.refs = refs;
    const setting = () => this.setting;
    this.sweep = new SweepCard(refs, theme, setup, gradio, { setting, onPoint: (...point) => this.costs.setPoint(...point) });
    const ask = (name, question) => this.sweep.run.transport.ask(name, question);
    this.setting = new SettingForm(refs, setup, ask, {
      changed: () => this.sweep.form.drawSize(),
      offer: (refusals) => this.sweep.form.offer(refusals),
    });
    this.sweep.form.begin();
    this.costs = new CostCard(refs, ask);
    this.peers = new PeersCard(refs, gradio, { setting });
    this.claims = new ClaimsCard(refs, gradio);
    this.advice = new AdviceCard(refs, setup, gradio, { setting, onSweep: (method) => this.sweep.startWith(method) });
    this.isOpened = false;
  }

  onShow(isShown) {
    if (!isShown || this.isOpened) return;
    this.isOpened = true;
    this.sweep.recall();
    this.costs.reckon();
    this.claims.load();
  }

  get actions() {
    const { views } = this.sweep;
    return {
      stop: (by) => views.step(by),
      first: () => views.step(-Infinity),
      last: () => views.step(Infinity),
      race: () => this.sweep.start(),
    };
  }

  // Whatever of this page runs or waits.
  halt() {
    for (const { run } of [this.sweep, this.peers, this.claims, this.advice]) run.stop();
  }

  // For the button that copies a link.
  get place() {
    const url = new URL("?view=lab", window.location.href);
    return { write: () => {}, link: url.href, linkLimit: "of this page: a sweep is sent as its file" };
  }

  repaint() {
    this.sweep.views.repaint();
  }
}
