// The debugger's page. It decides which run is shown and where that run comes from: the race, a
// recording, a file, a fork, or a link with a recipe.

import { setText } from "../shared/dom.js";
import { Page } from "../shared/page.js";
import { brief } from "../shared/settings.js";
import { Trace } from "../shared/trace.js";
import { Transport } from "../shared/transport.js";
import { CompareMenu } from "./compare_menu.js";
import { keepRun, keptRun, KEPT, KeptRaces, newRunName } from "./kept_runs.js";
import { RACE, RunMenu } from "./run_menu.js";
import { forkedRecipe, OF_A_RACE } from "./recipe.js";
import { RunPlace } from "./run_place.js";
import { nextVerdict, verdictQuestion } from "./next_verdict.js";
import { ProfileCard } from "./profile_card.js";
import { OF_A_MOMENT } from "./step_address.js";
import { StepView } from "./step_view.js";
import { base64, blobOfBase64, download, nameOf, traceBlob } from "./trace_file.js";

export class StepPage extends Page {
  static id = "step";
  static title = "Step through";

  // The debugger can also step through the race of the race page. If the user forks a run, the fork
  // uses the models and the device that are chosen on the race page.
  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { refs, theme, setup, prompts, gradio } = shell;
    const { race } = shell.pages;
    this.refs = refs;
    this.race = race;
    this.setup = setup;
    this.opened = new Trace();
    this.title = ""; // title of the opened run
    this.source = RACE;
    /** @type {any} the moment to move to once it exists: { round, at } or { round, node } */
    this.wanted = null;
    /** @type {WeakMap<object, Recipe | null>} header of a run -> its recipe */
    this.recipes = new WeakMap();
    /** @type {Recipe | null} the recipe of the run that is being opened */
    this.recipe = null;
    this.isExample = false; // true if the run that is being opened is an example whose draws are repeated
    this.hasNewRace = false; // true if the debugger has not shown the newest race yet
    /** @type {Promise<any> | undefined} resolves when every finished race is stored */
    this.keeping = undefined;
    /** @type {{ forks: ForkOrder[], wanted: any } | null} the forks of a link that must still be made, and the moment to show at the end */
    this.remaking = null;
    this.transport = new Transport(gradio, {
      accepted: () => {},
      message: (message) => this.take(message),
      queued: (ahead) => this.view.isForking && this.view.fork.wait(ahead),
      failed: (text) => this.failed(text),
    });
    this.view = new StepView(refs, theme, {
      ask: (name, question) => this.transport.ask(name, question),
      onMove: () => this.write(),
      onFork: (/** @type {any} */ order) => (this.endRemaking(), this.fork(order)),
      onHold: (/** @type {string} */ what) => this.hold(what),
      onExample: () => (race.isRaceable ? this.raceDrawn() : this.showSampled()),
      exampleWords: () => race.exampleWords,
      setup,
    });
    this.keptRaces = new KeptRaces();
    this.place = new RunPlace(this.view, {
      name: () => (this.source === RACE ? this.keptRaces.nameOf(race.trace) : this.source),
      recipe: () => this.recipes.get(this.view.trace?.header) ?? null,
    });
    this.menu = new RunMenu(refs, setup.traces, {
      onChoose: (name) => ((this.wanted = null), this.endRemaking(), this.choose(name)),
      onFile: (file) => (this.endRemaking(), this.openFile(file)),
      onSave: () => this.save(),
    });
    this.compare = new CompareMenu(refs.compareWith, setup.traces, gradio, {
      page: this.view,
      race: race.trace,
      fail: (text) => this.menu.fail(text),
    });
    this.profile = new ProfileCard(refs, setup, prompts, gradio, {
      form: () => race.form.order,
      onExample: (data, title, round, node) => this.openExample(data, title, round, node),
    });
    refs.unfoldSide.addEventListener("click", () =>
      refs.unfoldSide.setAttribute("aria-expanded", String(refs.step.classList.toggle("has-side"))),
    );
    refs.forkStop.addEventListener("click", () => this.transport.stop());
    for (const stop of [refs.halt, refs.remakingStop])
      stop.addEventListener("click", () => this.halt());
    refs.live.addEventListener("held", (/** @type {any} */ { detail }) => race.showHeld(detail));
    refs.toHeld.addEventListener("click", () => this.showHeld());
    race.watch({
      began: (/** @type {boolean} */ isHeld) => this.raceBegan(isHeld),
      grew: () => this.raceGrew(),
      ended: (/** @type {string} */ reason) => this.raceEnded(reason),
      failed: (/** @type {string} */ text) => this.raceFailed(text),
      wanted: () => this.bringBack(),
    });
    this.bringBack();
  }

  // Open the last race of this tab again after the page was reloaded.
  async bringBack() {
    const { race } = this;
    await this.keeping;
    const { last } = race;
    const blob = last && (await keptRun(last.name));
    if (!blob) return;
    this.broughtBack = last.name;
    await race.reopen({ data: await base64(blob) }, last);
  }

  get address() {
    return this.place;
  }

  /** @param {string} parameter */
  owns(parameter) {
    return OF_A_MOMENT.includes(parameter);
  }

  get actions() {
    return this.view.actions;
  }

  // The next verdict as a question for a class, before the page shows the answer.
  get question() {
    const { trace, cursor } = this.view;
    const place = trace ? nextVerdict(trace.rounds, cursor.round, cursor.at) : null;
    if (!place) return null;
    return {
      ...verdictQuestion(trace, place),
      still: () => this.view.still(() => {}),
      land: () => cursor.go(place.round, place.at),
    };
  }

  get unasked() {
    return this.view.trace?.rounds.length && !this.question
      ? "no further verdict of this run to ask about"
      : "";
  }

  /** @param {number} by */
  canMove(by) {
    const { moments, at, round, trace } = this.view.cursor;
    return Boolean(moments[at + by] || trace?.rounds[round + by]);
  }

  repaint() {
    this.view.repaint();
  }

  // Stop the running fork, or the race if no fork is running.
  halt() {
    this.endRemaking();
    return this.view.isForking ? this.transport.stop() : this.race.stop();
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.profile.showSetting();
    this.view.setShown(isShown);
    if (!isShown) return (this.place.forget(), this.shareStop());
    const isFree = this.place.read().round === null; // true if the address names no moment
    const stop = isFree ? this.race.takeStop() : null;
    const hasNewRace = isFree && this.hasNewRace && !this.remaking;
    this.hasNewRace = false;
    if (!this.view.trace) return ((this.isBack = true), this.restore(stop));
    if (stop) this.goToStop(stop);
    else if (hasNewRace) ((this.wanted = null), this.choose(RACE));
    this.entered = this.place.moment;
    this.write();
  }

  // Write the current moment into the address. Do not write as long as a link's run is still being
  // made or its moment is not reached yet, so that the link stays in the address.
  write() {
    if (!this.remaking && !this.wanted) this.place.write();
  }

  enter() {
    if (!this.remaking) this.place.enter(this.wanted);
  }

  // Show the stop that the user chose on the race page, whatever the debugger showed before.
  /** @param {{ round: number, node: number }} stop */
  goToStop(stop) {
    this.endRemaking();
    this.wanted = stop;
    if (this.source === RACE) this.land();
    else this.choose(RACE);
  }

  // Tell the race page which round the user reached here, so that it shows the same round.
  shareStop() {
    const { cursor } = this.view;
    const { round, at } = this.place.moment;
    const hasMoved = round !== this.entered?.round || at !== this.entered?.at;
    if (this.source === RACE && hasMoved && !cursor.isFollowing)
      this.race.giveStop(round, cursor.node);
  }

  // React to Back or Forward when another history entry becomes current.
  returned() {
    this.place.forget();
    if (!this.view.trace) return; // the run is opened when the page is shown
    const { round, at } = this.place.read();
    if (this.place.isNamed) this.view.cursor.go(round ?? 0, at ?? 0);
    else ((this.isBack = true), this.restore());
  }

  // Open the moment that the address names. If it names none, open this page's race or the stop
  // that was chosen on the race page. If there is no race, open a recording, at a round in which
  // some tokens were accepted and others rejected.
  /** @param {{ round: number, node: number } | null} [stop] */
  async restore(stop = null) {
    const { trace, transport, recording } = this.race;
    const hasRace = stop !== null || (!recording && (trace.header !== null || transport.isBusy));
    const { name, moment, axis, isGone } = this.place.wish(hasRace, this.sampled);
    this.wanted = moment ?? stop;
    this.endRemaking();
    if (axis) this.view.chooseAxis(axis);
    await this.choose(name);
    if (isGone)
      this.menu.fail(
        "The run of this link was still going on, and went with its page. Here is a recorded one.",
      );
  }

  // The recording that is shown by default, at a round with both an accepted and a rejected token.
  get sampled() {
    return { name: this.setup.sampled, moment: { round: this.setup.sampled_round - 1, at: 0 } };
  }

  /** @param {string} name */
  async openKept(name) {
    const blob = await keptRun(name);
    if (this.chosen !== name) return; // the user has chosen another run in the meantime
    const { recipe, problem } = this.place.readRecipe();
    if (!blob && recipe) return this.remake(recipe);
    if (!blob)
      return this.failed(
        problem ||
          "The run of this link had not ended, or was kept in another browser, or too long ago: ask for its file.",
      );
    this.open(name, { data: await base64(blob) }, "The run of this link", recipe);
  }

  // Make the run of a link again. First open the recording or run the race, and then make its forks
  // one after another.
  /**
   * @param {Recipe} recipe
   * @returns {Promise<void>}
   */
  async remake({ of, setting, forks }) {
    const isRecorded = this.setup.traces.some(({ name }) => name === of);
    this.remaking = { forks: [...forks], wanted: this.wanted };
    this.wanted = null;
    this.showRemaking(isRecorded ? "the recording" : "the race");
    if (isRecorded) return this.choose(of);
    if (of !== OF_A_RACE)
      return this.failed(
        `of must be ${OF_A_RACE} or a recording such as ${this.setup.traces[0]?.name}, got “${brief(of)}”`,
      );
    this.choose(RACE);
    const problem = await this.race.raceLink(setting);
    if (problem) this.failed(problem);
  }

  // A link may name a run with several forks, which are made one after another. Make the next one
  // as soon as the run before it has ended. If that run was stopped, make no further one.
  /** @param {string | null} reason why the run before it ended */
  goOnRemaking(reason) {
    const { remaking } = this;
    if (!remaking) return;
    const order = reason === "stopped" ? undefined : remaking.forks.shift();
    if (order && !this.race.form.pair?.is_here)
      return void this.failed(
        "the models that it names are not on this machine, and a link fetches none",
      );
    const isLast = !remaking.forks.length;
    if (order) this.showRemaking(`the fork before round ${order.round + 1}`);
    if (order) return void this.fork(order, (isLast && remaking.wanted) || undefined);
    this.endRemaking();
    if (this.parent === null && remaking.wanted) ((this.wanted = remaking.wanted), this.land());
    this.write();
  }

  /** @param {string} what */
  showRemaking(what) {
    setText(this.refs.remakingWord, `Making the run of this link again: ${what} …`);
    this.refs.remaking.hidden = false;
  }

  endRemaking() {
    this.remaking = null;
    this.refs.remaking.hidden = true;
  }

  /** @param {string} name */
  choose(name) {
    this.chosen = name;
    this.isExample &&= name === this.setup.sampled;
    if (name === RACE || name === this.keptRaces.nameOf(this.race.trace)) return this.showRace();
    if (name.startsWith(KEPT)) return this.openKept(name);
    const known = this.setup.traces.find((trace) => trace.name === name);
    if (!known) return this.chooseUnknown(name);
    return this.open(name, { golden: name }, known.title, { of: name, setting: "", forks: [] });
  }

  // Open the first recording and say that the requested one does not exist.
  /** @param {string} name */
  async chooseUnknown(name) {
    const names = this.setup.traces.map((trace) => trace.name);
    await this.choose(names[0] ?? RACE);
    this.menu.fail(
      `trace must be the name of a recording, such as ${names[0]}, got “${String(name).slice(0, 40)}”. Here is the first one.`,
    );
  }

  showRace() {
    this.menu.forgive();
    this.transport.leave();
    this.compare.clear();
    this.view.expect(null);
    this.menu.showRun(this.race.trace);
    this.source = RACE;
    this.view.isOurs = true;
    this.menu.select(RACE);
    this.enter();
    this.view.show(this.race.trace);
    this.land();
  }

  /** @param {File} file */
  async openFile(file) {
    const name = newRunName();
    await this.open(name, { data: await base64(file) }, file.name);
    if (this.source === name) keepRun(name, file);
  }

  // Open the run of a rejection from the profile at the round of that rejection.
  /**
   * @param {string} data
   * @param {string} title
   * @param {number} round
   * @param {number} node
   */
  async openExample(data, title, round, node) {
    this.wanted = { round, node };
    const name = newRunName();
    keepRun(name, blobOfBase64(data));
    await this.open(name, { data }, title);
  }

  /**
   * @param {string} name
   * @param {object} recording
   * @param {string} title
   * @param {Recipe | null} [recipe]
   */
  async open(name, recording, title, recipe = null) {
    this.menu.showNote(`opening ${title} …`);
    this.begin(name, title);
    this.recipe = recipe;
    this.view.isOurs = false;
    await this.transport.open(recording);
  }

  // Open a recording with random draws, because the current run has temperature 0.
  async showSampled() {
    this.wanted = this.sampled.moment;
    this.endRemaking();
    this.isExample = true;
    await this.choose(this.setup.sampled);
  }

  // Race the prompt of the race page again with random draws.
  async raceDrawn() {
    if (this.race.transport.isBusy) return;
    this.wanted = null;
    this.endRemaking();
    this.choose(RACE);
    this.isExample = true;
    await this.race.raceDrawn();
  }

  // After an example with random draws was opened, move to its most informative stop and repeat the
  // draw there. Do nothing if the user has moved elsewhere in the meantime.
  redrawExample() {
    const { cursor, trace } = this.view;
    const { rounds, tellingRound } = trace;
    this.isExample = false;
    if (!rounds.length || this.view.hasMoved) return;
    cursor.toNode(tellingRound, rounds[tellingRound].tellingStop);
    this.view.redraw();
  }

  // Prepare for a new run or fork. The previous run stays on the page until the new one starts.
  /**
   * @param {string} name
   * @param {string} title
   */
  begin(name, title, coming = "run") {
    const isOpening = this.transport.isBusy && this.parent === null;
    this.menu.forgive();
    this.transport.leave();
    this.view.expect(coming);
    this.view.fork.errors.clear();
    this.before = {
      source: this.source,
      isOurs: this.view.isOurs,
      trace: this.view.trace,
      isOpening,
    };
    this.compare.clear();
    this.source = name;
    this.chosen = name;
    this.title = title;
    this.opened = new Trace();
    this.parent = null;
  }

  // Fork the run: the real decoder continues from one of its rounds. The fork is then compared with
  // its parent.
  /**
   * @param {ForkOrder} order
   * @param {{ round: number, at: number }} [wanted]
   */
  async fork(order, wanted = { round: order.round, at: 0 }) {
    const parent = this.view.trace?.copy(); // a copy, because a later race would overwrite the original
    if (this.transport.isBusy || !parent?.rounds.length) return;
    const title = `${this.menu.title}, forked before round ${order.round + 1}`;
    this.menu.showNote(`${title}: starting …`);
    const data = await base64(await traceBlob(parent));
    this.begin(newRunName(), title, "fork");
    this.parent = parent;
    this.recipe = forkedRecipe(this.recipes.get(/** @type {object} */ (parent.header)), order);
    this.wanted = wanted;
    await this.transport.start("fork", { ...order, data, form: this.race.form.order });
  }

  /** @param {string} what */
  hold(what) {
    const transport = this.source === RACE ? this.race.transport : this.transport;
    const asked = transport.ask("hold", { ticket: transport.ticket, do: what });
    asked.then(
      (/** @type {Reply} */ reply) =>
        reply?.error && transport.isBusy && this.refuseHold(reply.error),
    );
    if (what === "advance") this.view.cursor.setFollowing(true); // show the round that the decoder now runs
  }

  // Report that the run cannot be paused, because other pages share it.
  /** @param {string} text */
  refuseHold(text) {
    this.view.live?.letGo();
    this.menu.fail(text);
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    this.opened.take(message);
    if (message.kind === "header") this.begun();
    if (message.kind === "event" && this.wanted && this.opened.rounds.length > this.wanted.round)
      this.land();
    const isUnderWay =
      this.parent !== null && message.type === "round" && this.opened.rounds.length === 1;
    if (isUnderWay) this.menu.showRun(this.opened);
    if (message.type === "round") this.menu.showProgress(this.title, this.opened.rounds.length);
    if (message.kind === "loading") this.menu.showNote(`loading ${message.pair} …`);
    if (message.kind === "end") this.ended(message.limit ?? "");
    this.view.grew();
  }

  // `note` says why the server ended the run, "" if the run is complete.
  /** @param {string} note */
  ended(note) {
    if (!this.opened.header) return this.failed("The run was stopped before it began.");
    if (this.wanted) this.land(); // the run ended before the wanted round: go to the nearest one
    if (this.isExample) this.redrawExample();
    this.menu.showRun(this.opened, note);
    this.view.expect(null);
    this.before = null;
    if (this.isBack) ((this.isBack = false), this.place.scrollBack());
    if (this.parent) {
      const { source } = this;
      this.compareWithParent();
      traceBlob(this.opened).then((blob) => keepRun(source, blob));
    }
    this.goOnRemaking(this.opened.ending);
  }

  begun() {
    this.view.fork.wait(0);
    this.menu.add(this.source, this.title);
    this.menu.select(this.source);
    this.view.isOurs = this.parent !== null;
    this.recipes.set(/** @type {object} */ (this.opened.header), this.recipe);
    this.enter();
    this.view.show(this.opened);
    this.compareWithParent();
  }

  compareWithParent() {
    if (this.parent) this.compare.showParent(this.parent);
  }

  // Move to the wanted moment once its round exists.
  land() {
    const { wanted } = this;
    this.wanted = null;
    if (wanted?.node !== undefined)
      (this.view.cursor.toNode(wanted.round, wanted.node), window.scrollTo(0, 0));
    else if (wanted) this.view.cursor.go(wanted.round, wanted.at);
    else if (this.view.trace?.rounds.length) this.view.cursor.go(0, 0);
    this.entered = this.place.moment;
  }

  /**
   * @param {string} text
   * @returns {Promise<void> | void}
   */
  failed(text) {
    if (this.remaking) return this.failedToRemake(text);
    if (this.before?.isOpening) return this.openAgain(this.before.source, text);
    if (this.view.isForking) (this.menu.showRunAgain(), this.view.fork.errors.report(text));
    else this.menu.fail(text);
    if (this.before) this.goBack(this.before);
    this.wanted = null;
    this.view.expect(null);
    this.menu.select(this.source);
    if (!this.view.trace) this.view.show(this.race.trace);
  }

  // A link's run could not be made completely. Keep the part of it that exists. If nothing exists,
  // open a recording.
  /** @param {string} text */
  async failedToRemake(text) {
    this.endRemaking();
    if (this.before) this.goBack(this.before);
    this.wanted = null;
    this.view.expect(null);
    if (this.view.trace?.header) this.menu.select(this.source);
    else await this.choose(this.setup.traces[0]?.name ?? RACE);
    this.menu.fail(`The run of this link cannot be made again: ${text.replace(/\.$/, "")}.`);
  }

  // Open the recording `source` again. A request for another run had cancelled its loading, but the
  // server then refused that request with the error `text`.
  /**
   * @param {string} source
   * @param {string} text
   */
  async openAgain(source, text) {
    this.before = null;
    await this.choose(source);
    this.menu.fail(text);
  }

  // Return to the previous run after the server refused the new one.
  /** @param {any} before */
  goBack({ source, isOurs, trace }) {
    const isReplaced = this.wanted && trace && this.view.trace !== trace;
    if (isReplaced) this.menu.remove(this.source);
    this.source = source;
    this.chosen = source;
    this.before = null;
    this.view.isOurs = isOurs;
    if (isReplaced) (this.view.show(trace), this.land());
  }

  // React to the start of a race. `isHeld` is true if it waits before its first round and is
  // controlled from the debugger.
  /** @param {boolean} isHeld */
  raceBegan(isHeld) {
    if (this.race.isReopening)
      this.keptRaces.name(this.race.trace, this.race.recording?.name ?? this.broughtBack);
    if (isHeld) this.shell.show(StepPage.id);
    if (isHeld) ((this.wanted = null), this.choose(RACE));
    else if (this.source === RACE && this.view.trace)
      (this.compare.clear(), this.menu.showRun(this.race.trace), this.view.show(this.race.trace));
    // To make the fork of a link, the page first repeats the fork's parent. The user did not start
    // that race, so it is not announced as a new one.
    this.hasNewRace = this.source !== RACE && !this.race.isReopening && !this.remaking;
    this.view.live.begin(isHeld);
    this.recipes.set(/** @type {object} */ (this.race.trace.header), this.recipeOfRace);
    if (isHeld) (this.view.draw(), this.refs.advance.focus({ preventScroll: true }));
  }

  /** @returns {Recipe | null} */
  get recipeOfRace() {
    const { recording, query } = this.race;
    if (recording) return { of: recording.name, setting: "", forks: [] };
    return query === null ? null : { of: OF_A_RACE, setting: query, forks: [] };
  }

  showHeld() {
    this.shell.show(StepPage.id);
    if (this.source !== RACE) this.choose(RACE);
  }

  // Show the error of a failed race, but only if the debugger has started this race.
  /** @param {string} text */
  raceFailed(text) {
    const isOurs = this.isExample || this.remaking !== null;
    this.isExample = false;
    if (isOurs) this.failed(text);
  }

  raceGrew() {
    if (this.source === RACE) this.view.grew();
  }

  // Store a finished race, so that links to its moments still work after a reload.
  /** @param {string} reason */
  async raceEnded(reason) {
    const { trace } = this.race;
    if (this.source === RACE) (this.menu.showRun(trace), this.goOnRemaking(reason));
    if (this.source === RACE && this.isExample) this.redrawExample();
    this.keeping = Promise.all([this.keeping, this.keepRace(trace)]);
    await this.keeping;
  }

  // Store a finished race in this browser, even if the page shows another run by now.
  /** @param {Trace} trace */
  async keepRace(trace) {
    const { header } = trace;
    const { ran } = this.race;
    const name = await this.keptRaces.keep(trace);
    if (!name) return;
    const isOnStage = trace.header === header;
    if (ran)
      this.race.keepLast(
        name,
        ran,
        isOnStage || this.race.recording !== null || !this.race.transport.isBusy,
      );
    if (isOnStage && this.view.isShown) this.write();
  }

  /** @returns {Promise<void>} */
  async save() {
    const { trace } = this.view;
    if (!trace?.header) return this.menu.fail("There is no run to save yet.");
    download(await traceBlob(trace), nameOf(trace));
  }
}
