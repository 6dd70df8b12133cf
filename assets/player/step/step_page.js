// The debugger's page: which run it shows and how it got here (the race, a recorded run, a file, a fork, a
// link from which a run is made again).

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

  // Steps through the race of the race page too, whose models and device a fork takes.
  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { refs, theme, setup, prompts, gradio } = shell;
    const { race } = shell.pages;
    this.refs = refs;
    this.race = race;
    this.setup = setup;
    this.opened = new Trace();
    this.title = ""; // of the run that is opened
    this.source = RACE;
    /** @type {any} a moment: { round, at } or { round, node } */
    this.wanted = null;
    /** @type {WeakMap<object, Recipe | null>} by the header of a run */
    this.recipes = new WeakMap();
    /** @type {Recipe | null} of the run that is to come */
    this.recipe = null;
    this.isExample = false; // the run that is to come is to be drawn anew
    this.hasNewRace = false; // one that was not stepped through yet
    /** @type {Promise<any> | undefined} until every race that has ended is kept */
    this.keeping = undefined;
    /** @type {{ forks: ForkOrder[], wanted: any } | null} what is still to be made of a link's run */
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
    refs.unfoldSide.addEventListener("click", () => refs.unfoldSide.setAttribute("aria-expanded", String(refs.step.classList.toggle("has-side"))));
    refs.forkStop.addEventListener("click", () => this.transport.stop());
    for (const stop of [refs.halt, refs.remakingStop]) stop.addEventListener("click", () => this.halt());
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

  // The race of this tab, where the page was loaded again.
  async bringBack() {
    const { race } = this;
    await this.keeping;
    const { last } = race;
    const blob = last && (await keptRun(last.name));
    if (!blob) return;
    this.broughtBack = last.name;
    await race.reopen({ data: await base64(blob) }, last);
  }

  // ---- as a page

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

  // The next verdict, before it is shown.
  get question() {
    const { trace, cursor } = this.view;
    const place = trace ? nextVerdict(trace.rounds, cursor.round, cursor.at) : null;
    if (!place) return null;
    return { ...verdictQuestion(trace, place), still: () => this.view.still(() => {}), land: () => cursor.go(place.round, place.at) };
  }

  get unasked() {
    return this.view.trace?.rounds.length && !this.question ? "no further verdict of this run to ask about" : "";
  }

  /** @param {number} by */
  canMove(by) {
    const { moments, at, round, trace } = this.view.cursor;
    return Boolean(moments[at + by] || trace?.rounds[round + by]);
  }

  repaint() {
    this.view.repaint();
  }

  // What is shown: a fork, or the race of the race page.
  halt() {
    this.endRemaking();
    return this.view.isForking ? this.transport.stop() : this.race.stop();
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.profile.showSetting();
    this.view.setShown(isShown);
    if (!isShown) return this.place.forget(), this.shareStop();
    const isFree = this.place.read().round === null; // the address asks for no moment
    const stop = isFree ? this.race.takeStop() : null;
    const hasNewRace = isFree && this.hasNewRace && !this.remaking;
    this.hasNewRace = false;
    if (!this.view.trace) return this.isBack = true, this.restore(stop);
    if (stop) this.goToStop(stop);
    else if (hasNewRace) this.wanted = null, this.choose(RACE);
    this.entered = this.place.moment;
    this.write();
  }

  // A link stays in the address until all of its run is there, and the moment that it names.
  write() {
    if (!this.remaking && !this.wanted) this.place.write();
  }

  enter() {
    if (!this.remaking) this.place.enter(this.wanted);
  }

  // The stop that was chosen on the race page is the one to step through, whatever was shown before.
  /** @param {{ round: number, node: number }} stop */
  goToStop(stop) {
    this.endRemaking();
    this.wanted = stop;
    if (this.source === RACE) this.land();
    else this.choose(RACE);
  }

  // And the race page shows the round that was stepped to.
  shareStop() {
    const { cursor } = this.view;
    const { round, at } = this.place.moment;
    const hasMoved = round !== this.entered?.round || at !== this.entered?.at;
    if (this.source === RACE && hasMoved && !cursor.isFollowing) this.race.giveStop(round, cursor.node);
  }

  // By Back or Forward, to another entry of the history.
  returned() {
    this.place.forget();
    if (!this.view.trace) return; // being shown restores it
    const { round, at } = this.place.read();
    if (this.place.isNamed) this.view.cursor.go(round ?? 0, at ?? 0);
    else this.isBack = true, this.restore();
  }

  // The moment that the address names; without one, the race of this page's own or a stop that was chosen in the
  // recording there, else a recording with accepted and rejected draws.
  /** @param {{ round: number, node: number } | null} [stop] */
  async restore(stop = null) {
    const { trace, transport, recording } = this.race;
    const hasRace = stop !== null || (!recording && (trace.header !== null || transport.isBusy));
    const { name, moment, axis, isGone } = this.place.wish(hasRace, this.sampled);
    this.wanted = moment ?? stop;
    this.endRemaking();
    if (axis) this.view.chooseAxis(axis);
    await this.choose(name);
    if (isGone) this.menu.fail("The run of this link was still going on, and went with its page. Here is a recorded one.");
  }

  // The recording that is shown where no other is asked for, from a round on that shows both verdicts.
  get sampled() {
    return { name: this.setup.sampled, moment: { round: this.setup.sampled_round - 1, at: 0 } };
  }

  /** @param {string} name */
  async openKept(name) {
    const blob = await keptRun(name);
    if (this.chosen !== name) return; // another one meanwhile
    const { recipe, problem } = this.place.readRecipe();
    if (!blob && recipe) return this.remake(recipe);
    if (!blob) return this.failed(problem || "The run of this link had not ended, or was kept in another browser, or too long ago: ask for its file.");
    this.open(name, { data: await base64(blob) }, "The run of this link", recipe);
  }

  // ---- a run that is made again from its link

  // What it was forked from first: a recording, or a race of the link's setting; then its forks.
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
    if (of !== OF_A_RACE) return this.failed(`of must be ${OF_A_RACE} or a recording such as ${this.setup.traces[0]?.name}, got “${brief(of)}”`);
    this.choose(RACE);
    const problem = await this.race.raceLink(setting);
    if (problem) this.failed(problem);
  }

  // The run before has ended: the next fork leaves it, unless it was stopped.
  /** @param {string | null} reason why it ended */
  goOnRemaking(reason) {
    const { remaking } = this;
    if (!remaking) return;
    const order = reason === "stopped" ? undefined : remaking.forks.shift();
    if (order && !this.race.form.pair?.is_here) return void this.failed("the models that it names are not on this machine, and a link fetches none");
    const isLast = !remaking.forks.length;
    if (order) this.showRemaking(`the fork before round ${order.round + 1}`);
    if (order) return void this.fork(order, (isLast && remaking.wanted) || undefined);
    this.endRemaking();
    if (this.parent === null && remaking.wanted) this.wanted = remaking.wanted, this.land();
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

  // ---- choosing a run

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

  // There is always one to look at.
  /** @param {string} name */
  async chooseUnknown(name) {
    const names = this.setup.traces.map((trace) => trace.name);
    await this.choose(names[0] ?? RACE);
    this.menu.fail(`trace must be a recording such as ${names[0]}, got “${String(name).slice(0, 40)}”. Here is the first one.`);
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

  // A rejection of a profile: its run opens where it happened.
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

  // A recording in which something is drawn, where the run at hand has temperature 0.
  async showSampled() {
    this.wanted = this.sampled.moment;
    this.endRemaking();
    this.isExample = true;
    await this.choose(this.setup.sampled);
  }

  // The question of the race page, with draws.
  async raceDrawn() {
    if (this.race.transport.isBusy) return;
    this.wanted = null;
    this.endRemaking();
    this.choose(RACE);
    this.isExample = true;
    await this.race.raceDrawn();
  }

  // Where it tells most, and drawn at once; not for who has gone elsewhere meanwhile.
  redrawExample() {
    const { cursor, trace } = this.view;
    const { rounds, tellingRound } = trace;
    this.isExample = false;
    if (!rounds.length || this.view.hasMoved) return;
    cursor.toNode(tellingRound, rounds[tellingRound].tellingStop);
    this.view.redraw();
  }

  // A run is to come, or a fork; until it does, the one before it stays.
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
    this.before = { source: this.source, isOurs: this.view.isOurs, trace: this.view.trace, isOpening };
    this.compare.clear();
    this.source = name;
    this.chosen = name;
    this.title = title;
    this.opened = new Trace();
    this.parent = null;
  }

  // The real decoder goes on from a round of the run that is shown, which then stands beside it.
  /**
   * @param {ForkOrder} order
   * @param {{ round: number, at: number }} [wanted]
   */
  async fork(order, wanted = { round: order.round, at: 0 }) {
    const parent = this.view.trace?.copy(); // a later race of the page is not what it was forked from
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
    asked.then((/** @type {Reply} */ reply) => reply?.error && transport.isBusy && this.refuseHold(reply.error));
    if (what === "advance") this.view.cursor.setFollowing(true); // to see what is let through
  }

  // A run that other pages see too is not this page's to hold.
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
    if (message.kind === "event" && this.wanted && this.opened.rounds.length > this.wanted.round) this.land();
    const isUnderWay = this.parent !== null && message.type === "round" && this.opened.rounds.length === 1;
    if (isUnderWay) this.menu.showRun(this.opened);
    if (message.type === "round") this.menu.showProgress(this.title, this.opened.rounds.length);
    if (message.kind === "loading") this.menu.showNote(`loading ${message.pair} …`);
    if (message.kind === "end") this.ended(message.limit ?? "");
    this.view.grew();
  }

  // `note`: why the server ended it, "" where it did not.
  /** @param {string} note */
  ended(note) {
    if (!this.opened.header) return this.failed("The run was stopped before it began.");
    if (this.wanted) this.land(); // a round that it does not have: the nearest
    if (this.isExample) this.redrawExample();
    this.menu.showRun(this.opened, note);
    this.view.expect(null);
    this.before = null;
    if (this.isBack) this.isBack = false, this.place.scrollBack();
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

  // Once the round that was asked for is there.
  land() {
    const { wanted } = this;
    this.wanted = null;
    if (wanted?.node !== undefined) this.view.cursor.toNode(wanted.round, wanted.node), window.scrollTo(0, 0);
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
    if (this.view.isForking) this.menu.showRunAgain(), this.view.fork.errors.report(text);
    else this.menu.fail(text);
    if (this.before) this.goBack(this.before);
    this.wanted = null;
    this.view.expect(null);
    this.menu.select(this.source);
    if (!this.view.trace) this.view.show(this.race.trace);
  }

  // What was made of the run stays; without any, there is a recording to look at.
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

  // The recording that had not come in full when another one was asked for, which is refused.
  /**
   * @param {string} source
   * @param {string} text
   */
  async openAgain(source, text) {
    this.before = null;
    await this.choose(source);
    this.menu.fail(text);
  }

  // What was to come is not to be: the run before it, which a fork that was refused late had replaced.
  /** @param {any} before */
  goBack({ source, isOurs, trace }) {
    const isReplaced = this.wanted && trace && this.view.trace !== trace;
    if (isReplaced) this.menu.remove(this.source);
    this.source = source;
    this.chosen = source;
    this.before = null;
    this.view.isOurs = isOurs;
    if (isReplaced) this.view.show(trace), this.land();
  }

  // ---- the race of this page

  // `isHeld`: it waits before its first round, and goes on from here.
  /** @param {boolean} isHeld */
  raceBegan(isHeld) {
    if (this.race.isReopening) this.keptRaces.name(this.race.trace, this.race.recording?.name ?? this.broughtBack);
    if (isHeld) this.shell.show(StepPage.id);
    if (isHeld) this.wanted = null, this.choose(RACE);
    else if (this.source === RACE && this.view.trace) this.compare.clear(), this.menu.showRun(this.race.trace), this.view.show(this.race.trace);
    this.hasNewRace = this.source !== RACE && !this.race.isReopening && !this.remaking; // one of a link is for its fork
    this.view.live.begin(isHeld);
    this.recipes.set(/** @type {object} */ (this.race.trace.header), this.recipeOfRace);
    if (isHeld) this.view.draw(), this.refs.advance.focus({ preventScroll: true });
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

  // One that was asked for here.
  /** @param {string} text */
  raceFailed(text) {
    const isOurs = this.isExample || this.remaking !== null;
    this.isExample = false;
    if (isOurs) this.failed(text);
  }

  raceGrew() {
    if (this.source === RACE) this.view.grew();
  }

  // So that a link to its moments survives a reload.
  /** @param {string} reason */
  async raceEnded(reason) {
    const { trace } = this.race;
    if (this.source === RACE) this.menu.showRun(trace), this.goOnRemaking(reason);
    if (this.source === RACE && this.isExample) this.redrawExample();
    this.keeping = Promise.all([this.keeping, this.keepRace(trace)]);
    await this.keeping;
  }

  // Meanwhile another run may come on stage: this one is kept all the same.
  /** @param {Trace} trace */
  async keepRace(trace) {
    const { header } = trace;
    const { ran } = this.race;
    const name = await this.keptRaces.keep(trace);
    if (!name) return;
    const isOnStage = trace.header === header;
    if (ran) this.race.keepLast(name, ran, isOnStage || this.race.recording !== null || !this.race.transport.isBusy);
    if (isOnStage && this.view.isShown) this.write();
  }

  /** @returns {Promise<void>} */
  async save() {
    const { trace } = this.view;
    if (!trace?.header) return this.menu.fail("There is no run to save yet.");
    download(await traceBlob(trace), nameOf(trace));
  }
}
