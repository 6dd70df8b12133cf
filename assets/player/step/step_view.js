// All views of one moment of one run. A report uses this class as well, without a server.

import { option, setParts, setText } from "../shared/dom.js";
import { markWrong } from "../shared/field_errors.js";
import { Frame } from "../shared/frame.js";
import { NarrowOrder } from "../shared/narrow_order.js";
import { remarkNodes } from "../shared/remarks.js";
import { Ribbon } from "../shared/ribbon.js";
import { Strip } from "../shared/strip.js";
import { TemplateToggle } from "../shared/template_toggle.js";
import { termButton } from "../shared/terms.js";
import { PICKED_RULE, RULE } from "../shared/verdict_row.js";
import { AXES, lastPlace, originOf, placeWords, roundAtPlace } from "./axis.js";
import { CodeCard } from "./code_card.js";
import { Comparison } from "./comparison.js";
import { ForkForm } from "./fork_form.js";
import { LiveRun } from "./live_run.js";
import { MomentView } from "./moment_view.js";
import { isExtraKnown, knownColumn, PHASES, phaseWord, thoughtMoments } from "./moments.js";
import { momentSentence, originNodes } from "./moment_words.js";
import { StepCursor } from "./step_cursor.js";
import { StepPlayback } from "./step_playback.js";
import { StopList } from "./stop_list.js";
import { WhatIf } from "./what_if.js";

export class StepView {
  // `ask(name, question)` sends a question to the server; it is null in a report. `onMove` is
  // called after every move of the cursor. `onFork` forks the run, and `onHold` pauses it.
  // `onExample` opens another run, whose draws are random; `exampleWords` is the label of its
  // button.
  /**
   * @param {any} refs
   * @param {any} theme
   * @param {{ ask?: ((name: string, question: object) => Promise<any>) | null, onMove: () => void, onFork?: any, onHold?: any, onExample?: (() => void) | null, exampleWords?: () => string, setup: any }} on
   */
  constructor(
    refs,
    theme,
    { ask = null, onMove, onFork, onHold, onExample = null, exampleWords, setup },
  ) {
    this.refs = refs;
    this.theme = theme;
    this.onMove = onMove;
    const { glossary, methods, code } = setup;
    /** @type {any} the shown run, null if there is none */
    this.trace = null;
    this.isShown = false;
    this.isOurs = false; // true if this page started the run and may pause it
    this.coming = null;
    this.hasMoved = false; // true if the user has moved the cursor in this run
    this.frame = new Frame(() => this.draw());
    this.cursor = new StepCursor(() => this.moved());
    this.playback = new StepPlayback(this.cursor, refs.stepPlay, refs.stepPace);
    this.axis = AXES[0];
    const toNode = (/** @type {number} */ node) =>
      this.still(() => this.cursor.toNode(this.cursor.round, node));
    this.code = new CodeCard(refs, code, () => this.frame.ask());
    this.views = new MomentView(refs, theme, {
      onSelect: toNode,
      onExample,
      exampleWords,
      glossary,
    });
    this.stops = new StopList(refs, this.cursor, () => this.frame.ask());
    /** @type {any} parts that need a server, null in a report */
    this.whatIf = this.fork = this.live = null;
    if (ask) {
      this.whatIf = new WhatIf(refs, ask, {
        onChange: () => this.frame.ask(),
        onBack: (round, node) => this.still(() => this.cursor.toNode(round, node)),
      });
      this.fork = new ForkForm(refs, methods, this.whatIf, onFork);
      this.live = new LiveRun(refs, onHold);
    }
    this.orderCards();
    this.comparison = new Comparison(refs, {
      onGo: (at) => this.still(() => this.cursor.toToken(at)),
    });
    this.strip = new Strip(refs.stepStrip, {
      // A column of the strip shows a complete round, so a click on it goes to the round's last
      // moment.
      onSelect: (round) => this.still(() => this.cursor.go(round, Infinity)),
      onChange: () => this.frame.ask(),
      theme,
    });
    this.text = new Ribbon(refs.stepText, {
      onSelect: (at) => this.still(() => this.cursor.toToken(at)),
      onHover: (at) => this.hovered(at),
    });
    this.template = new TemplateToggle(
      refs.stepTemplate,
      () => [this.text],
      () => this.showPrompt(),
    );
    this.wire();
  }

