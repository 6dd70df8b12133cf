// The race page: its form and address, the race that it starts, and the state of that race. Other
// pages can watch the race. A watcher has the methods began(isHeld), grew(), ended(reason) and
// failed(text).

import { giveTurn, setText } from "../shared/dom.js";
import { tab } from "../shared/kept.js";
import { showLinkProblems } from "../shared/link_notice.js";
import { NarrowOrder } from "../shared/narrow_order.js";
import { Page } from "../shared/page.js";
import { defaults } from "../shared/settings.js";
import { companyWords, waitingWords } from "../shared/number_words.js";
import { Transport } from "../shared/transport.js";
import { Address } from "./address.js";
import { ClassPresets } from "./class_presets.js";
import { Form } from "./form.js";
import { lostSentence } from "./lost_words.js";
import { RaceView } from "./race_view.js";
import { isOf, madeWords } from "./recorded.js";
import { Repeats } from "./repeats.js";
import { serverNumbers } from "../shared/speedup_words.js";

const LAST = "race"; // storage key of the race that this tab shows
const GOING = "going"; // storage key of the race that is still running
const FORM = "race-form"; // storage key of the form
const WHY_EXACT = "#why-exact"; // anchor in the address that opens the repeated draws, which show why the output follows p
const RACING = "racing …";
const DRAWN = "0.7"; // temperature of races that demonstrate random draws
const WRITE_MILLISECONDS = 200;
const HELD = "held: nothing is decoded until it goes on";

// The status texts that the page shows while a serving engine writes, keyed by the name of the
// engine's lane (specviz/experiments/run/engine_lane.py).
/** @type {Record<string, string>} */
const ASKING = {
  server: "the server writes …",
  "plain-server": "the server without drafts writes …",
};

/** @type {Record<string, string>} */
const ENDINGS = {
  length: "finished",
  "end-of-sequence": "finished: the text came to its end",
  stopped: "stopped",
};

// The end of a run that has a grammar and reached its limit of tokens.
const INCOMPLETE =
  "finished: the text is incomplete, because the limit of tokens came before the end of the grammar";

// A race as it was requested: the request, its settings in words, and the address parameters, which
// are null if no address can hold all settings. If a tab remembers the race, it also stores the
// number of its serving engines. It never stores their addresses and the key.
/** @typedef {{ order: any, words: string, query: string | null, servers?: number }} Ordered */

