// The race page: its form and address, the race that it starts, and how that stands.
// Others may watch its race: began(isHeld), grew(), ended(reason), failed(text).

import { giveTurn, setText } from "../shared/dom.js";
import { tab } from "../shared/kept.js";
import { NarrowOrder } from "../shared/narrow_order.js";
import { Page } from "../shared/page.js";
import { defaults } from "../shared/settings.js";
import { companyWords, waitingWords } from "../shared/number_words.js";
import { Transport } from "../shared/transport.js";
import { Address } from "./address.js";
import { ClassPresets } from "./class_presets.js";
import { Form } from "./form.js";
import { RaceView } from "./race_view.js";
import { isOf } from "./recorded.js";
import { Repeats } from "./repeats.js";
import { serverNumbers } from "../shared/speedup_words.js";

const LAST = "race"; // under which a tab remembers the race that it shows
const GOING = "going"; // and the one that goes on
const FORM = "race-form"; // and its form
const WHY_EXACT = "#why-exact"; // in an address: what is drawn at a place, and why p comes out
const RACING = "racing …";
const DRAWN = "0.7"; // the temperature at which draws are shown
const WRITE_MILLISECONDS = 200;
const HELD = "held: nothing is decoded until it goes on";

// By the lane of a serving engine (specviz/experiments/run/engine_lane.py).
/** @type {Record<string, string>} */
const ASKING = { server: "the server writes …", "plain-server": "the server without drafts writes …" };

/** @type {Record<string, string>} */
const ENDINGS = {
  length: "finished",
  "end-of-sequence": "finished: the text came to its end",
  stopped: "stopped",
};

// What is raced, in words, and as parameters of an address, null where no address says all of it; of a race that a tab
// remembers also how many servers were to race, for their addresses and key are kept nowhere.
/** @typedef {{ order: any, words: string, query: string | null, servers?: number }} Ordered */

// A form: its setting as parameters of an address, and its prompt, which may be longer than an address can be.
/** @typedef {{ query: string, task: string, text: string }} KeptForm */

