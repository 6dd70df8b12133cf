// The lab: its cards, and what keys do on it.
// Knows its cards by name and no card's inside.

import { SweepCard } from "./sweep_card.js";

export class LabPage {
  constructor(refs, theme, setup, gradio) {
    this.refs = refs;
    this.sweep = new SweepCard(refs, theme, setup, gradio, { onPoint: () => {} });
    this.isOpened = false;
  }

  onShow(isShown) {
    if (!isShown || this.isOpened) return;
    this.isOpened = true;
    this.sweep.recall();
  }

  get runs() {
    return [this.sweep.run];
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

  // Whatever of this page runs.
  halt() {
    for (const run of this.runs) run.stop();
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
