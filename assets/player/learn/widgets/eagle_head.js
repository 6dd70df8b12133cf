// A widget about the inside of an EAGLE head: the token and feature that it reads at a recorded
// moment, its q next to the target's p, and how well it predicts at each depth, measured here or
// recorded.

import { element, setText } from "../../shared/dom.js";
import { probability } from "../../shared/number_words.js";
import { tokenLabel } from "../../shared/token_label.js";
import { OrderWidget } from "../order_widget.js";
import { headMoment, isRead } from "./eagle_moment.js";

const TOKENS = 4; // shown tokens before the round, including the root
const MEGA = 1e6;

export class EagleHead extends OrderWidget {
  static id = "eagle-head";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "head");
    /** @type {{ trace: Trace, round: Round } | null} */
    this.place = null;
    this.read = new Set(); // the parts of the input that the learner has found: "token", "feature"
    this.isTold = false;
    this.context = element("p", "guess-context");
    this.tiles = element("div", "head-tiles");
    this.tiles.setAttribute("role", "group");
    this.tiles.setAttribute("aria-label", "What is known of the last tokens");
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    this.table = element("ol", "head-words");
    this.table.setAttribute("aria-label", "Likeliest next words by target and head");
    this.head = element("h3", "sweep-title", "Guesses that name the target’s likeliest word");
    this.levels = element("ol", "sweep-bars");
    this.levels.setAttribute("aria-label", "Guesses in a row");
    box.classList.add("eagle-head");
    box.replaceChildren(
      this.context,
      this.tiles,
      this.table,
      this.head,
      this.levels,
      this.words,
      this.row.box,
    );
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.scene = scene;
    this.read.clear();
    this.isTold = scene.hidden !== "true";
    // If the texts of a step need values at once (`known`), the widget takes them from the recording.
    this.setOrder("head", { form: this.pairForm }, scene.known === "true");
    this.row.box.hidden = scene.show !== "levels" || !this.isTold;
    const trace = await this.course.recordings.open(scene.trace);
    if (this.scene !== scene) return; // the learner has moved to another step
    this.place = { trace, round: trace.rounds[Number(scene.round) - 1] };
    setText(this.words, "");
    this.draw();
    this.on.changed();
    if (scene.show === "levels" && this.isTold && this.found) this.on.reached("shown");
  }

  reveal() {
    this.isTold = true;
    if (this.scene.show === "levels") this.showFound();
    this.draw();
    this.on.changed();
  }

  came() {
    this.draw();
    if (this.scene.show === "levels") this.on.reached("shown");
  }

  // The texts of the last few tokens before the round. The last of them is the root.
  get last() {
    if (!this.place) return [];
    const { trace, round } = this.place;
    return trace.main.tokens
      .slice(Math.max(0, round.firstToken - TOKENS), round.firstToken)
      .map(({ text }) => text);
  }

  /** @returns {Record<string, any>} */
  get values() {
    const { place, last } = this;
    const found = this.found ?? this.planned;
    const facts = found
      ? {
          vocabulary: found.vocabulary,
          drafted: found.drafted,
          share: found.drafted / found.vocabulary,
          outside: found.outside,
          places: found.places,
          head_size: found.head_bytes / MEGA,
          target_size: found.target_bytes / MEGA,
          part: found.head_bytes / found.target_bytes,
          layers: found.layers,
          deep: found.levels.length,
          first_agreed: found.levels[0].agreed,
          last_agreed: found.levels.at(-1).agreed,
          first_likeness: found.levels[0].likeness,
          last_likeness: found.levels.at(-1).likeness,
        }
      : {};
    if (!place) return { ...NONE, ...facts };
    const moment = headMoment(place.round);
    const guess = moment.reduce((one, other) => (other.q > one.q ? other : one));
    const text = (/** @type {number} */ id) => place.trace.text(id);
    return {
      ...NONE,
      ...facts,
      model: place.trace.header.target.name,
      root: last.at(-1),
      before: last.at(-2),
      favourite: text(moment[0].id),
      favourite_p: moment[0].p,
      favourite_q: moment[0].q,
      guess: text(guess.id),
      guess_p: guess.p,
      guess_q: guess.q,
    };
  }

  /**
   * @param {"token" | "feature"} kind
   * @param {number} at how many tokens before the root, 0 is the root
   */
  press(kind, at) {
    const name = tokenLabel(this.last.at(-1 - at) ?? "");
    const root = tokenLabel(this.last.at(-1) ?? "");
    if (isRead(kind, at)) {
      this.read.add(kind);
      const isWhole = this.read.size === 2;
      const found =
        kind === "token"
          ? `Yes: that ${name} was drawn is news, no feature knows it yet.`
          : `Yes: what the target thought when it had read ${name}, the last one that it has.`;
      setText(
        this.words,
        isWhole
          ? `That is the pair: the token ${root}, and the feature of ${tokenLabel(this.last.at(-2) ?? "")}.`
          : found,
      );
      this.drawTiles();
      this.on.changed();
      if (isWhole) this.on.reached("paired");
    } else {
      setText(
        this.words,
        kind === "token"
          ? `No: ${name} has been read, and what matters of it is in the features.`
          : `No: the feature of ${name} is in the head’s memory already, from an earlier pair.`,
      );
    }
  }

  draw() {
    const { place, scene } = this;
    if (!place) return;
    const { trace, round } = place;
    const before = trace.main.tokens
      .slice(Math.max(0, round.firstToken - 14), round.firstToken)
      .map(({ text }) => text)
      .join("");
    this.context.hidden = scene.show === "levels";
    this.context.replaceChildren(
      element("span", "hint", `“${trace.header.prompt}” `),
      "… ",
      before,
    );
    this.tiles.hidden = scene.show !== "pair";
    this.table.hidden = scene.show !== "words";
    this.head.hidden = this.levels.hidden = scene.show !== "levels";
    this.words.hidden = scene.show !== "pair";
    if (scene.show === "pair") this.drawTiles();
    if (scene.show === "words") this.drawWords();
    if (scene.show === "levels") this.drawLevels();
  }

  // Draw a column for each of the last tokens: the token, and below it the target's feature if the
  // target has computed one.
  drawTiles() {
    const held = this.tiles.contains(document.activeElement)
      ? /** @type {HTMLElement} */ (document.activeElement).dataset.tile
      : undefined;
    const columns = this.last.map((text, index) => this.column(text, this.last.length - 1 - index));
    const isWhole = this.read.size === 2;
    const next = element("div", "head-column is-next");
    next.append(
      element("span", "head-tile is-guess", isWhole ? tokenLabel(String(this.values.guess)) : "?"),
      element("span", "hint", "the first guess"),
    );
    this.tiles.replaceChildren(...columns, next);
    if (held)
      /** @type {HTMLElement | null} */ (this.tiles.querySelector(`[data-tile="${held}"]`))?.focus({
        preventScroll: true,
      });
  }

  /**
   * @param {string} text
   * @param {number} at
   */
  column(text, at) {
    const column = element("div", "head-column");
    const name = tokenLabel(text);
    column.append(this.tile("token", at, name, `the token ${name}`));
    if (at) column.append(this.tile("feature", at, "feature", `the feature of ${name}`));
    else column.append(element("span", "head-tile is-missing", "no feature yet"));
    return column;
  }

  /**
   * @param {"token" | "feature"} kind
   * @param {number} at
   * @param {string} words
   * @param {string} label
   */
  tile(kind, at, words, label) {
    const isFound = isRead(kind, at) && this.read.has(kind);
    const made = element("button", `head-tile is-${kind}${isFound ? " is-seen" : ""}`, words);
    made.type = "button";
    made.dataset.tile = `${kind}-${at}`;
    made.dataset.seen = String(isRead(kind, at));
    made.setAttribute("aria-label", label);
    made.setAttribute("aria-pressed", String(isFound));
    made.addEventListener("click", () => this.press(kind, at));
    return made;
  }

  drawWords() {
    const { trace, round } = /** @type {{ trace: Trace, round: Round }} */ (this.place);
    this.table.replaceChildren(
      ...headMoment(round).map(({ id, p, q }) => {
        const row = element("li", q === 0 && this.isTold ? "is-missing" : "");
        row.append(
          element("span", "guess-name", tokenLabel(trace.text(id))),
          line("p", p),
          line("q", q),
        );
        return row;
      }),
    );
  }

  drawLevels() {
    const levels = this.isTold ? (this.found?.levels ?? []) : [];
    const listed = levels.length ? levels : [null];
    this.levels.replaceChildren(
      ...listed.map((/** @type {any} */ level, /** @type {number} */ at) => {
        const row = element("li");
        const track = element("span", "sweep-track");
        const bar = element("i");
        bar.style.width = `${level ? 100 * level.agreed : 0}%`;
        track.append(bar);
        const note = level
          ? `its feature is ${Math.round(100 * level.likeness)} % like the target’s own`
          : "";
        row.append(
          element("span", "sweep-name", level ? `guess ${at + 1}` : "each guess"),
          track,
          element("span", "number", level ? `${Math.round(100 * level.agreed)} %` : "?"),
          element("span", "hint sweep-note", note),
        );
        return row;
      }),
    );
  }
}

const NONE = Object.fromEntries(
  [
    "vocabulary",
    "drafted",
    "share",
    "outside",
    "places",
    "head_size",
    "target_size",
    "part",
    "layers",
    "deep",
    "first_agreed",
    "last_agreed",
    "first_likeness",
    "last_likeness",
    "model",
    "root",
    "before",
    "favourite",
    "favourite_p",
    "favourite_q",
    "guess",
    "guess_p",
    "guess_q",
  ].map((name) => [name, undefined]),
);

/**
 * @param {"p" | "q"} which
 * @param {number} value
 */
function line(which, value) {
  const made = element("span", `head-line bar-${which}`);
  const bar = element("i");
  bar.style.width = `${100 * value}%`;
  const track = element("span", "head-track");
  track.append(bar);
  made.append(element("span", "hint", which), track, element("span", "number", probability(value)));
  return made;
}
