// A widget that shows one race of a plain and a speculative lane: tokens and seconds, every drafted
// token with its outcome, and the acceptance rate token by token. The race is measured on this
// machine or recorded on another.

import { drawing, element, setText } from "../../shared/dom.js";
import { lookOf } from "../../shared/outcomes.js";
import { OrderWidget } from "../order_widget.js";
import { raceNumbers, racePossible, runningRates } from "./race_counts.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [640, 230, 44, 24]; // size of the picture and its margins, in pixels

export class MeasuredRace extends OrderWidget {
  static id = "measured-race";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "race");
    this.facts = element("dl", "plan-facts");
    this.strip = element("p", "race-strip");
    this.strip.setAttribute("role", "img");
    this.picture = element("div", "rounding-picture");
    this.words = element("p", "forward-words");
    box.classList.add("measured-race");
    box.replaceChildren(this.facts, this.strip, this.picture, this.words, this.row.box);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.setOrder(`race-${scene.race}`, { race: scene.race }, scene.known === "true");
    this.row.box.hidden = scene.hidden === "true";
    this.draw();
    if (this.found && scene.hidden !== "true") this.on.reached("shown");
  }

  reveal() {
    this.scene = { ...this.scene, hidden: "false" };
    this.showFound();
    this.draw();
    this.on.changed();
  }

  get values() {
    const { task, length } = this.planned ?? {};
    return { ...NONE, task, length, ...raceNumbers(this.found) };
  }

  get possible() {
    return racePossible(this.found);
  }

  draw() {
    const { scene, found } = this;
    const isShown = found !== null && scene.hidden !== "true";
    this.facts.hidden = !isShown || scene.show === "rates";
    this.strip.hidden = !isShown || scene.show !== "strip";
    this.picture.hidden = !isShown || scene.show !== "rates";
    this.words.hidden = isShown;
    setText(this.words, "Nothing is measured yet.");
    if (!isShown) return;
    this.drawFacts();
    if (scene.show === "strip") this.drawStrip();
    if (scene.show === "rates") this.picture.replaceChildren(drawing(picture(found.rounds)));
  }

  drawFacts() {
    const {
      plain_tokens: tokens = 0,
      plain_seconds: seconds = 0,
      drafted_tokens: own = 0,
      drafted_seconds: took = 0,
      looks,
      guessed,
      accepted,
      rejected,
      unread,
    } = raceNumbers(this.found);
    const clock = [
      ["plain", `${tokens} tokens in ${seconds.toFixed(3)} s`],
      ["with drafts", `${own} tokens in ${took.toFixed(3)} s`],
      ["looks of the target", String(looks)],
    ];
    const counts = [
      ["guessed tokens", String(guessed)],
      ["accepted", String(accepted)],
      ["rejected", String(rejected)],
      ["never examined", String(unread)],
    ];
    const facts = this.scene.show === "strip" ? counts : clock;
    this.facts.replaceChildren(
      ...facts.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]),
    );
  }

  // Draw a mark for each drafted token, grouped by round.
  drawStrip() {
    const { rounds } = this.found;
    const { accepted, rejected, unread } = raceNumbers(this.found);
    this.strip.setAttribute(
      "aria-label",
      `Guesses look by look: ${accepted} accepted, ${rejected} rejected, ${unread} never examined`,
    );
    this.strip.replaceChildren(
      ...rounds.map((/** @type {string[]} */ round) => {
        const look = element("span", "race-look");
        look.append(...round.map((outcome) => element("i", outcome, lookOf(outcome).mark)));
        return look;
      }),
    );
  }
}

const NONE = Object.fromEntries(
  [
    "task",
    "length",
    "plain_tokens",
    "plain_seconds",
    "drafted_tokens",
    "drafted_seconds",
    "plain_rate",
    "drafted_rate",
    "speedup",
    "inverse",
    "saved",
    "looks",
    "guessed",
    "accepted",
    "rejected",
    "unread",
    "examined",
    "rate",
    "rejection",
    "used",
    "failed",
    "per_look",
    "early",
    "early_rate",
  ].map((name) => [name, undefined]),
);

// Return a picture of the running acceptance and rejection rates over the examined tokens.
/** @param {string[][]} rounds */
function picture(rounds) {
  const { acceptance, rejection } = runningRates(rounds);
  const x = (/** @type {number} */ at) =>
    LEFT + (at * (WIDTH - LEFT - 8)) / Math.max(1, acceptance.length - 1);
  const y = (/** @type {number} */ rate) => 10 + (1 - rate) * (HEIGHT - BOTTOM - 16);
  const path = (/** @type {number[]} */ rates) =>
    rates.map((rate, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(rate).toFixed(1)}`).join("");
  const lines = [0, 0.5, 1].map(
    (rate) =>
      `<line x1="${LEFT}" x2="${WIDTH}" y1="${y(rate)}" y2="${y(rate)}" class="grid"/><text x="${LEFT - 6}" y="${y(rate) + 4}" text-anchor="end">${100 * rate} %</text>`,
  );
  const last = acceptance.length - 1;
  const named = (
    /** @type {number[]} */ rates,
    /** @type {string} */ name,
    /** @type {number} */ by,
  ) =>
    `<text x="${WIDTH - 4}" y="${y(rates[last]) + by}" text-anchor="end" class="strong">${name}</text>`;
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Running acceptance and rejection rate over the examined tokens">${lines.join("")}
    <path d="${path(acceptance)}" class="line-accepted"/><path d="${path(rejection)}" class="line-rejected"/>
    ${named(acceptance, "acceptance rate", acceptance[last] >= 0.5 ? -8 : 18)}${named(rejection, "rejection rate", rejection[last] > 0.5 ? -8 : 18)}
    <text x="${(LEFT + WIDTH) / 2}" y="${HEIGHT - 4}" text-anchor="middle">examined tokens (${acceptance.length})</text></svg>`;
}
