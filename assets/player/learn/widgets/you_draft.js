// A widget in which the learner is the draft. The target judges the words that the learner types in
// one real forward, and a small model drafts at the same positions. While no model is loaded, a
// recorded text judges the words.

import { EXTRA } from "../../shared/cursor.js";
import { element, setText } from "../../shared/dom.js";
import { counted, probability } from "../../shared/number_words.js";
import { tokenLabel, tokenText } from "../../shared/token_label.js";
import { outcomeOf, verdictRow } from "../../shared/verdict_row.js";
import { Widget } from "../widget.js";
import { RecordedGame } from "./recorded_game.js";
import { lead, leadRange, likeliest, TypedGame } from "./typed_game.js";

const PEEKED = 6; // number of tokens that the button "peek" shows
const ENOUGH = 4; // rounds after which the learner and the small model can be compared
const TEMPERATURE = "0.7";
const RECORDING = "typed";

export class YouDraft extends Widget {
  static id = "you-draft";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    this.game = new TypedGame();
    /** @type {Record<string, string>} */
    this.scene = {};
    this.playedFrom = 0; // number of rounds before this step
    this.isPeeking = false;
    /** @type {RecordedGame | null} the recording that judges while no model is loaded */
    this.recorded = null;
    this.seed = Math.floor(Math.random() * 2 ** 31);
    const pair = course.setup.settings.find(({ name }) => name === "pair")?.default;
    this.pair = course.setup.pairs.find(({ name }) => name === pair);
    const tasks = course.prompts.of(this.pair);
    this.asked = ""; // the prompt of the current text
    this.prompts = (tasks.chat ?? tasks.story ?? Object.values(tasks)[0]).slice(0, 12);
    box.classList.add("you-draft");
    this.prompt = field("Ask the model something", "input");
    this.prompt.input.value = this.prompts[0];
    this.begin = button("New text", "secondary");
    this.another = button("another", "chip");
    this.another.setAttribute("aria-label", "Another prompt");
    this.another.addEventListener("click", () => this.nextPrompt());
    const asking = form(() => this.start(), this.prompt.label, this.another, this.begin);
    this.text = element("p", "typed-text");
    this.text.setAttribute("aria-label", "The text so far");
    this.guess = field("How does the text continue? Begin with a space for a new word", "input");
    this.judge = button("Let the target judge", "primary");
    this.peek = button("Peek", "chip");
    this.peek.title = "What the target finds likely next";
    this.peek.addEventListener("click", () => this.look());
    this.guessing = form(() => this.ask(), this.guess.label, this.peek, this.judge);
    this.peeked = element("p", "typed-peeked");
    this.state = element("p", "hint typed-state");
    this.state.setAttribute("role", "status");
    this.table = element("table", "verdicts");
    this.table.setAttribute("aria-label", "How the target judged your words");
    this.rival = element("p", "typed-rival");
    this.source = element("p", "hint");
    this.score = element("p", "typed-score");
    this.guess.input.addEventListener("input", () => this.drawText());
    this.box.replaceChildren(
      asking,
      this.source,
      this.text,
      this.guessing,
      this.peeked,
      this.state,
      this.table,
      this.rival,
      this.score,
    );
  }

  // Begin a step. The text continues from step to step. The first step starts a text, from a
  // recording if the model is not loaded yet.
  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.scene = scene;
    this.playedFrom = this.game.rounds;
    if (!this.game.written.length) await ((await this.isReady()) ? this.start() : this.replay());
    this.draw();
    // When the step begins with a recorded round, that round may already have drafted tokens that
    // were never examined. The goal is then reached at once.
    if (this.game.round?.outcomes.includes("unreached")) this.on.reached("thrown-rest");
  }

  nextPrompt() {
    const at = this.prompts.indexOf(this.prompt.input.value);
    this.prompt.input.value = this.prompts[(at + 1) % this.prompts.length];
  }

  // Return whether the text can start with the model: the model is in memory, or there is no
  // recording to start with.
  async isReady() {
    if (!this.course.recorded[RECORDING]) return true;
    const answer = await this.course.drive.ask("ready", { form: { pair: this.pair?.name } });
    return answer?.is_ready === true;
  }

  // Start the recorded text from its beginning.
  replay() {
    const { machine, messages } = this.course.recorded[RECORDING];
    this.prompt.input.value = messages[0].prompt;
    this.beginAnew(messages[0].prompt);
    this.recorded = new RecordedGame(messages[0]);
    setText(
      this.source,
      `The model is not loaded yet. This answer of ${messages[0].target} was recorded on ${machine}, at temperature 0, so it continues in the same way whatever you guess. New text loads the model.`,
    );
    this.take(this.recorded.begin());
  }

  start() {
    this.beginAnew(this.prompt.input.value);
    this.recorded = null;
    setText(this.source, "");
    return this.send("");
  }

  /** @param {string} prompt */
  beginAnew(prompt) {
    this.game = new TypedGame();
    this.playedFrom = 0;
    this.asked = prompt;
    this.guess.input.value = "";
    this.peeked.replaceChildren();
  }

  ask() {
    if (!this.guess.input.value)
      return setText(this.state, "Type what comes next, one word or more.");
    this.isPeeking = false;
    this.send(this.guess.input.value);
  }

  // Show the tokens that the target finds most probable here, without adding one to the text.
  look() {
    this.isPeeking = true;
    this.send("");
  }

  /** @param {string} typed */
  send(typed) {
    if (this.recorded) return this.take(this.recorded.judge(typed, !this.isPeeking));
    const prompts = {
      prompt: this.asked,
      pair: this.pair?.name,
      temperature: TEMPERATURE,
      seed: String(this.seed),
    };
    return this.course.drive.start(
      "typed",
      { form: prompts, written: this.game.ids, typed },
      {
        message: (message) => this.take(message),
        state: (words) => this.setBusy(true, words),
        failed: (text) => this.failed(text),
        ended: () => this.setBusy(false, ""),
      },
    );
  }

  halt() {
    this.course.drive.stop();
  }

  /** @param {any} message */
  take(message) {
    if (this.isPeeking && message.round) return this.showPeeked(message);
    this.game.take(message);
    this.guess.input.value = "";
    this.peeked.replaceChildren();
    this.draw();
    this.tell();
  }

  // Report the goals that this round has reached.
  tell() {
    const { round } = this.game;
    this.on.changed();
    if (!round?.outcomes.length) return;
    this.on.reached("judged");
    if (round.outcomes.includes("unreached")) this.on.reached("thrown-rest");
    if (round.extraKind === "bonus") this.on.reached("bonus");
    this.tellRounds();
  }

  tellRounds() {
    const { rounds } = this.game;
    if (rounds >= ENOUGH && rounds > this.playedFrom) this.on.reached("enough-rounds");
  }

  /** @param {any} message */
  showPeeked({ round, texts }) {
    for (const [id, text] of Object.entries(texts)) this.game.texts.set(Number(id), text);
    this.peeked.replaceChildren(
      element("span", "hint", "The target’s likeliest: "),
      ...likeliest(round, PEEKED).map(({ id, p }) => {
        const text = this.game.text(id);
        const made = button(`${tokenLabel(text)} ${probability(p)}`, "chip");
        made.addEventListener("click", () => {
          this.guess.input.value += text;
          this.drawText();
          this.guess.input.focus();
        });
        return made;
      }),
    );
  }

  /** @param {string} text */
  failed(text) {
    this.isPeeking = false;
    if (!this.game.written.length && this.course.recorded[RECORDING]) this.replay();
    this.setBusy(false, text);
    this.state.classList.add("error");
  }

  /**
   * @param {boolean} isBusy
   * @param {string} words
   */
  setBusy(isBusy, words) {
    this.state.classList.remove("error");
    setText(this.state, words);
    this.box.setAttribute("aria-busy", String(isBusy));
    if (!isBusy) this.draw();
  }

  get values() {
    const { game } = this;
    const { round, rival, own, other } = game;
    const rejected = round ? round.outcomes.indexOf("rejected") : -1;
    return {
      prompt: this.asked,
      model: this.recorded?.recorded.target ?? this.pair?.title,
      temperature: this.recorded ? "0" : TEMPERATURE,
      rival: game.rivalTitle,
      typed: round ? counted(round.outcomes.length, "token") : undefined,
      judged: round?.outcomes.filter((outcome) => outcome !== "unreached").length,
      kept: round?.accepted.length,
      unread: round
        ? counted(round.outcomes.filter((outcome) => outcome === "unreached").length, "token")
        : undefined,
      failed_token: rejected < 0 ? undefined : game.text(Number(round?.tokenId(rejected))),
      extra: round?.extra ? game.text(round.extra.id) : undefined,
      emitted: round?.emitted.length,
      forward: round?.record.verify_seconds,
      rounds: game.rounds,
      enough: ENOUGH,
      lead: lead(own, other),
      rival_kept: rival?.accepted.length,
      own_kept: own.kept,
      own_examined: own.examined,
      own_rate: own.rate,
      other_kept: other.kept,
      other_examined: other.examined,
      other_rate: other.rate,
    };
  }

  get possible() {
    const { own, other } = this.game;
    return leadRange(own, other);
  }

  draw() {
    const { game } = this;
    const isBusy = this.course.drive.isBusy;
    this.drawText();
    this.judge.disabled = this.peek.disabled = isBusy || !game.written.length || game.hasEnded;
    this.begin.disabled = isBusy;
    if (game.hasEnded) setText(this.state, "The text has ended. Begin another one.");
    this.drawTable();
    const { rival, own, other } = game;
    // The small model's drafts stay hidden until the learner has answered a question: are the
    // learner's or the model's drafts accepted more often?
    this.rival.hidden = this.scene.rival !== "shown";
    this.rival.replaceChildren(
      ...(rival
        ? [element("span", "hint", `${game.rivalTitle} guessed here: `), ...this.tokens(rival)]
        : []),
    );
    const its = this.rival.hidden ? "" : ` ${game.rivalTitle}: ${other.kept} of ${other.examined}.`;
    setText(
      this.score,
      game.rounds
        ? `You: ${own.kept} of ${counted(own.examined, "examined token")} kept.${its}`
        : "",
    );
  }

  // Return the drafted tokens of a round as elements with their outcomes.
  /** @param {import("../../shared/round.js").Round} round */
  tokens(round) {
    return round.indices.map((node) => {
      const made = element(
        "span",
        `typed-guess ${round.outcomes[node]}`,
        tokenLabel(this.game.text(round.tokenId(node))),
      );
      made.title = round.outcomes[node];
      return made;
    });
  }

  drawText() {
    const { game } = this;
    const words = game.written.map(({ id, origin }) =>
      element("span", `token ${origin}`, tokenText(game.text(id))),
    );
    this.text.replaceChildren(
      element("span", "hint", `“${this.asked || this.prompt.input.value}” `),
      ...words,
      element("mark", "", this.guess.input.value || " "),
    );
  }

  drawTable() {
    const { round } = this.game;
    this.table.hidden = !round?.outcomes.length;
    if (!round?.outcomes.length) return;
    const head = element("thead");
    const names = element("tr");
    names.append(
      ...["word", "how probable to the target", "random number", "verdict"].map((name) =>
        element("th", "", name),
      ),
    );
    head.append(names);
    const rows = element("tbody");
    for (const node of [...round.indices, ...(round.extra ? [EXTRA] : [])])
      rows.append(this.row(round, node));
    this.table.replaceChildren(element("caption", "hint", "A dot · is a space."), head, rows);
  }

  /**
   * @param {import("../../shared/round.js").Round} round
   * @param {number} node
   */
  row(round, node) {
    const text = tokenLabel(this.game.text(round.tokenId(node)));
    if (node === EXTRA)
      return verdictRow(node, text, ["the target’s own", ""], outcomeOf(round, node) ?? "");
    const { p, u } = round.verdict(node);
    const isRead = round.outcomes[node] !== "unreached";
    const values = isRead ? [probability(p), u === null ? "" : probability(u)] : ["", ""];
    return verdictRow(node, text, values, round.outcomes[node]);
  }
}

/**
 * @param {string} text
 * @param {string} className
 */
function button(text, className) {
  const made = element("button", className, text);
  made.type = "button";
  return made;
}

/**
 * @param {string} words
 * @param {"input"} tag
 */
function field(words, tag) {
  const label = element("label", "typed-field");
  const input = element(tag);
  input.type = "text";
  input.spellcheck = false;
  input.autocomplete = "off";
  input.maxLength = 200;
  label.append(element("span", "hint", words), input);
  return { label, input };
}

// Return a form that Enter or its last button submits.
/**
 * @param {() => void} onSubmit
 * @param {...HTMLElement} parts
 */
function form(onSubmit, ...parts) {
  const made = element("form", "typed-form");
  const last = /** @type {HTMLButtonElement} */ (parts.at(-1));
  last.type = "submit";
  made.addEventListener("submit", (event) => (event.preventDefault(), onSubmit()));
  made.append(...parts);
  return made;
}