// The contents of a form: the settings as address parameters, and the prompt, which may be too long
// for an address.
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
    /** @type {[any, string] | null} the request of the current race, and its settings in words */
    this.ordered = null;
    /** @type {string | null} the address parameters of the current race, null if no address can hold all settings */
    this.query = null;
    this.isReopening = false; // true while the page opens a recording, or the race that the tab showed before a reload
    /** @type {Choice | undefined} the recording that a first visitor sees, undefined once it was opened */
    this.opening = setup.traces.find(({ name }) => name === setup.opening);
    /** @type {Choice | null} the recording that is shown, null if the user's own race is shown */
    this.recording = null;
    /** @type {string | null} */
    this.command = null;
    this.sampled = setup.traces.find(({ name }) => name === setup.sampled);
    this.sampledRound = setup.sampled_round - 1;
    this.isExample = false; // true if the race or recording was opened to show random draws
    /** @type {Choice | null | undefined} what was shown before such an example: another recording, or null for the user's own race */
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
    /** @type {{ round: number, at: number } | null} the stop in the address, until a race with these settings has ended */
    this.wanted = this.setting.stop;
    this.company = "";
    /** @type {KeptForm | undefined} the form before the first experiment changed it */
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
    // On a narrow screen, move the lanes' texts above the form as soon as there are texts.
    this.order = new NarrowOrder([refs.form], (isNarrow) => ({
      after: isNarrow && this.hasTexts ? refs.legendRow : refs.experiments,
    }));
    this.setBusy(false, "");
    this.showLost();
  }

  wire() {
    const { refs } = this;
    refs.form.addEventListener(
      "submit",
      (/** @type {any} */ event) => (event.preventDefault(), this.race()),
    );
    refs.prompt.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!event.repeat) this.race();
    });
    refs.raceHeld.addEventListener("click", () => this.race(true));
    refs.stop.addEventListener("click", () => this.stop());
    refs.repeat.addEventListener("click", () => this.repeat());
    refs.lostAgain.addEventListener("click", () => this.lost && this.raceOrder(this.lost));
    refs.recordedBack.addEventListener("click", () => this.goBack());
    // Ignore a repeated Enter key, because the key press that started the race must not stop it.
    refs.stop.addEventListener(
      "keydown",
      (/** @type {any} */ event) => event.repeat && event.preventDefault(),
    );
  }

  get address() {
    return this.setting;
  }

  // Say what this page shows but its address does not contain, or "" if a link is complete. The
  // address contains only the settings of a race and the stop that the user chose in it.
  get unseen() {
    const { isOwn, moment } = this.view;
    const what = isOwn
      ? this.trace.header && "your race, only its setting"
      : moment < Infinity && "where you stand";
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

  // Load the settings of a new address, unless the user's own race is running.
  followed() {
    if (this.setting.isNamed && !this.transport.isBusy)
      this.fill(new URLSearchParams(window.location.search));
  }

  repaint() {
    this.view.repaint();
  }

  halt() {
    return this.stop();
  }

  get trace() {
    return this.view.trace;
  }

  get hasTexts() {
    return Boolean(this.trace.header || this.isReopening || this.last || this.hasOpening);
  }

  // Return whether the opening recording may be shown. It is not shown if the address or this tab has a
  // race of its own.
  get hasOpening() {
    return Boolean(this.opening && !this.last && !this.setting.isNamed);
  }

  // The stop for the address: the one that the address already names, until the race has ended.
  // After that, the stop that the user chose in the race, if the form still has the settings of
  // this race.
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

  // Start a race with the form's settings. `isHeld` is true if it must wait before its first round
  // until the debugger continues it.
  async race(isHeld = false) {
    if (this.transport.isBusy && !this.isReopening) return;
    this.form.clearErrors();
    if (this.form.refuses()) return;
    if (!this.section.hidden) this.setting.write(); // if another page started this race, the address belongs to that page
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
    await this.transport.start("join", {
      form: ordered.order,
      held: isHeld,
      servers: this.form.servers,
    });
  }

  keepGoing() {
    if (this.ordered)
      tab.keep(GOING, {
        order: this.ordered[0],
        words: this.ordered[1],
        query: this.query,
        servers: this.form.serverCount,
      });
  }

  // The race that was running when the page was reloaded, or null.
  /** @returns {Ordered | null} */
  get lost() {
    return tab.recall(GOING, ({ order, words }) => typeof words === "string" && order !== null);
  }

  // Show the settings of the race that was lost by a reload, with a button to run it again. The
  // server stops a race when its page closes. `isOlder` is true if the page now shows an earlier
  // race.
  showLost(isOlder = false) {
    const { lost } = this;
    this.refs.lostNotice.hidden = !lost;
    if (lost) setText(this.refs.lostWords, lostSentence(lost.words, lost.servers ?? 0, isOlder));
  }

  // Return whether a link can repeat the race of the form. It cannot if the models may have to be
  // downloaded first.
  get isSent() {
    return Boolean(this.form.pair?.is_here) && !this.setting.linkLimit;
  }

  // Race with settings given as address parameters. Missing settings have their defaults.
  /** @param {Record<string, string>} query */
  async raceSetting(query) {
    if (this.transport.isBusy && !this.isReopening) return;
    this.fill(new URLSearchParams(query));
    await this.race();
  }

  // Run a race of an experiment. The user's own form is restored when the experiment is closed.
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

  // Restore the form that this tab had before a reload. If the address contains settings, they come
  // first. In that case restore only the prompt, which may be too long for the address, and only if
  // all settings are the same.
  recallForm() {
    const kept = tab.recall(FORM, ({ query, task, text }) =>
      [query, task, text].every((each) => typeof each === "string"),
    );
    if (!kept) return;
    if (!this.setting.isNamed) return void ((this.last || this.lost) && this.refill(kept));
    const { picker } = this.form;
    if (this.setting.isOf(kept.query) && picker.text !== kept.text)
      picker.showText(kept.task, kept.text);
  }

  // Race with the settings of a link. Return why the race did not start, as a clause, or "" if it
  // ran.
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
    this.wanted = null; // the old stop belongs to another race
    const problems = this.setting.read(`?${query}`);
    this.showProblems(problems);
    return problems;
  }

  // Run the current race several times.
  async repeat() {
    if (this.transport.isBusy || !this.ordered) return;
    this.repeats.begin();
    this.setBusy(true, this.repeats.words);
    await this.startAgain();
  }

  async startAgain() {
    this.isHeld = false;
    this.keepGoing();
    await this.transport.start("join", {
      form: this.ordered?.[0],
      held: false,
      servers: this.form.servers,
    });
  }

  // Show the run with the median speedup, together with the spread of all runs' speedups.
  showMiddle() {
    const { middle, speedups, servers, disturbed } = this.repeats;
    if (!middle) return;
    for (const message of middle) this.take(message);
    this.view.showSpread(speedups, servers, disturbed);
  }

  // The name and the request of the race that this tab showed before a reload, or null.
  get last() {
    return tab.recall(
      LAST,
      ({ name, order, words }) =>
        [name, words].every((each) => typeof each === "string") && order !== null,
    );
  }

  // The values that the tab must remember to show the current race again; null for a recording.
  get ran() {
    if (!this.ordered || this.recording) return null;
    const [order, words] = this.ordered;
    return { order, words, command: this.view.result.command, query: this.query };
  }

  // Remember the race that the tab shows. `isOver` is true if no other race is running, so that
  // none can be lost by a reload.
  /**
   * @param {string} name
   * @param {NonNullable<RacePage["ran"]>} ran
   * @param {boolean} isOver
   */
  keepLast(name, ran, isOver) {
    tab.keep(LAST, { name, ...ran });
    if (isOver) tab.forget(GOING);
  }

  // Show a stored race again. `recording` is the file of the run. If the user starts a race in the
  // meantime, that race replaces this one.
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

  // Play the recorded race that a first visitor sees.
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

  // Return whether the form's models are on this machine and can run the form's method.
  get isRaceable() {
    return Boolean(this.form?.pair?.is_here) && !this.form.refusal;
  }

  get exampleWords() {
    return this.isRaceable
      ? `Race ${this.section.hidden ? "the question of the race page" : "this question"} at temperature ${DRAWN}`
      : `Show a recording at temperature ${DRAWN}`;
  }

  // Race the form's prompt at a temperature above 0, to show its random draws.
  async raceDrawn() {
    if (this.transport.isBusy) return;
    this.form.fields = { temperature: DRAWN };
    this.settingChanged();
    const racing = this.race();
    this.isExample = this.isBusy === true;
    await racing;
  }

  // Show a recording with random draws. This is used if the current run has temperature 0 and no
  // model can race.
  async showSampled() {
    if (!this.sampled || this.transport.isBusy) return;
    this.before = this.trace.header ? this.recording : undefined;
    this.recording = this.sampled;
    this.wanted = { round: this.sampledRound, at: 0 };
    this.command = null;
    this.isReopening = this.isExample = true;
    await this.transport.open({ golden: this.sampled.name });
  }

  // If the page shows a recording without random draws, show one with draws instead. A race of the
  // user stays on the page.
  showSampledInstead() {
    if (!this.recording || !this.sampled || this.transport.isBusy) return false;
    this.showSampled();
    return true;
  }

  // Return to the run that the page showed before it opened an example with random draws.
  async goBack() {
    const { before, transport } = this;
    if (before === undefined || (transport.isBusy && !this.isReopening)) return;
    transport.leave(); // stop loading the example, which may be incomplete
    this.before = undefined;
    if (before === null) return this.heard("wanted");
    this.recording = before;
    this.isReopening = true;
    await transport.open({ golden: before.name });
  }

  // React to the start of a run. The previous race is replaced only now, so that a race that the
  // server refuses does not remove it.
  begun() {
    const { recording } = this;
    this.root.classList.remove("is-opening");
    const [order, words] = this.ordered ?? [this.form.order, this.form.words];
    this.raced.keep(recording ? null : order, words);
    this.raced.compare(this.form.order);
    this.refs.repeat.hidden = Boolean(recording); // a recording cannot be run again
    this.view.isOwn = !recording;
    this.showStage();
    this.showHeader(this.trace);
    if (this.order.draw() && !this.isReopening) this.refs.results.scrollIntoView();
    if (!recording) this.writeSoon();
    if (this.isReopening && !recording) setText(this.refs.speedupWord, "opening your last race …");
    this.heard("began", this.isHeld);
    if (this.isReopening && !recording && !this.refs.lostNotice.hidden) this.showLost(true);
  }

  // Say whether the page shows a recording or the user's own race, and whether a recording has the
  // form's settings.
  showStage() {
    const {
      recordedNotice,
      recordedTitle,
      recordedMaker,
      recordedHere,
      recordedBack,
      ownNotice,
      staleNotice,
      proofRun,
    } = this.refs;
    recordedNotice.hidden = !this.recording;
    recordedBack.hidden = this.before === undefined;
    setText(recordedBack, this.before ? "Back to the recording before it" : "Back to your race");
    ownNotice.hidden = Boolean(this.recording) || !this.trace.header || !staleNotice.hidden;
    const isOfForm = !this.recording || isOf(this.trace, this.form.order);
    const isHere = Boolean(this.trace.header); // false before the first run has loaded; the form may change earlier
    proofRun.hidden = isOfForm || !isHere;
    if (!this.recording || !isHere) return;
    const greedy = this.trace.isGreedy ? ", at temperature 0: nothing is drawn by chance" : "";
    const copy = this.trace.copyWords
      ? "; its draft is the target itself with rounded weights"
      : "";
    const title = isOfForm
      ? ` of this setting${greedy}${copy}`
      : `, not your setting: ${this.recording.title}`;
    setText(recordedTitle, title);
    setText(recordedMaker, madeWords(this.trace.header));
    setText(
      proofRun,
      `Of a recording, not of your setting: ${this.recording.title}, temperature ${this.trace.main.config.temperature}.`,
    );
    setText(recordedHere, isOfForm ? "it here" : "the question of the form");
  }

  // Scroll to the results if the form fills a narrow screen or the user has scrolled past them.
  showResults() {
    const { results } = this.refs;
    const { top } = results.getBoundingClientRect();
    const isAbove = top < parseFloat(getComputedStyle(results).scrollMarginTop); // hidden behind the page's header
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

  // Show how many pages watch the race and how many other runs alternate with it, as long as it
  // runs.
  /** @param {string} words */
  showCompany(words) {
    if (words === this.company || this.recording) return;
    this.company = words;
    if (this.trace.header && this.refs.toHeld.hidden && !this.isReopening)
      this.showState(this.racingWords);
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
    if (message.kind === "header")
      this.view.result.setCommand(this.isReopening ? this.command : message.command);
    if (message.kind === "header") this.view.result.draftBytes = message.draft_bytes ?? 0;
    if (message.kind === "header") this.begun();
    if (message.kind === "warning") this.showWarning(message.text);
    if (message.kind === "asking") this.showState(ASKING[message.lane]);
    if (message.kind === "event") this.heard("grew");
    if (message.kind === "end")
      this.ended(
        message.reason,
        message.limit ?? (message.cut ? "the server’s answer was stopped" : ""),
        message.cut,
      );
  }

  // Show what is unusual about the prompt.
  /** @param {string} text */
  showWarning(text) {
    this.refs.promptNotice.hidden = !text;
    setText(this.refs.promptNotice, text);
  }

  // React to the end of a run. `note` says why the server ended the run; it is "" if the run is
  // complete.
  /**
   * @param {string} reason
   * @param {string} note
   * @param {boolean} [isCut] true if it was stopped while a serving engine was writing
   */
  ended(reason, note, isCut = false) {
    const isRepeated = this.repeats.isOn;
    if (
      isRepeated &&
      this.repeats.ended(
        isCut ? "stopped" : reason,
        this.trace.summary?.speedup,
        serverNumbers(this.trace),
        this.trace.summary?.is_disturbed,
      )
    )
      return void this.startAgain();
    if (!this.trace.summary) this.view.result.clear();
    if (reason !== "stopped" && this.trace.summary)
      this.presets.ended(this.trace.summary, this.trace.main);
    if (!this.isReopening && !this.trace.header) tab.forget(GOING); // if the race has started, `keepLast` forgets it once it is stored
    const hasNoEnd = reason === "length" && this.trace.main?.config.grammar;
    const ending = hasNoEnd ? INCOMPLETE : ENDINGS[reason];
    if (!this.isReopening) this.setBusy(false, [ending, note].filter(Boolean).join(" · "));
    const { isExample } = this;
    const isRecording = this.recording !== null && !this.wanted && !isExample;
    this.isReopening = this.isExample = false;
    this.land();
    this.showStage();
    this.heard("grew");
    this.heard("ended", reason);
    if (isRepeated) return this.showMiddle();
    if (isRecording) this.view.replay();
    if (isExample) this.showRedraw();
  }

  // After a run was opened to show repeated draws, start to repeat them.
  showRedraw() {
    if (this.section.hidden) return; // another page requested the run and shows the draws itself
    this.view.redraw();
    this.refs.proof.scrollIntoView(); // last, because the bars have their height only after they are drawn
  }

  // Return the round and node that the user chose on this page since the debugger last asked for
  // them, or null.
  takeStop() {
    const { chosen, cursor } = this.view;
    const { round, node } = cursor;
    const isNew = chosen !== null && (round !== this.shared?.round || node !== this.shared?.node);
    this.shared = { round, node };
    return isNew ? this.shared : null;
  }

  // Select the round that the user reached in the debugger. Without a node, select the round as a
  // whole.
  /**
   * @param {number} round
   * @param {number | null} node
   */
  giveStop(round, node) {
    const { view } = this;
    view.select(round, node);
    this.shared = { round, node: view.cursor.node };
  }

  // Move to the stop in the address, unless the user has chosen another one in the meantime.
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

  // Show the state of the race next to the button and, until there are numbers, in place of the
  // numbers.
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
    if (!this.isReopening) this.form.showError(text); // no message for a recording, because the user did not request it
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

  // Disable the race button if the models cannot run the method, and show the reason.
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
    this.wanted = null; // the old stop belongs to another race
    this.writeSoon();
  }

  // Write the address after a delay, because browsers reject too frequent changes. If another page
  // is shown, do not write at all.
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
    const goal = this.wanted
      ? `The link leads to round ${this.wanted.round + 1} of this race: press Race to run it.`
      : "";
    showLinkProblems(this.refs.linkNotice, problems, goal);
  }
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

// The settings of the results on screen, and a line that appears once the form has other settings.
class RacedSetting {
  /** @param {HTMLElement} line */
  constructor(line) {
    this.line = line;
    this.order = null;
  }

  /**
   * @param {any} order null for a recording
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

// Return a text that is equal for equal settings. For example, "0.70" and "0.7" are equal.
/**
 * @param {any} order
 * @returns {string}
 */
function signature(order) {
  if (order !== null && typeof order === "object") {
    return `{${Object.keys(order)
      .sort()
      .map((name) => `${name}:${signature(order[name])}`)}}`;
  }
  const isNumber = typeof order === "string" && order.trim() !== "" && !Number.isNaN(Number(order));
  return JSON.stringify(isNumber ? Number(order) : order);
}
