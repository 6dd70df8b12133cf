// The debugger as a single file with one run. It needs no server and makes no requests. plotly.js
// and the run are inside the file, and everything that needs a server is removed from the page.

import { takePlotly } from "./shared/charts.js";
import { takeCommas } from "./shared/decimal_comma.js";
import { references, setText } from "./shared/dom.js";
import { runWords, showServers } from "./step/run_menu.js";
import { takeOutcomes } from "./shared/outcomes.js";
import { takeSettings } from "./shared/settings.js";
import { StepAddress } from "./step/step_address.js";
import { StepView } from "./step/step_view.js";
import { download, nameOf, traceBlob } from "./step/trace_file.js";
import { Surround } from "./shared/surround.js";
import { takeEndings } from "./shared/token_label.js";
import { Trace } from "./shared/trace.js";

const OF_A_SERVER = [
  "stepTrace",
  "stepOpen",
  "stepFile",
  "stepError",
  "compareWith",
  "remaking",
  "whatIf",
  "fork",
  "profile",
  "live",
];

/** @param {Document} document */
export async function mount(document) {
  const root = /** @type {HTMLElement} */ (document.querySelector("[data-specviz]"));
  const [script, run] = await Promise.all(
    ["plotly", "run"].map((name) => unpacked(document, name)),
  );
  takePlotly(runScript(document, script));
  const { setup, messages } = JSON.parse(run);
  takeCommas(root);
  takeOutcomes(setup.outcomes);
  takeEndings(setup.endings);
  takeSettings(setup.settings);
  window.specviz = { step: new Report(root, setup, messages) }; // the app has a global variable with the same name
  root.dataset.ready = "yes";
  root.dataset.charts = "drawn"; // plotly.js is inside the file
}

class Report {
  /**
   * @param {HTMLElement} root
   * @param {Setup} setup
   * @param {RunMessage[]} messages
   */
  constructor(root, setup, messages) {
    const refs = references(root);
    this.root = root;
    this.refs = refs;
    for (const name of OF_A_SERVER) (refs[name].closest("label") ?? refs[name]).remove();
    this.trace = new Trace();
    for (const message of messages) this.trace.take(message);
    this.place = new StepAddress("hash");
    /** @type {StepView | null} */
    let view = null;
    const repaint = () => view?.repaint();
    const { theme } = new Surround(root, refs, setup, { page: () => this, repaint, isAlone: true });
    this.view = view = new StepView(refs, theme, { onMove: () => this.write(), setup });
    refs.stepSave.addEventListener("click", async () =>
      download(await traceBlob(this.trace), nameOf(this.trace)),
    );
    window.addEventListener("hashchange", () => this.land());
    this.open();
  }

  /** @returns {Actions} */
  get actions() {
    return this.view.actions;
  }

  get address() {
    return this;
  }

  halt() {}

  open() {
    const { refs, view, trace } = this;
    refs.step.hidden = false;
    setText(refs.stepNote, runWords(trace));
    showServers(refs.stepServers, trace);
    view.show(trace);
    view.setShown(true);
    this.land();
  }

  // Move to the moment that the address names, or to the first moment of the run.
  land() {
    const { round, at, axis } = this.place.read();
    if (axis) this.view.chooseAxis(axis);
    if (this.trace.rounds.length) this.view.cursor.go(round ?? 0, at ?? 0);
  }

  /** @returns {string} */
  get link() {
    const { cursor, axis } = this.view;
    return this.place.link({ round: cursor.round, at: cursor.at, axis: axis.name });
  }

  write() {
    const { cursor, axis } = this.view;
    if (this.trace.rounds.length)
      this.place.write({ round: cursor.round, at: cursor.at, axis: axis.name });
  }
}

// Unpack gzip data in base64, which specviz/ui/report.py wrote.
/**
 * @param {Document} document
 * @param {string} name
 */
async function unpacked(document, name) {
  const held = /** @type {HTMLElement} */ (document.querySelector(`[data-packed="${name}"]`));
  const bytes = Uint8Array.from(atob(held.textContent), (character) => character.charCodeAt(0));
  held.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/**
 * @param {Document} document
 * @param {string} text
 */
function runScript(document, text) {
  const script = document.createElement("script");
  script.textContent = text;
  document.head.append(script);
  return window.Plotly;
}