  // On a narrow screen, put the moment first: the text so far, the sentence, and the chart that the
  // sentence describes.
  orderCards() {
    const {
      runCard,
      stopsCard,
      fork,
      side,
      stepEmpty,
      momentCard,
      barsCard,
      residualCard,
      textCard,
      hood,
    } = this.refs;
    // The card with the bars may grow when its chart appears. On a narrow screen it is placed after
    // the tree, so that the tree does not move.
    new NarrowOrder([barsCard], (isNarrow) =>
      isNarrow ? { after: momentCard } : { before: residualCard },
    );
    new NarrowOrder([textCard], (isNarrow) => ({ after: isNarrow ? stepEmpty : momentCard }));
    const cards = [runCard, stopsCard, fork].filter((card) => card.isConnected); // a report has no card for forks
    new NarrowOrder(cards, (isNarrow) => (isNarrow ? { after: hood } : { into: side }));
  }

  wire() {
    const { refs, cursor } = this;
    const on = (/** @type {any} */ ref, /** @type {(...given: any[]) => void} */ action) =>
      ref.addEventListener("click", () => this.still(action));
    on(refs.stepFirst, () => cursor.toFirst());
    on(refs.stepLast, () => cursor.toLast());
    on(refs.stepBack, () => cursor.step(-1));
    on(refs.stepForward, () => cursor.step(1));
    on(refs.stepRoundBack, () => cursor.stepRound(-1));
    on(refs.stepRoundForward, () => cursor.stepRound(1));
    on(refs.stepFollow, () => cursor.setFollowing(!cursor.isFollowing));
    refs.stepPhases.append(...PHASES.map((phase) => this.phase(phase)));
    refs.stepAxis.append(...AXES.map((axis) => option(axis.name, axis.title)));
    refs.stepAxis.addEventListener("change", () => this.chooseAxis(refs.stepAxis.value));
    refs.stepGo.addEventListener(
      "keydown",
      (/** @type {any} */ event) => event.key === "Enter" && this.goTo(refs.stepGo),
    );
    refs.stepGo.addEventListener("blur", () => this.forgiveGo());
  }

  // The actions that keys call.
  get actions() {
    const { cursor, playback, stops, refs } = this;
    const still =
      (/** @type {(...given: any[]) => void} */ action) =>
      (/** @type {any[]} */ ...given) =>
        this.still(() => action(...given));
    return {
      position: still((/** @type {number} */ by) => cursor.step(by)),
      round: still((/** @type {number} */ by) => cursor.stepRound(by)),
      first: still(() => cursor.toFirst()),
      last: still(() => cursor.toLast()),
      phase: still((/** @type {number} */ by) => cursor.stepPhase(by)),
      match: still((/** @type {number} */ by) => stops.step(by)),
      follow: still(() => this.trace?.isLive && cursor.setFollowing(true)),
      play: () => playback.toggle(),
      goTo: () => refs.stepGo.select(),
      redraw: still(() => this.views.redraw.startByKey()),
    };
  }

