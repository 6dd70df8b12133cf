// The views of one race. Each view is updated once per frame.

import { Chart } from "../shared/charts.js";
import { Cursor, EXTRA } from "../shared/cursor.js";
import { option, setParts, setText } from "../shared/dom.js";
import { Frame } from "../shared/frame.js";
import { Inspector } from "./inspector.js";
import { Lanes } from "./lanes.js";
import { LossBadges } from "./loss_badge.js";
import { PACES, Playback } from "./playback.js";
import { Result } from "./result.js";
import { selectionWords } from "./selection_words.js";
import { curveUntil, speedupAt } from "./speedup_curve.js";
import { legendRows } from "../shared/outcomes.js";
import { Strip } from "../shared/strip.js";
import { TemplateToggle } from "../shared/template_toggle.js";
import { Tooltip } from "../shared/tooltip.js";
import { Trace } from "../shared/trace.js";

const COLUMNS =
  "A column per round: accepted, rejected, never examined; on top what the target added. Click one to go there.";
const LIVE_CHART_MILLISECONDS = 200; // shortest interval between charts during a run, because decoding needs the CPU more

/** @typedef {import("./repeats.js").ServerNumbers} ServerNumbers */

export class RaceView {
  /**
   * @param {HTMLElement} root
   * @param {Refs} refs
   * @param {Theme} theme
   * @param {Setup} setup
   * @param {{ onMove: () => void, onWhy: () => boolean, onExample: () => void, exampleWords: () => string }} on `onWhy` is called if the user asks why a greedy run is exact; it returns true if another run will be shown. `onExample` is called to open a run with random draws, which `exampleWords` describe
   */
  constructor(root, refs, theme, setup, { onMove, onWhy, onExample, exampleWords }) {
    this.root = root;
    this.onWhy = onWhy;
    this.refs = refs;
    this.theme = theme;
    this.trace = new Trace();
    this.frame = new Frame(() => refs.racePage.hidden || this.draw());
    const ask = () => this.frame.ask();
    this.cursor = new Cursor(this.trace, () => (ask(), onMove()));
    this.playback = new Playback(this.trace, this.cursor, ask);
    this.tooltip = new Tooltip(refs.tooltip);
    this.loss = new LossBadges([refs.resultLoss, refs.proofLoss], setup.rules);
    this.lanes = new Lanes(refs, this.trace, {
      onToken: (at) => this.selectToken(at),
      tooltip: this.tooltip,
      lossOf: (config) => this.loss.textOf(config),
    });
    this.strip = new Strip(refs.strip, {
      onSelect: (round) => this.select(round),
      onChange: ask,
      theme,
    });
    const onSelect = (/** @type {number} */ node) => this.select(this.cursor.round, node);
    this.inspector = new Inspector(refs, theme, {
      glossary: setup.glossary,
      onSelect,
      onExample,
      exampleWords,
    });
    this.result = new Result(refs, setup.glossary);
    /** @type {Record<string, any>} */
    this.charts = { speedup: refs.speedupChart, times: refs.timeChart, depth: refs.depthChart };
    for (const name of Object.keys(this.charts))
      this.charts[name] = new Chart(this.charts[name], theme);
    refs.legend.append(...legendRows());
    this.template = new TemplateToggle(
      refs.showTemplate,
      () => Object.values(this.lanes.ribbons),
      () => this.showPrompt(),
    );
    this.lastCharts = 0;
    this.isOwn = false; // true if the page shows its own race, whose replay is then labelled as a replay
    this.wireTransport();
    this.clear();
  }