export class RacePage extends Page {
  static id = "race";
  static title = "Race";

  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { root, refs, theme, setup, prompts, gradio } = shell;
    this.root = root;
    this.refs = refs;
    /** @type {Record<string, (...given: any[]) => void>[]} */
    this.watchers = [];
    /** @type {[any, string] | null} what is raced, and in words */
    this.ordered = null;
    /** @type {string | null} the same as parameters of an address, null where no address says all of it */
    this.query = null;
    this.isReopening = false; // a recording, or the race that the tab showed before a load of the page
    /** @type {Choice | undefined} the recording that a visitor sees first, until then */
    this.opening = setup.traces.find(({ name }) => name === setup.opening);
    /** @type {Choice | null} the recording that is shown, null for a race of one's own */
    this.recording = null;
    /** @type {string | null} */
    this.command = null;
    this.sampled = setup.traces.find(({ name }) => name === setup.sampled);
    this.sampledRound = setup.sampled_round - 1;
    this.isExample = false; // the race or the recording is asked for because of its draws
    /** @type {Choice | null | undefined} what was shown before such a recording: another one, null for a race of one's own */
    this.before = undefined;
    this.view = new RaceView(root, refs, theme, setup, {
      onMove: () => this.recording || this.writeSoon(),
      onWhy: () => this.showSampledInstead(),
      onExample: () => (this.isRaceable ? this.raceDrawn() : this.showSampled()),
      exampleWords: () => this.exampleWords,
    });
    this.form = new Form(refs, setup, prompts, {
      onChange: () => this.settingChanged(),
      ask: (form) => this.transport.ask("check", { form }),
    });
    this.presets = new ClassPresets(refs, setup.presets, {
      onRun: (query) => this.experiment(query),
      onClose: () => this.endExperiment(),
    });
    this.repeats = new Repeats();
    this.raced = new RacedSetting(refs.staleNotice);
    this.setting = new Address(this.form, setup, () => this.chosen);
    /** @type {{ round: number, at: number } | null} where the link leads, until a race of its setting has ended */
    this.wanted = this.setting.stop;
    this.company = "";
    /** @type {KeptForm | undefined} as it was before an experiment */
    this.own = undefined;
    this.transport = new Transport(gradio, {
      accepted: () => this.isReopening || this.showResults(),
      message: (message) => this.take(message),
      queued: (...ahead) => this.showState(waitingWords(...ahead)),
      company: (pages, beside) => this.showCompany(companyWords(pages, beside)),
      failed: (text) => this.failed(text),
    });
    this.wire();
    this.showProblems(this.setting.read());
    this.recallForm();
    // On a narrow screen the texts come first, once there are any to come.
    this.order = new NarrowOrder([refs.form], (isNarrow) => ({ after: isNarrow && this.hasTexts ? refs.legendRow : refs.experiments }));
    this.setBusy(false, "");
    this.showLost();
  }

  wire() {
    const { refs } = this;
    refs.form.addEventListener("submit", (/** @type {any} */ event) => (event.preventDefault(), this.race()));
    refs.raceHeld.addEventListener("click", () => this.race(true));
    refs.stop.addEventListener("click", () => this.stop());
    refs.repeat.addEventListener("click", () => this.repeat());
    refs.lostAgain.addEventListener("click", () => this.lost && this.raceOrder(this.lost));
    refs.recordedBack.addEventListener("click", () => this.goBack());
    // The Enter that started the race, held down, must not stop it.
    refs.stop.addEventListener("keydown", (/** @type {any} */ event) => event.repeat && event.preventDefault());
  }

  // ---- as a page

  get address() {
    return this.setting;
  }

  // Its address has the setting only, and of a race of one's own a stop.
  get unseen() {
    const { isOwn, moment } = this.view;
    const what = isOwn ? this.trace.header && "your race, only its setting" : moment < Infinity && "where you stand";
    return what ? `${what}: Step through shows it` : super.unseen;
  }

  get actions() {
    return { ...this.view.actions, start: () => this.race() };
  }

  /** @param {number} by */
  canMove(by) {
    return this.view.cursor.nextStop(by) !== null;
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.view.frame.ask();
    if (isShown && (this.isUnwritten || this.chosen)) this.writeSoon();
    if (isShown && this.view.isUnplayed) this.view.replay();
    if (isShown) this.playOpening();
  }

  // Another setting, unless a race of this visitor's own goes on.
  followed() {
    if (this.setting.isNamed && !this.transport.isBusy) this.fill(new URLSearchParams(window.location.search));
  }

  repaint() {
    this.view.repaint();
  }

  halt() {
    return this.stop();
  }

  // ---- the race

  get trace() {
    return this.view.trace;
  }

  get hasTexts() {
    return Boolean(this.trace.header || this.isReopening || this.last || this.hasOpening);
  }

  // Not where a link, or this tab, has its own race.
  get hasOpening() {
    return Boolean(this.opening && !this.last && !this.setting.isNamed);
  }

  // The stop of a race of the setting in the form that a person chose, or its link leads to.
  /** @returns {{ round: number, at: number } | null} */
  get chosen() {
    return this.wanted ?? (this.raced.isOf(this.form.order) ? this.view.chosen : null);
  }

  /** @param {Record<string, (...given: any[]) => void>} watcher */
  watch(watcher) {
    this.watchers.push(watcher);
  }

  /**
   * @param {string} what
   * @param {...any} given
   */
  heard(what, ...given) {
    for (const watcher of this.watchers) watcher[what](...given);
  }

  // `isHeld`: it waits before its first round, and goes on from the debugger.
  async race(isHeld = false) {
    if (this.transport.isBusy && !this.isReopening) return;
    this.form.clearErrors();
    if (this.form.refuses()) return;
    if (!this.section.hidden) this.setting.write(); // else a link of another page asked for it
    tab.keep(FORM, this.filled);
    const query = this.isSent ? this.setting.query.toString() : null;
    await this.raceOrder({ order: this.form.order, words: this.form.words, query }, isHeld);
  }

  /**
   * @param {Ordered} ordered
   * @param {boolean} [isHeld]
   */
  async raceOrder(ordered, isHeld = false) {
    if (this.transport.isBusy && !this.isReopening) return;
    if (this.isReopening) this.transport.leave();
    this.isReopening = this.isExample = false;
    this.recording = null;
    this.before = undefined;
    this.refs.linkNotice.hidden = this.refs.lostNotice.hidden = true;
    this.showWarning("");
    this.setBusy(true, "starting …");
    this.ordered = [ordered.order, ordered.words];
    this.query = ordered.query;
    this.isHeld = isHeld;
    this.keepGoing();
    await this.transport.start("join", { form: ordered.order, held: isHeld, servers: this.form.servers });
  }

  keepGoing() {
    if (this.ordered) tab.keep(GOING, { order: this.ordered[0], words: this.ordered[1], query: this.query, servers: this.form.serverCount });
  }

  // The race that went on when this tab loaded the page again, null for none.
  /** @returns {Ordered | null} */
  get lost() {
    return tab.recall(GOING, ({ order, words }) => typeof words === "string" && order !== null);
  }

  // It ended with the page, for nobody may wait for what a closed page runs; its setting is still there.
  showLost() {
    const { lost } = this;
    this.refs.lostNotice.hidden = !lost;
    if (lost) setText(this.refs.lostWords, `Your race was still going on when this page was loaded again, and ended with it: ${lost.words}.${serversLost(lost.servers ?? 0)}`);
  }

  // Whether a link makes the race of the form again: not with models that may have to be fetched.
  get isSent() {
    return Boolean(this.form.pair?.is_here) && !this.setting.linkLimit;
  }

  // Another setting than the form's, as an address would give it; what it leaves out is as usual.
  /** @param {Record<string, string>} query */
  async raceSetting(query) {
    if (this.transport.isBusy && !this.isReopening) return;
    this.fill(new URLSearchParams(query));
    await this.race();
  }

  // What was in the form comes back when the experiment is closed.
  /** @param {Record<string, string>} query */
  experiment(query) {
    this.own ??= this.filled;
    return this.raceSetting(query);
  }

  endExperiment() {
    const { own } = this;
    this.own = undefined;
    if (!own) return;
    this.refill(own);
    this.settingChanged();
  }

  /** @returns {KeptForm} */
  get filled() {
    const { task, text } = this.form.picker;
    return { query: this.setting.query.toString(), task, text };
  }

  /** @param {KeptForm} form */
  refill({ query, task, text }) {
    this.fill(new URLSearchParams(query));
    if (this.form.picker.text !== text) this.form.picker.showText(task, text);
  }

  // After a load of the page: the form that this tab had, where the address names none, or the same but for a prompt
  // that is too long for it.
  recallForm() {
    const kept = tab.recall(FORM, ({ query, task, text }) => [query, task, text].every((each) => typeof each === "string"));
    if (!kept) return;
    if (!this.setting.isNamed) return void ((this.last || this.lost) && this.refill(kept));
    const { picker } = this.form;
    if (this.setting.isOf(kept.query) && picker.text !== kept.text) picker.showText(kept.task, kept.text);
  }

  // The same for whoever opened a link: the answer is why it is not raced, as a clause, "" where it is.
  /** @param {string} query */
  async raceLink(query) {
    if (this.transport.isBusy && !this.isReopening) return "another race goes on here";
    const problems = this.fill(new URLSearchParams(query));
    if (problems.length) return problems.join("; ");
    if (this.form.refusal) return `${this.form.method?.title} ${this.form.refusal}`;
    if (!this.isSent) return `${this.form.pair?.title ?? "its pair"} is not on this machine`;
    await this.race();
    return "";
  }

  /** @param {URLSearchParams} query */
  fill(query) {
    this.form.fields = defaults();
    this.wanted = null; // a link's stop is one of another race
    const problems = this.setting.read(`?${query}`);
    this.showProblems(problems);
    return problems;
  }

  // The race that is shown, five times.
  async repeat() {
    if (this.transport.isBusy || !this.ordered) return;
    this.repeats.begin();
    this.setBusy(true, this.repeats.words);
    await this.startAgain();
  }

  async startAgain() {
    this.isHeld = false;
    this.keepGoing();
    await this.transport.start("join", { form: this.ordered?.[0], held: false, servers: this.form.servers });
  }

  // The run in the middle is shown with the spread of all.
  showMiddle() {
    const { middle, speedups, servers } = this.repeats;
    if (!middle) return;
    for (const message of middle) this.take(message);
    this.view.showSpread(speedups, servers);
  }

  // What this tab showed before a load of the page, or null: { name } of the kept run, and what belongs to it.
  get last() {
    return tab.recall(LAST, ({ name, order, words }) => [name, words].every((each) => typeof each === "string") && order !== null);
  }

  // How the race on stage can be shown again once it is kept; null for a recording.
  get ran() {
    if (!this.ordered || this.recording) return null;
    const [order, words] = this.ordered;
    return { order, words, command: this.view.result.command, query: this.query };
  }

  // `isOver`: no other race goes on meanwhile, so whoever leaves has nothing to run again.
  /**
   * @param {string} name
   * @param {NonNullable<RacePage["ran"]>} ran
   * @param {boolean} isOver
   */
  keepLast(name, ran, isOver) {
    tab.keep(LAST, { name, ...ran });
    if (isOver) tab.forget(GOING);
  }

  // `recording`: the file of that run. A race that is pressed for meanwhile goes first.
  /**
   * @param {object} recording
   * @param {{ order: any, words: string, command: string | null, query?: string }} last
   */
  async reopen(recording, { order, words, command, query }) {
    if (this.transport.isBusy || (this.trace.header && !this.recording)) return;
    this.isReopening = true;
    this.recording = null;
    this.ordered = [order, words];
    this.command = command;
    this.query = query ?? null;
    await this.transport.open(recording);
  }

  // What a visitor sees first: a recorded race that plays.
  async playOpening() {
    const { opening, hasOpening } = this;
    this.opening = undefined;
    if (!opening || !hasOpening || this.transport.isBusy || this.trace.header) return;
    if (window.location.hash === WHY_EXACT) return void this.showSampled();
    this.recording = opening;
    this.isReopening = true;
    this.root.classList.add("is-opening");
    setText(this.refs.speedupWord, "a recorded race is on its way …");
    await this.transport.open({ golden: opening.name });
  }

  // Whether the models of the form are at hand and can do its method.
  get isRaceable() {
    return Boolean(this.form?.pair?.is_here) && !this.form.refusal;
  }

  get exampleWords() {
    return this.isRaceable ? `Race ${this.section.hidden ? "the question of the race page" : "this question"} at temperature ${DRAWN}` : `Show a recording at temperature ${DRAWN}`;
  }

  // The visitor's own question above temperature 0, for its draws.
  async raceDrawn() {
    if (this.transport.isBusy) return;
    this.form.fields = { temperature: DRAWN };
    this.settingChanged();
    const racing = this.race();
    this.isExample = this.isBusy === true;
    await racing;
  }

  // A recording in which something is drawn, where the one on stage has temperature 0 and no model can race.
  async showSampled() {
    if (!this.sampled || this.transport.isBusy) return;
    this.before = this.trace.header ? this.recording : undefined;
    this.recording = this.sampled;
    this.wanted = { round: this.sampledRound, at: 0 };
    this.command = null;
    this.isReopening = this.isExample = true;
    await this.transport.open({ golden: this.sampled.name });
  }

  // The same, in the place of another recording only: a race of one's own stays.
  showSampledInstead() {
    if (!this.recording || !this.sampled || this.transport.isBusy) return false;
    this.showSampled();
    return true;
  }

  // What was shown before the recording with its draws.
  async goBack() {
    const { before, transport } = this;
    if (before === undefined || (transport.isBusy && !this.isReopening)) return;
    transport.leave(); // the recording may still be arriving
    this.before = undefined;
    if (before === null) return this.heard("wanted");
    this.recording = before;
    this.isReopening = true;
    await transport.open({ golden: before.name });
  }

  // Only now does the race before it go: one that is refused, or cannot start, costs nothing.
  begun() {
    const { recording } = this;
    this.root.classList.remove("is-opening");
    const [order, words] = this.ordered ?? [this.form.order, this.form.words];
    this.raced.keep(recording ? null : order, words);
    this.raced.compare(this.form.order);
    this.refs.repeat.hidden = Boolean(recording); // not ours to run again
    this.view.isOwn = !recording;
    this.showStage();
    this.showHeader(this.trace);
    if (this.order.draw() && !this.isReopening) this.refs.results.scrollIntoView();
    if (!recording) this.writeSoon();
    this.heard("began", this.isHeld);
  }

  // Whether this is a recording, and one of what the form says, or a race of one's own.
  showStage() {
    const { recordedNotice, recordedTitle, recordedHere, recordedBack, ownNotice, staleNotice, proofRun } = this.refs;
    recordedNotice.hidden = !this.recording;
    recordedBack.hidden = this.before === undefined;
    setText(recordedBack, this.before ? "Back to the recording before it" : "Back to your race");
    ownNotice.hidden = Boolean(this.recording) || !this.trace.header || !staleNotice.hidden;
    const isOfForm = !this.recording || isOf(this.trace, this.form.order);
    proofRun.hidden = isOfForm;
    if (!this.recording) return;
    const greedy = this.trace.isGreedy ? ", at temperature 0: nothing is drawn by chance" : "";
    setText(recordedTitle, isOfForm ? ` of this setting${greedy}` : `, not your setting: ${this.recording.title}`);
    setText(proofRun, `Of a recording, not of your setting: ${this.recording.title}, temperature ${this.trace.main.config.temperature}.`);
    setText(recordedHere, isOfForm ? "it here" : "the question of the form");
  }

  // To what is about to happen, where the form fills a narrow view or someone has come down the page.
  showResults() {
    const { results } = this.refs;
    const { top } = results.getBoundingClientRect();
    const isAbove = top < parseFloat(getComputedStyle(results).scrollMarginTop); // under the page's own head
    if (top > window.innerHeight * 0.7 || isAbove) results.scrollIntoView();
  }

  async stop() {
    if (!this.transport.isBusy) return;
    setText(this.refs.runState, "stopping …");
    await this.transport.stop();
  }

  get racingWords() {
    const words = this.repeats.isOn ? this.repeats.words : RACING;
    return this.company ? `${words} · ${this.company}` : words;
  }

  // Others who have part in the race, as long as it goes on.
  /** @param {string} words */
  showCompany(words) {
    if (words === this.company || this.recording) return;
    this.company = words;
    if (this.trace.header && this.refs.toHeld.hidden && !this.isReopening) this.showState(this.racingWords);
  }

  /** @param {boolean} isHeld */
  showHeld(isHeld) {
    this.refs.toHeld.hidden = !isHeld;
    if (!this.isReopening) this.showState(isHeld ? HELD : this.racingWords);
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    this.repeats.hear(message);
    if (message.kind === "loading") this.showState(`loading ${message.pair} …`);
    this.view.take(message);
    if (message.kind === "header") this.view.result.setCommand(this.isReopening ? this.command : message.command);
    if (message.kind === "header") this.view.result.draftBytes = message.draft_bytes ?? 0;
    if (message.kind === "header") this.begun();
    if (message.kind === "warning") this.showWarning(message.text);
    if (message.kind === "asking") this.showState(ASKING[message.lane]);
    if (message.kind === "event") this.heard("grew");
    if (message.kind === "end") this.ended(message.reason, message.limit ?? (message.cut ? "the server’s answer was stopped" : ""), message.cut);
  }

  // What is odd about the prompt.
  /** @param {string} text */
  showWarning(text) {
    this.refs.promptNotice.hidden = !text;
    setText(this.refs.promptNotice, text);
  }

  // `note`: why the server ended it, "" where it did not.
  /**
   * @param {string} reason
   * @param {string} note
   * @param {boolean} [isCut] stopped while a serving engine wrote
   */
  ended(reason, note, isCut = false) {
    const isRepeated = this.repeats.isOn;
    const isExperiment = this.presets.running >= 0; // its numbers and its answer are of the whole run: no replay beneath them
    if (isRepeated && this.repeats.ended(isCut ? "stopped" : reason, this.trace.summary?.speedup, serverNumbers(this.trace))) return void this.startAgain();
    if (!this.trace.summary) this.view.result.clear();
    if (reason !== "stopped" && this.trace.summary) this.presets.ended(this.trace.summary, this.trace.main);
    if (!this.isReopening && !this.trace.header) tab.forget(GOING); // else once it is kept
    if (!this.isReopening) this.setBusy(false, [ENDINGS[reason], note].filter(Boolean).join(" · "));
    const { isExample } = this;
    const isNews = (!this.isReopening || this.recording !== null) && !this.wanted && !isExample;
    this.isReopening = this.isExample = false;
    this.land();
    this.heard("grew");
    this.heard("ended", reason);
    if (isRepeated) return this.showMiddle();
    if (isNews && reason !== "stopped" && !isExperiment) this.view.replay();
    if (isExample) this.showRedraw();
  }

  // The draws that the race or the recording was asked for.
  showRedraw() {
    if (this.section.hidden) return; // whoever asked shows them
    this.view.redraw();
    this.refs.proof.scrollIntoView(); // only now it has room for its bars
  }

  // The round and node that were chosen since they were last taken or given, null for none.
  takeStop() {
    const { chosen, cursor } = this.view;
    const { round, node } = cursor;
    const isNew = chosen !== null && (round !== this.shared?.round || node !== this.shared?.node);
    this.shared = { round, node };
    return isNew ? this.shared : null;
  }

  // Another page of the same race stands there; without a node, at the round as a whole.
  /**
   * @param {number} round
   * @param {number | null} node
   */
  giveStop(round, node) {
    const { view } = this;
    view.select(round, node);
    this.shared = { round, node: view.cursor.node };
  }

  // At the stop that the link leads to, unless another one was chosen meanwhile.
  land() {
    const { wanted, view } = this;
    this.wanted = null;
    if (wanted && view.cursor.isFollowing) view.choose(wanted);
  }

  /** @param {Trace} trace */
  showHeader({ header, main }) {
    this.root.classList.remove("is-waiting");
    if (!this.isReopening) this.showState(this.racingWords);
    setText(this.refs.pairNote, modelWords(header.target, main.draft));
    setText(this.refs.device, deviceWords(header));
  }

  // What goes on before there are numbers, beside the button and where the numbers will stand.
  /** @param {string} text */
  showState(text) {
    setText(this.refs.runState, text);
    if (!this.trace.summary) setText(this.refs.speedupWord, text);
  }

  /** @param {string} text */
  failed(text) {
    this.repeats.isOn = false;
    if (!this.isReopening) tab.forget(GOING);
    this.root.classList.remove("is-opening");
    if (this.trace.isLive) this.view.interrupt();
    if (!this.trace.summary) this.view.result.clear();
    if (!this.isReopening) this.form.showError(text); // nobody asked for it
    this.isReopening = this.isExample = false;
    this.order.draw();
    this.setBusy(false, "");
    this.heard("failed", text);
  }

  /**
   * @param {boolean} isBusy
   * @param {string} text
   */
  setBusy(isBusy, text) {
    giveTurn(this.refs.race, this.refs.stop, isBusy);
    this.refs.repeat.disabled = isBusy;
    this.isBusy = isBusy;
    this.presets.setBusy(isBusy);
    if (!isBusy) this.refs.toHeld.hidden = true;
    this.drawRefusal();
    this.root.classList.toggle("is-busy", isBusy);
    this.root.classList.toggle("is-waiting", isBusy);
    setText(this.refs.runState, text);
  }

  // ---- the setting

  // A method that the models cannot do: no race, and the reason beside the button.
  drawRefusal() {
    const { race, raceHeld, raceRefusal } = this.refs;
    const { refusal, method } = this.form;
    race.disabled = raceHeld.disabled = this.isBusy || Boolean(refusal);
    setText(raceRefusal, refusal && `${method?.title} cannot race here: it ${refusal}.`);
    raceRefusal.hidden = !refusal;
  }

  settingChanged() {
    this.form.clearErrors();
    this.drawRefusal();
    this.raced.compare(this.form.order);
    this.showStage();
    this.wanted = null; // it is a stop of another race
    this.writeSoon();
  }

  // Browsers refuse an address that changes too often; another page writes its own.
  writeSoon() {
    window.clearTimeout(this.writing);
    this.writing = window.setTimeout(() => {
      tab.keep(FORM, this.filled);
      this.isUnwritten = this.section.hidden;
      if (!this.isUnwritten) this.setting.write();
    }, WRITE_MILLISECONDS);
  }

  /** @param {string[]} problems */
  showProblems(problems) {
    const { linkNotice } = this.refs;
    const unread = problems.length ? `The link could not be read in full: ${problems.join("; ")}. The defaults stand in for it.` : "";
    const goal = this.wanted ? `The link leads to round ${this.wanted.round + 1} of this race: press Race to run it.` : "";
    linkNotice.hidden = !unread && !goal;
    setText(linkNotice, unread || goal);
  }
}