  /** @param {string} name */
  phase(name) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.phase = name;
    button.addEventListener("click", () => this.still(() => this.cursor.toPhase(name)));
    item.append(button);
    return item;
  }

  // Stop the playback before a move by hand.
  /** @param {() => void} action */
  still(action) {
    this.playback.pause();
    this.hasMoved = true;
    action();
  }

  /** @param {string} name */
  chooseAxis(name) {
    this.axis = AXES.find((axis) => axis.name === name) ?? AXES[0];
    this.refs.stepAxis.value = this.axis.name;
    this.frame.ask();
  }

  /** @param {any} field */
  goTo(field) {
    if (!this.trace?.rounds.length) return;
    const [place, first, last] = [
      Number(field.value),
      this.axis.unit ? 0 : 1,
      lastPlace(this.axis, this.trace),
    ];
    const holds = field.value.trim() !== "" && place >= first && place <= last;
    if (!holds) return this.refuseToGo(field, `from ${first} to ${last}`);
    this.forgiveGo(); // empty the field, because the cursor's position will soon differ from its number
    this.still(() => this.cursor.go(roundAtPlace(this.axis, this.trace, place), 0));
    if (this.axis.name === "token")
      this.cursor.toToken(Math.min(place, this.trace.main.tokens.length) - 1);
  }

  /**
   * @param {any} field
   * @param {string} range
   */
  refuseToGo(field, range) {
    markWrong(field, true);
    setText(
      this.refs.stepGoError,
      `go to must be a number ${range} on the axis (${this.axis.title}), got “${field.value.slice(0, 20)}”`,
    );
    this.refs.stepGoError.hidden = false;
  }

  // Empty the field "go to" and remove its error mark.
  forgiveGo() {
    this.refs.stepGo.value = "";
    this.refs.stepGoError.hidden = true;
    markWrong(this.refs.stepGo, false);
  }

  /** @param {Trace} trace */
  show(trace) {
    this.playback.pause();
    this.hasMoved = false;
    this.trace = trace;
    this.stops.clear();
    this.views.clear();
    this.whatIf?.clear();
    this.text.clear();
    this.comparison.clear();
    this.started = null;
    this.cursor.show(trace);
  }

  // React to a new round of a live run.
  grew() {
    if (!this.isShown) return;
    this.cursor.follow();
    this.askFrame();
  }

  askFrame() {
    if (this.trace?.isLive) this.frame.askAtLeisure();
    else this.frame.ask();
  }

  // Set what the page is waiting for: "run", "fork", or null for nothing.
  /** @param {string | null} coming */
  expect(coming) {
    this.coming = coming;
    this.frame.ask();
  }

  get isForking() {
    return this.coming === "fork";
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.isShown = isShown;
    if (isShown) this.repaint();
    else this.playback.pause();
  }

  repaint() {
    this.views.forget();
    this.frame.ask();
  }

  moved() {
    this.frame.ask();
    if (this.isShown) this.onMove();
  }

  // Repeat the draw at the position of this moment many times, and show the results.
  redraw() {
    this.draw();
    this.draw(); // the first call leaves the charts for a later frame; the second one draws them
    this.views.redraw.start();
  }

  draw() {
    const { trace, cursor, refs } = this;
    if (!this.isShown) return;
    const round = cursor.current;
    refs.stepEmpty.hidden = Boolean(round);
    refs.step.classList.toggle("is-empty", !round);
    refs.textCard.hidden = !round && !trace?.header;
    const isHeld = this.drawLive();
    if (!round) return this.drawBeginning(isHeld);
    this.whatIf?.draw(trace, cursor);
    const thought = this.whatIf?.thought ?? null;
    refs.step.classList.toggle("is-chain", trace.isChain);
    this.drawTransport(round, thought);
    this.drawText(round);
    this.stops.draw(trace, Boolean(thought?.hasOtherWalk));
    this.fork?.draw(trace, cursor, this.isForking);
    this.comparison.draw(trace, this.text);
    this.drawSentence(thought ?? round);
    this.code.draw(trace, thought ?? round, cursor.moment);
    if (this.views.draw(trace, cursor, thought)) this.askFrame();
    explainWalk(refs.stepTable, round);
    explainNumbers(refs.stepNumbers);
  }

  // Show the time before the first round: the prompt, and a message about what the page is waiting
  // for.
  /** @param {boolean | undefined} isHeld */
  drawBeginning(isHeld) {
    const { trace, refs } = this;
    setText(refs.stepEmpty, this.coming ? "The run is being opened …" : emptyWords(trace, isHeld));
    if (!trace?.header) return;
    this.startText();
    setText(refs.stepOrigin, "nothing is decoded yet");
  }

  // Draw the controls of a live run and return whether it is paused. A run can be paused before its
  // first round.
  drawLive() {
    const isLive = Boolean(this.trace?.isLive && this.isOurs);
    this.live?.draw(isLive, this.isForking);
    return isLive && this.live?.isHeld;
  }

  /**
   * @param {Round} round
   * @param {any} thought the round as another draw would have made it, or null
   */
  drawTransport(round, thought) {
    const { trace, cursor, refs, axis } = this;
    const { moments, at } = cursor;
    const ends = trace.rounds.map((/** @type {Round} */ each, /** @type {number} */ index) =>
      axis.end(each, index),
    );
    const forks = trace.main.forks.map((/** @type {ForkPointRecord} */ fork) => fork.round);
    const seen = thought?.hasOtherWalk ? thoughtMoments(thought, cursor.node) : { moments, at };
    const known = knownColumn(thought ?? round, seen.moments, seen.at);
    this.strip.draw(trace.rounds, cursor.round, {
      axis: { from: originOf(axis, trace), ends },
      forks,
      known,
      until: cursor.round + 1,
    });
    const words = placeWords(axis, trace, cursor.round);
    const isOver = cursor.moment.phase === "commit"; // before that, the counts would reveal how the round ends
    this.strip.describe(
      cursor.round,
      `round ${cursor.round + 1} of ${trace.rounds.length}${isOver ? `: ${round.counts}` : ""}`,
    );
    const place = axis.name === "round" ? "" : ` · ${words.title} ${words.here} of ${words.whole}`;
    setParts(
      refs.stepMoment,
      "Round ",
      [String(cursor.round + 1)],
      ` of ${trace.rounds.length} · moment ${at + 1}${isOver ? ", the last" : ""}${place}`,
    );
    for (const button of refs.stepPhases.querySelectorAll("button")) {
      const own = button.dataset.phase;
      setText(button, phaseWord(own, round, moments, at));
      button.disabled =
        (own === "judge" && !round.outcomes.length) ||
        (own === "extra" && !round.extra && isExtraKnown(round, moments, at));
      if (own === cursor.moment.phase) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    }
    refs.stepFollow.setAttribute("aria-pressed", String(cursor.isFollowing));
  }

  // Replace the sentence only if it differs, because a screen reader reads every replacement aloud.
  /** @param {Round} round */
  drawSentence(round) {
    const sentence = momentSentence(round, this.cursor.moment);
    const key = JSON.stringify(sentence);
    if (this.refs.stepSentence.dataset.said === key) return;
    this.refs.stepSentence.dataset.said = key;
    this.refs.stepSentence.replaceChildren(...remarkNodes(this.trace, sentence));
  }

  /** @param {Round} round */
  drawText(round) {
    const { trace, text, cursor } = this;
    this.startText();
    text.grow(trace.main.tokens);
    const isCommitted = cursor.moment.phase === "commit";
    const shown = isCommitted ? round.endToken : this.emittedSoFar(round);
    text.mark(this.judgedToken, round.firstToken, shown, shown);
    text.reveal();
    this.hovered(-1);
  }

  startText() {
    const { header } = this.trace;
    if (this.started === header) return;
    this.started = header;
    this.text.start(header.prompt, Boolean(this.trace.templatedPrompt));
    this.template.show(this.trace);
    this.showPrompt();
  }

  showPrompt() {
    this.text.showPrompt(this.template.promptOf(this.trace));
  }

  // Return how many tokens of the text are final at this moment: all tokens before the round and
  // those that the round has accepted so far.
  /** @param {Round} round */
  emittedSoFar(round) {
    const { moments, at } = this.cursor;
    const past = moments.slice(0, at + 1);
    const accepted = past.filter(
      ({ phase, node }) => phase === "judge" && round.accepted.includes(node ?? -1),
    ).length;
    const isDrawn = past.some(({ phase }) => phase === "extra");
    return round.firstToken + accepted + (isDrawn ? 1 : 0);
  }

  // The index of the text token that the stop under the cursor became. It is -1 if there is none or
  // if the stop is not judged yet.
  get judgedToken() {
    const { trace, cursor } = this;
    const isJudged = cursor.moment?.phase === "judge" || cursor.moment?.phase === "extra";
    return isJudged ? trace.tokenOf(cursor.round, cursor.node) : -1;
  }

  // Show where a token of the text came from: the token under the pointer, otherwise the token
  // under the cursor once it is judged.
  /** @param {number} at */
  hovered(at) {
    const { trace, cursor, refs } = this;
    const token = trace?.main.tokens[at >= 0 ? at : this.judgedToken];
    if (token && at >= this.text.later)
      setText(refs.stepOrigin, `still to come, in round ${token.round + 1}: click to go there`);
    else if (token)
      refs.stepOrigin.replaceChildren(
        ...originNodes(trace, token, {
          hasSentence: at < 0,
          isThought: Boolean(this.whatIf?.thought?.hasOtherWalk),
        }),
      );
    else
      setText(
        refs.stepOrigin,
        cursor.moment?.phase === "draft"
          ? "the text has nothing of this round yet"
          : "click a token: where did it come from?",
      );
  }
}