  wireTransport() {
    const { refs, cursor } = this;
    const on = (/** @type {any} */ ref, /** @type {(...given: any[]) => void} */ action) =>
      ref.addEventListener("click", () => (this.playback.pause(), action()));
    on(refs.first, () => cursor.toFirst());
    on(refs.last, () => cursor.toLast());
    on(refs.back, () => cursor.stepRound(-1));
    on(refs.forward, () => cursor.stepRound(1));
    on(refs.follow, () => cursor.setFollowing(!cursor.isFollowing));
    refs.play.addEventListener("click", () => this.playback.toggle());
    refs.replaySlowly.addEventListener("click", () => this.playback.play());
    for (const end of [refs.replayEnd, refs.replaySkip])
      end.addEventListener("click", () => this.playback.arrive());
    // End a replay if the user asks about exactness, because draws can be repeated only in the
    // whole run.
    refs.racePage.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const isAsked =
        event.target instanceof Element && event.target.closest(`[href="#why-exact"]`);
      if (isAsked && this.playback.isPlaying) this.playback.arrive();
      // At temperature 0 there are no draws to repeat. `onWhy` tries to open another run, with
      // draws. If it opens none, show only the proof.
      if (isAsked && this.trace.isGreedy && !this.onWhy()) this.inspector.redraw.openProof();
    });
    refs.rate.append(...PACES.map(({ name, title }) => option(name, title)));
    refs.rate.value = this.playback.pace;
    refs.rate.addEventListener("change", () => (this.playback.pace = refs.rate.value));
  }

  // The actions that keys call.
  get actions() {
    const { cursor, playback } = this;
    const still =
      (/** @type {(...given: any[]) => void} */ action) =>
      (/** @type {any[]} */ ...given) => (playback.pause(), action(...given));
    return {
      position: still((/** @type {any} */ step) => cursor.stepStop(step)),
      round: still((/** @type {any} */ step) => cursor.stepRound(step)),
      first: still(() => cursor.toFirst()),
      last: still(() => cursor.toLast()),
      follow: still(() => cursor.setFollowing(true)),
      play: () => playback.toggle(),
      redraw: () => this.inspector.redraw.startByKey(),
    };
  }

  clear() {
    this.playback.isPlaying = false;
    this.playback.moment = null;
    this.trace.clear();
    this.cursor.reset();
    this.lanes.clear();
    this.inspector.clear();
    this.result.clear();
    this.loss.show(null);
    this.template.show(null);
    for (const chart of Object.values(this.charts)) chart.clear();
    this.shownFigures = null;
    this.isReplayed = false; // true if the shown speedup is the speedup at a moment of the replay
    /** @type {boolean} */
    this.showsWhole = true; // true if the lanes show the end of the run
    this.lastCharts = 0;
    this.frame.ask();
  }

  // Take a message of the server. The previous race stays on the page until the `header`
  // message of a new race arrives.
  /** @param {any} message */
  take(message) {
    const isNew = message.kind === "header";
    if (!isNew && !this.trace.isLive) return;
    if (isNew) this.clear();
    this.trace.take(message);
    if (isNew) {
      this.lanes.start();
      this.loss.show(this.trace.main.config);
      this.template.show(this.trace);
      this.showPrompt();
    }
    this.cursor.follow();
    if (message.kind !== "end") return this.frame.askAtLeisure();
    this.lastCharts = 0;
    this.frame.ask();
  }

  showPrompt() {
    this.lanes.showPrompt(this.template.promptOf(this.trace));
  }

  // Play a recording from its start, at a speed that the eye can follow. Do not play it if the
  // system setting asks for reduced motion.
  replay() {
    const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.isUnplayed = this.refs.racePage.hidden;
    if (!isStill && !this.refs.racePage.hidden) this.playback.play();
  }

  // Repeat the draw at the selected position many times.
  redraw() {
    this.draw();
    this.inspector.redraw.start();
  }

  interrupt() {
    this.trace.end("stopped");
    this.cursor.follow();
    this.frame.ask();
  }

  /**
   * @param {number} round
   * @param {number | null} [node]
   */
  select(round, node = null) {
    this.playback.pause();
    this.cursor.select(round, node);
  }

  // The round and stop that the user chose, or null if the cursor follows the race.
  get chosen() {
    const { isFollowing, round, stops, node } = this.cursor;
    return isFollowing || this.playback.isPlaying || round < 0
      ? null
      : { round, at: Math.max(0, stops.indexOf(node)) };
  }

  // Choose a stop. If its round does not exist, choose the nearest round.
  /** @param {{ round: number, at: number }} stop */
  choose({ round, at }) {
    const last = Math.min(round, this.trace.rounds.length - 1);
    this.select(last, this.trace.rounds[last]?.stops[at] ?? null);
  }

  /** @param {number} at */
  selectToken(at) {
    const token = this.trace.main.tokens[at];
    if (token && token.round >= 0) this.select(token.round, token.node);
  }

  get moment() {
    const { cursor, playback, trace } = this;
    if (playback.moment !== null) return playback.moment;
    const isWhole = cursor.isFollowing || cursor.round >= trace.rounds.length - 1;
    return isWhole || cursor.round < 0 ? Infinity : trace.rounds[cursor.round].clock;
  }

  draw() {
    const { trace, cursor } = this;
    this.root.classList.toggle("is-empty", !trace.rounds.length);
    this.root.classList.toggle("has-trace", trace.header !== null);
    this.strip.draw(trace.rounds, cursor.round, { until: this.playback.ended });
    this.strip.describe(cursor.round, this.momentText());
    this.drawTransport();
    this.drawMoment();
    if (!trace.header) return;
    this.drawLanes();
    this.drawNumbers();
    this.inspector.drawWords(trace, cursor.round, cursor.node);
    this.drawCharts();
  }

  drawTransport() {
    const { trace, cursor, refs, playback } = this;
    refs.follow.hidden = !trace.isLive;
    refs.follow.setAttribute("aria-pressed", String(cursor.isFollowing));
    for (const part of [refs.play, refs.racePage])
      part.classList.toggle("is-playing", playback.isPlaying);
    for (const name of ["first", "back", "play", "forward", "last", "rate"])
      refs[name].disabled = !trace.rounds.length;
    refs.barsTitle.setAttribute("aria-live", trace.isLive ? "off" : "polite");
    refs.play.setAttribute("aria-label", playback.isPlaying ? "Pause" : "Play");
    for (const part of [refs.replayNotice, refs.replayState])
      part.hidden = !this.isOwn || !playback.isPlaying;
    refs.replaySlowly.hidden = trace.isLive || playback.isPlaying || !trace.rounds.length;
    for (const words of [refs.replayPace, refs.replayWords]) setText(words, playback.words);
  }

  drawLanes() {
    const { trace, cursor, playback } = this;
    const round = trace.rounds[cursor.round];
    const selected =
      cursor.isFollowing && trace.isLive ? -1 : trace.tokenOf(cursor.round, cursor.node);
    const place = { selected, from: round?.firstToken ?? 0, to: round?.endToken ?? 0 };
    this.lanes.draw(place, this.moment, {
      isFollowing: cursor.isFollowing,
      isPlaying: playback.isPlaying,
    });
  }

  // Show the numbers. During a replay, the speedup is the value of the speedup curve at the
  // replay's moment.
  drawNumbers() {
    const { trace, result } = this;
    const { summary, ending } = trace;
    if (!summary) return;
    const { replayed } = this;
    const isWhole = /** @type {boolean} */ (this.moment === Infinity);
    if (
      summary !== this.shownSummary ||
      (this.isReplayed && !replayed) ||
      isWhole !== this.showsWhole
    )
      result.draw(summary, trace, ending, this.loss.text);
    if (replayed) result.drawReplayed(speedupAt(replayed.curve, replayed.moment));
    else if (trace.isLive) result.drawLive(trace, this.moment);
    else if (!isWhole) result.drawWhole();
    this.shownSummary = summary;
    this.isReplayed = replayed !== null;
    this.showsWhole = isWhole;
  }

  // The speedup curve during a replay, and the moment up to which it is shown. Null outside of a
  // replay.
  get replayed() {
    const {
      trace: { figures },
      playback: { isPlaying, moment },
    } = this;
    return figures && isPlaying && moment !== null ? { curve: figures.speedup, moment } : null;
  }

  // Show the speedups of several runs, and say that the run on the page has the median speedup.
  /**
   * @param {number[]} speedups
   * @param {ServerNumbers[]} servers
   */
  showSpread(speedups, servers, disturbed = 0) {
    const ofServers = servers.map(({ speedup }) => speedup).filter((each) => each !== null);
    this.result.speedups = speedups;
    this.result.disturbed = disturbed;
    this.result.serverSpeedups = ofServers.length > 1 ? ofServers : null;
    for (const { name } of this.trace.lanes)
      this.lanes.rates[name] = servers.flatMap(({ rates }) => rates[name] ?? []);
    this.shownSummary = null;
    this.frame.ask();
  }

  // Draw the charts. During a run they are drawn less often than the lanes and numbers, because
  // they are expensive.
  drawCharts() {
    const now = performance.now();
    const isRunning = this.playback.isPlaying || (this.trace.isLive && this.cursor.isFollowing);
    const { round, node } = this.cursor;
    // Draw the tree and the bars in every frame of a replay. This is possible because no decoder
    // uses the CPU at that time.
    if (this.playback.isPlaying) this.inspector.draw(this.trace, round, node, true);
    const wait = isRunning ? LIVE_CHART_MILLISECONDS - (now - this.lastCharts) : 0;
    window.clearTimeout(this.heldBack);
    // If it is too early to draw the charts again, request a frame for later. Otherwise the charts
    // of a run that is paused now would never be drawn.
    if (wait > 0) return void (this.heldBack = window.setTimeout(() => this.frame.ask(), wait));
    this.lastCharts = now;
    if (this.inspector.draw(this.trace, round, node, isRunning)) this.askAgain();
    const { figures } = this.trace;
    if (!figures) return;
    const { replayed } = this;
    if (replayed) this.charts.speedup.draw(curveUntil(replayed.curve, replayed.moment), isRunning);
    if (figures === this.shownFigures) return;
    this.shownFigures = replayed ? null : figures; // null, so that the whole curve is drawn after the replay
    for (const [name, chart] of Object.entries(this.charts)) {
      if (!replayed || name !== "speedup") chart.draw(figures[name], isRunning);
    }
  }

  // Request another frame. If the run is not live, its charts need not wait.
  askAgain() {
    if (!this.trace.isLive) this.lastCharts = 0;
    this.frame.ask();
  }

  drawMoment() {
    const { trace, cursor, refs } = this;
    if (!trace.rounds.length) setText(refs.selection, COLUMNS);
    if (!trace.rounds.length) return void (refs.moment.textContent = "no rounds yet");
    const round = trace.rounds[cursor.round];
    const seconds = (this.playback.moment ?? round.clock).toFixed(2);
    const pace = this.playback.isPlaying ? `, ${this.playback.words}` : "";
    setParts(
      refs.moment,
      "round ",
      [String(cursor.round + 1)],
      ` of ${trace.rounds.length} · ${seconds} s${pace}`,
    );
    setText(
      refs.selection,
      this.playback.isPlaying ? COLUMNS : selectionWords(trace, cursor) || COLUMNS,
    );
  }

  momentText() {
    const { trace, cursor } = this;
    const round = trace.rounds[cursor.round];
    if (!round) return "no rounds yet";
    return `round ${cursor.round + 1} of ${trace.rounds.length}: ${round.counts}, ${round.extraKind ?? "no extra token"}`;
  }

  repaint() {
    this.inspector.shown = this.inspector.drawn = this.inspector.timed = null;
    this.shownFigures = null;
    this.lastCharts = 0;
    this.frame.ask();
  }

  // Draw a stop at once and return the milliseconds that this took. Only measurements use it.
  /**
   * @param {number} round
   * @param {number} [node]
   */
  timeDraw(round, node = EXTRA) {
    this.cursor.select(round, node);
    const start = performance.now();
    this.draw();
    return performance.now() - start;
  }
}
