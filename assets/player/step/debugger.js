// Which run the debugger shows, and how it got here: the race of this page, a recorded one, a file.
// Knows the step page, the server's side of opening, files and the address.

import { element, option, setText } from "../dom.js";
import { Trace } from "../trace.js";
import { Transport } from "../transport.js";
import { keepRun, keptRun } from "./kept_runs.js";
import { StepAddress } from "./step_address.js";
import { StepPage } from "./step_page.js";
import { base64, download, nameOf, traceBlob } from "./trace_file.js";

const RACE = ""; // the menu's value for the race of this page
const KEPT = "kept-";
const LARGEST_FILE = 16e6; // bytes; the server refuses more

export class Debugger {
  constructor(refs, theme, setup, gradio, race) {
    Object.assign(this, { refs, race, setup });
    this.address = new StepAddress();
    this.transport = new Transport(gradio, {
      accepted: () => this.opened.clear(),
      message: (message) => this.take(message),
      queued: () => {},
      failed: (text) => this.failed(text),
    });
    this.page = new StepPage(refs, theme, {
      ask: (name, question) => this.transport.ask(name, question),
      onMove: () => this.moved(),
      glossary: setup.glossary,
    });
    this.opened = new Trace();
    this.source = RACE;
    this.keptAs = new WeakMap(); // header of a run -> its name in this browser
    this.fillMenu();
    this.wire();
  }

  fillMenu() {
    const recorded = element("optgroup");
    recorded.label = "Recorded, one for each method";
    recorded.append(...this.setup.traces.map(({ name, title }) => option(name, title)));
    this.refs.stepTrace.append(option(RACE, "The race of this page"), recorded);
  }

  wire() {
    const { refs } = this;
    refs.stepTrace.addEventListener("change", () => this.choose(refs.stepTrace.value));
    refs.stepOpen.addEventListener("click", () => refs.stepFile.click());
    refs.stepFile.addEventListener("change", () => this.openFile(refs.stepFile.files[0]));
    refs.stepSave.addEventListener("click", () => this.save());
    refs.step.addEventListener("dragover", (event) => event.preventDefault());
    refs.step.addEventListener("drop", (event) => (event.preventDefault(), this.openFile(event.dataTransfer.files[0])));
  }

  // ---- being shown

  onShow(isShown) {
    this.page.setShown(isShown);
    if (!isShown) return this.address.forget();
    if (!this.page.trace) this.restore();
  }

  // The moment that the address names; without one, the race of this page or else the first recording.
  async restore() {
    const { trace: name, round, at, axis } = this.address.read();
    this.wanted = round === null ? null : { round, at: at ?? 0 };
    if (axis) this.page.chooseAxis(axis);
    if (name?.startsWith(KEPT)) return this.openKept(name);
    if (name || !this.race.rounds.length) return this.choose(name ?? this.setup.traces[0]?.name ?? RACE);
    this.choose(RACE);
  }

  async openKept(name) {
    const blob = await keptRun(name);
    if (!blob) return this.failed("The run of this link was kept in another browser, or too long ago: ask for its file.");
    this.open(name, { data: await base64(blob) }, "The run of this link");
  }

  // ---- choosing a run

  choose(name) {
    if (name === RACE) return this.showRace();
    const known = this.setup.traces.find((trace) => trace.name === name);
    if (!known) return this.failed(`trace must be one of ${this.setup.traces.map((each) => each.name).join(", ")}, got “${String(name).slice(0, 40)}”`);
    this.open(name, { golden: name }, known.title);
  }

  showRace() {
    this.tell("");
    this.source = RACE;
    this.refs.stepTrace.value = RACE;
    this.page.show(this.race);
    this.land();
  }

  async openFile(file) {
    this.refs.stepFile.value = "";
    if (!file) return;
    if (file.size > LARGEST_FILE) return this.failed(`A run’s file must be at most 16 MB, got ${(file.size / 1e6).toFixed(0)} MB.`);
    const name = `${KEPT}${newName()}`;
    await this.open(name, { data: await base64(file) }, file.name);
    if (this.source === name) keepRun(name, file);
  }

  async open(name, recording, title) {
    this.tell(`opening ${title} …`);
    this.before = { source: this.source, trace: this.page.trace };
    this.opened = new Trace();
    Object.assign(this, { source: name, title });
    await this.transport.open(recording);
  }

  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    this.opened.take(message);
    if (message.kind === "header") this.begun();
    if (message.kind === "event" && this.wanted && this.opened.rounds.length > this.wanted.round) this.land();
    if (message.kind === "end") this.tell(`${this.opened.rounds.length} rounds, ${this.opened.tokens.speculative.length} tokens`);
    this.page.grew();
  }

  begun() {
    const { stepTrace } = this.refs;
    if (![...stepTrace.options].some((each) => each.value === this.source)) {
      stepTrace.append(option(this.source, this.title));
    }
    stepTrace.value = this.source;
    this.page.show(this.opened);
  }

  // Once the round that was asked for is there.
  land() {
    const { wanted } = this;
    this.wanted = null;
    if (wanted) this.page.cursor.go(wanted.round, wanted.at);
    else if (this.page.trace.rounds.length) this.page.cursor.go(0, 0);
  }

  failed(text) {
    const { stepError, stepTrace } = this.refs;
    setText(stepError, text);
    stepError.hidden = false;
    setText(this.refs.stepNote, "");
    if (this.before) this.source = this.before.source;
    this.before = null;
    stepTrace.value = this.source;
    if (!this.page.trace) this.showEmpty();
  }

  showEmpty() {
    this.page.show(this.race);
  }

  tell(text) {
    this.refs.stepError.hidden = true;
    setText(this.refs.stepNote, text);
  }

  // ---- the race of this page

  raceBegan() {
    if (this.source === RACE && this.page.trace) this.page.show(this.race);
  }

  raceGrew() {
    if (this.source === RACE) this.page.grew();
  }

  // An ended race gets a name in this browser, so that a link to its moments survives a reload.
  async raceEnded() {
    const { header } = this.race;
    const name = `${KEPT}${newName()}`;
    await keepRun(name, await traceBlob(this.race));
    this.keptAs.set(header, name);
    if (this.page.isShown) this.moved();
  }

  // ---- files and links

  async save() {
    const { trace } = this.page;
    if (!trace?.header) return this.failed("There is no run to save yet.");
    download(await traceBlob(trace), nameOf(trace));
  }

  get moment() {
    const { cursor, axis, trace } = this.page;
    const name = this.source === RACE ? this.keptAs.get(trace?.header) : this.source;
    return { trace: name, round: cursor.round, at: cursor.at, axis: axis.name };
  }

  get link() {
    return this.address.link(this.moment);
  }

  get fits() {
    return true;
  }

  write() {
    this.address.write(this.moment);
  }

  moved() {
    if (this.page.trace?.rounds.length) this.write();
  }

  // ---- keys

  get actions() {
    const { page } = this;
    const { cursor, playback, stops } = page;
    const still = (action) => (...given) => page.still(() => action(...given));
    return {
      stop: still((by) => cursor.step(by)),
      round: still((by) => cursor.stepRound(by)),
      first: still(() => cursor.toFirst()),
      last: still(() => cursor.toLast()),
      follow: still(() => this.page.trace?.isLive && cursor.setFollowing(true)),
      play: () => playback.toggle(),
      match: still((by) => stops.step(by)),
      phase: still((by) => cursor.stepPhase(by)),
      goTo: () => this.refs.stepGo.select(),
    };
  }
}

function newName() {
  return [...crypto.getRandomValues(new Uint32Array(2))].map((word) => word.toString(36)).join("");
}