/**
 * @param {Trace | null} trace
 * @param {boolean | undefined} isHeld
 */
function emptyWords(trace, isHeld) {
  if (isHeld)
    return "The run is held before its first round: nothing is decoded yet. “One round on” decodes one and waits again. The debugger then shows its draft tree, the target’s verdict on each guess, both distributions at every position, the attention mask and the cache.";
  if (trace?.header) return "This run has no rounds yet.";
  return "No run yet: race one, choose a recorded one in the menu, or open a file that someone sent you.";
}

// The words of the debugger that open a glossary card: the column headings of the walk, the letter
// of a drawn token's probability, the names of the numbers. The views write plain words, and this
// module turns them into terms.
/** @type {Record<string, string>} */
const HEADS = {
  "raw p": "target",
  "raw q": "draft",
  p: "target",
  q: "draft",
  [RULE]: "acceptance_prob",
  [PICKED_RULE]: "point_mass",
  u: "uniform_draw",
};
/** @type {Record<string, string>} */
const NUMBERS = { entropy: "entropy", overlap: "overlap", "top-2": "margin", KL: "kl_divergence" };
const RESIDUAL = /^r (?=[\duo?])/;

/**
 * @param {HTMLElement} table
 * @param {Round} round
 */
function explainWalk(table, { isPointMass }) {
  const keyOf = (/** @type {string} */ text) =>
    isPointMass && text.endsWith("q") ? "point_mass" : HEADS[text];
  for (const head of wordsOf(table, "th"))
    mark(head, head.textContent ?? "", keyOf(head.textContent ?? ""));
  for (const cell of wordsOf(table, "td.number")) {
    if (RESIDUAL.test(cell.textContent ?? "")) mark(cell, "r", "residual_prob");
  }
}

/** @param {HTMLElement} list */
function explainNumbers(list) {
  for (const name of wordsOf(list, "dt")) {
    const text = name.textContent ?? "";
    const start = Object.keys(NUMBERS).find((each) => text.startsWith(each));
    if (start) mark(name, text, NUMBERS[start]);
  }
}

// Return the elements with words that have no glossary card yet.
/**
 * @param {HTMLElement} box
 * @param {string} selector
 * @returns {NodeListOf<HTMLElement>}
 */
function wordsOf(box, selector) {
  return box.querySelectorAll(`${selector}:not(:has(.term))`);
}

// Give a glossary card to the beginning of an element's text. `text` is that beginning.
/**
 * @param {HTMLElement} place
 * @param {string} text
 * @param {string | undefined} key
 */
function mark(place, text, key) {
  if (!key) return;
  place.replaceChildren(termButton(text, key), (place.textContent ?? "").slice(text.length));
}
