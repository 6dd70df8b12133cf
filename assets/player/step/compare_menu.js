// The menu "Compare with". It opens a second run (a recording, or the race of this page) next to
// the run in the debugger, and asks the server for the first difference and its cause.

import { option } from "../shared/dom.js";
import { Trace } from "../shared/trace.js";
import { Transport } from "../shared/transport.js";
import { recordedGroups } from "./run_menu.js";
import { base64, traceBlob } from "./trace_file.js";

const NOTHING = "";
const RACE = "race";
const PARENT = "parent"; // the run that a fork was made from

export class CompareMenu {
  // `page` is the debugger's page, `race` is the run on the race page, and `fail(text)` shows an
  // error message.
  /**
   * @param {HTMLSelectElement} menu
   * @param {Choice[]} recorded
   * @param {GradioLink} gradio
   * @param {{ page: any, race: Trace, fail: (text: string) => void }} on
   */
  constructor(menu, recorded, gradio, { page, race, fail }) {
    this.menu = menu;
    this.recorded = recorded;
    this.page = page;
    this.race = race;
    this.fail = fail;
    this.other = new Trace();
    this.parent = this.other; // an empty run until the user makes a fork
    this.title = "";
    menu.append(
      option(NOTHING, "nothing"),
      option(RACE, "The race of this page"),
      ...recordedGroups(recorded),
    );
    this.ofFork = option(PARENT, "The run it was forked from");
    menu.addEventListener("change", () => this.choose(menu.value));
    this.transport = new Transport(gradio, {
      accepted: () => {},
      message: (message) => this.take(message),
      queued: () => {},
      failed: (text) => this.failed(text),
    });
  }

  // Remove the comparison when the debugger opens another run.
  clear() {
    this.transport.leave();
    this.ofFork.remove();
    this.menu.value = NOTHING;
  }

  // Compare a fork with the run that it was made from.
  /** @param {Trace} parent */
  showParent(parent) {
    this.parent = parent;
    this.menu.options[0].after(this.ofFork);
    this.menu.value = PARENT;
    return this.show(parent, "the run that it was forked from");
  }

  /** @param {string} name */
  async choose(name) {
    this.page.comparison.clear();
    this.transport.leave();
    if (name === NOTHING) return;
    if (name === PARENT) return this.showParent(this.parent);
    if (name === RACE)
      return this.race.rounds.length
        ? this.show(this.race.copy(), "the race of this page")
        : this.failed("There is no race on this page yet.");
    this.other = new Trace();
    this.title = this.recorded.find((each) => each.name === name)?.title ?? "";
    await this.transport.open({ golden: name });
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    this.other.take(message);
    if (message.kind === "end") this.show(this.other, this.title);
  }

  /** @param {string} text */
  failed(text) {
    this.menu.value = NOTHING;
    this.fail(text);
  }

  /**
   * @param {Trace} other
   * @param {string} title
   */
  async show(other, title) {
    const { page } = this;
    page.comparison.show(other, title);
    page.frame.ask();
    if (page.trace.isLive || other.isLive) return;
    const [a, b] = await Promise.all(
      [page.trace, other].map(async (trace) => base64(await traceBlob(trace))),
    );
    const reply = await this.transport.ask("diff", { a: { data: a }, b: { data: b } });
    if (page.comparison.other === other && reply)
      page.comparison.explain(reply.error ?? reply.sentence);
  }
}
