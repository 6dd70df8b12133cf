// Play a run moment by moment at a chosen speed.

import { option } from "../shared/dom.js";

const PACES = [1, 2, 5, 20];

export class StepPlayback {
  /**
   * @param {StepCursor} cursor
   * @param {HTMLButtonElement} button
   * @param {HTMLSelectElement} menu
   */
  constructor(cursor, button, menu) {
    this.cursor = cursor;
    this.button = button;
    this.menu = menu;
    this.timer = null;
    menu.append(...PACES.map((pace) => option(String(pace), `${pace}/s`)));
    menu.value = "2";
    menu.addEventListener("change", () => this.isPlaying && this.play());
    button.addEventListener("click", () => this.toggle());
  }

  get isPlaying() {
    return this.timer !== null;
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  // Start from the first moment again if the run is at its end.
  play() {
    const { cursor } = this;
    if (!cursor.current) return;
    this.pause();
    if (this.isAtEnd) cursor.toFirst();
    this.timer = window.setInterval(() => this.tick(), 1000 / Number(this.menu.value));
    this.show();
  }

  pause() {
    window.clearInterval(this.timer ?? undefined);
    this.timer = null;
    this.show();
  }

  tick() {
    if (this.isAtEnd) return this.pause();
    this.cursor.step(1);
  }

  get isAtEnd() {
    const { trace, round, at, moments } = this.cursor;
    return round === (trace?.rounds.length ?? 0) - 1 && at === moments.length - 1;
  }

  show() {
    this.button.classList.toggle("is-playing", this.isPlaying);
    this.button.setAttribute("aria-label", this.isPlaying ? "Pause" : "Play");
  }
}