// Of the servers that raced with it, whose fields a load of the page leaves empty.
/** @param {number} count */
function serversLost(count) {
  if (!count) return "";
  const [whose, them] = count === 1 ? ["The server’s address", "it"] : ["The servers’ addresses", "them"];
  return ` ${whose} and key are kept nowhere: to race ${them} again, too, type them under More settings first.`;
}

/**
 * @param {ModelInfoRecord} target
 * @param {ModelInfoRecord | null} draft
 */
function modelWords(target, draft) {
  const sizes = [`target ${millions(target.parameters)}`];
  if (draft) sizes.push(`draft ${millions(draft.parameters)}`);
  return `${sizes.join(", ")} parameters`;
}

/** @param {TraceRecord} header */
function deviceWords({ device, dtype }) {
  return `${device.replace(/^[a-z]+/, (kind) => kind.toUpperCase())} · ${dtype}`;
}

/** @param {number} count */
function millions(count) {
  return count >= 1e9 ? `${(count / 1e9).toFixed(1)} B` : `${(count / 1e6).toFixed(1)} M`;
}

// The setting that the results on screen belong to, and a quiet line where the form has left it.
class RacedSetting {
  /** @param {HTMLElement} line */
  constructor(line) {
    this.line = line;
    this.order = null;
  }

  /**
   * @param {any} order null where no form could order it
   * @param {string} words
   */
  keep(order, words) {
    this.order = order;
    setText(this.line, `These results are of the earlier setting: ${words}.`);
  }

  /** @param {any} order */
  isOf(order) {
    return this.order !== null && signature(order) === signature(this.order);
  }

  /** @param {any} order */
  compare(order) {
    this.line.hidden = this.order === null || this.isOf(order);
  }
}

// "0.70" and "0.7" are one setting.
/**
 * @param {any} order
 * @returns {string}
 */
function signature(order) {
  if (order !== null && typeof order === "object") {
    return `{${Object.keys(order).sort().map((name) => `${name}:${signature(order[name])}`)}}`;
  }
  const isNumber = typeof order === "string" && order.trim() !== "" && !Number.isNaN(Number(order));
  return JSON.stringify(isNumber ? Number(order) : order);
}
