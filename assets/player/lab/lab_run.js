// A measurement that the server makes for one card: its start button, its stop button, its position
// in the queue, and its messages.

import { giveTurn, setText } from "../shared/dom.js";
import { endWords, waitingWords } from "../shared/number_words.js";
import { Transport } from "../shared/transport.js";

export class LabRun {
  // `parts` are the start button, the stop button and the status line: { go, stop, state }. It is
  // null if `attach` passes them later. `on` has the listeners { begun(), message(message),
  // failed(text), ended() }.
  /**
   * @param {{ go: any, stop: any, state: any } | null} parts
   * @param {GradioLink} gradio
   * @param {{ begun?: () => void, message: (message: any) => void, failed: (text: string) => void, ended?: () => void }} on
   */
  constructor(parts, gradio, on) {
    this.on = on;
    this.transport = new Transport(gradio, {
      accepted: () => (
        this.setBusy(true),
        this.showState("starting …"),
        this.warn(""),
        on.begun?.()
      ),
      message: (message) => this.take(message),
      queued: (...ahead) => this.showState(waitingWords(...ahead)),
      failed: (text) => this.failed(text),
    });
    if (parts) this.attach(parts);
  }

  // Use other buttons and another status line. A card that measures many things calls this before
  // each measurement.
  /** @param {{ go: any, stop: any, state: any }} parts */
  attach({ go, stop, state }) {
    if (stop !== this.stopButton) {
      stop.addEventListener("click", () => this.stop());
      // Ignore a repeated Enter key, because the key press that started the measurement must not
      // stop it.
      stop.addEventListener(
        "keydown",
        (/** @type {any} */ event) => event.repeat && event.preventDefault(),
      );
    }
    this.go = go;
    this.stopButton = stop;
    this.state = state;
  }

  get isBusy() {
    return this.transport.isBusy;
  }

  // `what` is the server's name of the measurement.
  /**
   * @param {string} what
   * @param {object} question
   */
  async start(what, question) {
    if (!this.isBusy) await this.transport.start("measure", { what, ...question });
  }

  async stop() {
    if (!this.isBusy) return;
    this.showState("stopping after the run under way …");
    await this.transport.stop();
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    if (message.kind === "warning") this.warn(message.text);
    if (message.kind === "loading") this.showState(`loading ${message.pair} …`);
    this.on.message(message);
    if (message.kind === "end") this.end(endWords(message));
  }

  // Warn about the prompts, which all cards share. The event "warned" bubbles up to the page.
  /** @param {string} text */
  warn(text) {
    this.state.dispatchEvent(new CustomEvent("warned", { bubbles: true, detail: text }));
  }

  /** @param {string} text */
  failed(text) {
    this.showState("");
    this.end("");
    this.on.failed(text);
  }

  // `note` says why the server ended the measurement; it is "" if the measurement is complete.
  /** @param {string} note */
  end(note) {
    this.setBusy(false);
    this.on.ended?.();
    if (note) this.showState([this.state.textContent, note].filter(Boolean).join(" · "));
  }

  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    giveTurn(this.go, this.stopButton, isBusy);
  }

  /** @param {string} text */
  showState(text) {
    setText(this.state, text);
  }
}
