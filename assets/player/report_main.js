// The debugger in a file of its own: one run, no server, nothing asked of anyone.
// Knows where the file keeps plotly.js and the run; what only a server can do is taken off the page.

import { takePlotly } from "./shared/charts.js";
import { references, setText } from "./shared/dom.js";
import { Keyboard, keyRows } from "./shared/keyboard.js";
import { LinkButton } from "./shared/link_button.js";
import { runWords } from "./step/run_menu.js";
import { stepActions } from "./step/step_actions.js";
import { takeOutcomes } from "./shared/outcomes.js";
import { StepAddress } from "./step/step_address.js";
import { StepPage } from "./step/step_page.js";
import { download, nameOf, traceBlob } from "./step/trace_file.js";
import { Terms } from "./shared/terms.js";
import { Theme } from "./shared/theme.js";
import { Trace } from "./shared/trace.js";

const OF_A_SERVER = ["stepTrace", "stepOpen", "stepFile", "stepError", "compareWith", "whatIf", "fork", "profile", "live"];

export async function mount(document) {
  const root = document.querySelector("[data-specviz]");
  const [script, run] = await Promise.all(["plotly", "run"].map((name) => unpacked(document, name)));
  takePlotly(runScript(document, script));
  const { setup, messages } = JSON.parse(run);
  takeOutcomes(setup.outcomes);
  window.specviz = { debugger: new Report(root, setup, messages) }; // by the app's names
  root.dataset.ready = "yes";
}

class Report {
  constructor(root, setup, messages) {
    const refs = references(root);
    Object.assign(this, { root, refs });
    for (const name of OF_A_SERVER) (refs[name].closest("label") ?? refs[name]).remove();
    this.trace = new Trace();
    for (const message of messages) this.trace.take(message);
    this.theme = new Theme(root, setup.palettes, () => this.page?.repaint());
    this.address = new StepAddress("hash");
    this.page = new StepPage(refs, this.theme, { onMove: () => this.write(), setup });
    this.actions = { ...stepActions(this.page), list: () => refs.keys.showModal() };
    this.wire(setup);
    this.open();
  }

  wire(setup) {
    const { refs, theme } = this;
    new Terms(this.root, setup.glossary);
    new LinkButton(refs.copyLink, refs.copyWord, () => this);
    new Keyboard(() => this.actions, () => this.root.isConnected);
    refs.keyList.append(...keyRows({ isAlone: true }));
    refs.openKeys.addEventListener("click", () => refs.keys.showModal());
    refs.theme.addEventListener("click", () => theme.toggle());
    refs.large.setAttribute("aria-pressed", String(theme.isLarge));
    refs.large.addEventListener("click", () => {
      theme.toggleLarge();
      refs.large.setAttribute("aria-pressed", String(theme.isLarge));
    });
    refs.stepSave.addEventListener("click", async () => download(await traceBlob(this.trace), nameOf(this.trace)));
    window.addEventListener("hashchange", () => this.land());
  }

  open() {
    const { refs, page, trace } = this;
    refs.step.hidden = false;
    setText(refs.stepNote, runWords(trace));
    page.show(trace);
    page.setShown(true);
    this.land();
  }

  // The moment that the address names, else the first one.
  land() {
    const { round, at, axis } = this.address.read();
    if (axis) this.page.chooseAxis(axis);
    if (this.trace.rounds.length) this.page.cursor.go(round ?? 0, at ?? 0);
  }

  get link() {
    const { cursor, axis } = this.page;
    return this.address.link({ round: cursor.round, at: cursor.at, axis: axis.name });
  }

  write() {
    const { cursor, axis } = this.page;
    if (this.trace.rounds.length) this.address.write({ round: cursor.round, at: cursor.at, axis: axis.name });
  }
}

// Base64 of gzip, as specviz/ui/report.py wrote it.
async function unpacked(document, name) {
  const held = document.querySelector(`[data-packed="${name}"]`);
  const bytes = Uint8Array.from(atob(held.textContent), (character) => character.charCodeAt(0));
  held.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function runScript(document, text) {
  const script = document.createElement("script");
  script.textContent = text;
  document.head.append(script);
  return window.Plotly;
}
