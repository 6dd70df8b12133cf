// The card "Jump to". The user switches on rules such as "rejection". The card shows how many stops
// of the run match each rule, lists these stops, and has buttons that move to the previous and the
// next of them. A matching stop is called a match.

import { element, setText } from "../shared/dom.js";
import { markWrong } from "../shared/field_errors.js";
import { tokenLabel } from "../shared/token_label.js";
import { Matches, RULES } from "./stop_rules.js";

const MOST_LISTED = 400;

export class StopList {
  /**
   * @param {Refs} refs
   * @param {StepCursor} cursor
   * @param {() => void} onChange
   */
  constructor(refs, cursor, onChange) {
    this.refs = refs;
    this.cursor = cursor;
    this.onChange = onChange;
    this.rows = RULES.map((rule) => this.row(rule));
    refs.stopRules.append(...this.rows.map((row) => row.item));
    refs.nextMatch.addEventListener("click", () => this.step(1));
    refs.previousMatch.addEventListener("click", () => this.step(-1));
    refs.matches.addEventListener("click", (/** @type {any} */ event) => this.jump(event));
    this.clear();
  }

  /** @param {StopRule} rule */
  row(rule) {
    const item = element("li");
    const label = element("label");
    const box = element("input");
    box.type = "checkbox";
    box.checked = rule.name === "rejection";
    box.dataset.rule = rule.name;
    label.append(box, element("span", "", rule.title));
    /** @type {any} the row of a rule; `input` (if the rule has a value) and `matches` are added later */
    const row = { rule, item, box, count: element("span", "count") };
    item.append(label);
    if ("value" in rule) item.append(this.field(row));
    item.append(row.count);
    box.addEventListener("change", () => this.changed());
    return row;
  }

  /** @param {any} row */
  field(row) {
    const { rule } = row;
    row.input = element("input", rule.isText ? "wide" : "");
    row.input.type = "text";
    row.input.inputMode = rule.isText ? "text" : "decimal";
    row.input.value = String(rule.value);
    row.input.placeholder = rule.isText ? "text or id" : "";
    row.input.setAttribute("aria-label", `${rule.title} value`);
    row.input.addEventListener("input", () => {
      row.matches = null;
      if (rule.isText) row.box.checked = row.input.value !== "";
      this.changed();
    });
    return row.input;
  }

  clear() {
    for (const row of this.rows) row.matches = null;
    /** @type {string | null} key of the current list of matches */
    this.listed = null;
    /** @type {{ by: number, moment: string } | null} */
    this.end = null;
  }

  changed() {
    this.listed = this.end = null;
    this.onChange();
  }

  /** @param {any} row */
  value({ rule, input }) {
    if (!input) return null;
    if (rule.isText) return input.value;
    const number = Number(input.value);
    const holds = input.value.trim() !== "" && number >= rule.low && number <= rule.high;
    markWrong(input, !holds);
    input.title = holds ? "" : `from ${rule.low} to ${rule.high}`;
    return holds ? number : null;
  }

  // Every stop that matches at least one of the rules that are switched on, in the order of the
  // run.
  get all() {
    const found = new Map();
    for (const row of this.rows) {
      if (!row.box.checked || !row.matches) continue;
      for (const match of row.matches.found) found.set(`${match.round} ${match.node}`, match);
    }
    return [...found.values()].sort((a, b) => a.round - b.round || this.place(a) - this.place(b));
  }

  /** @param {Match} match */
  place({ round, node }) {
    return /** @type {Trace} */ (this.cursor.trace).rounds[round].stops.indexOf(node);
  }

  /** @param {number} by */
  step(by) {
    const { cursor } = this;
    const here = cursor.round * 1000 + this.standing;
    const spot = (/** @type {any} */ match) => match.round * 1000 + this.place(match);
    const matches = this.all;
    const next =
      by > 0
        ? matches.find((each) => spot(each) > here)
        : matches.findLast((each) => spot(each) < here);
    if (next) return cursor.toNode(next.round, next.node);
    this.end = matches.length ? { by, moment: this.moment } : null;
    this.onChange();
  }

  // Return the note that there is no further match before or after the cursor. The note appears
  // when the user asks for one in vain, and stays until the cursor moves.
  /** @param {boolean} isMatch */
  endWords(isMatch) {
    if (this.end?.moment !== this.moment) return "";
    const isLast = this.end.by > 0;
    if (isMatch) return isLast ? " · last match" : " · first match";
    return isLast ? " · none after this moment" : " · none before this moment";
  }

  // A note that says that matches of the current round are listed once the cursor reaches them. The
  // note appears in every round until the cursor reaches its end, even if no match follows, so that
  // the note reveals nothing.
  get aheadWords() {
    const { moments, at } = this.cursor;
    return moments[at]?.phase === "commit" ? "" : " · those of this round are listed once reached";
  }

  get moment() {
    return `${this.cursor.round} ${this.cursor.at}`;
  }

  // List a match without revealing what has not happened yet. A match in a later round shows only
  // its round. A match later in this round is left out.
  /**
   * @param {Trace} trace
   * @param {Match} match
   * @param {number} index
   */
  listedNow(trace, match, index) {
    const { cursor } = this;
    if (match.round > cursor.round) return [listed(trace, match, index, true)];
    const isAhead = match.round === cursor.round && this.place(match) > this.standing;
    return isAhead ? [] : [listed(trace, match, index, false)];
  }

  // The position of the cursor among the stops of its round: the index of the stop at the cursor.
  // Between two stops it ends in .5, and before the first stop it is -0.5.
  get standing() {
    const { moments, at, current } = this.cursor;
    const stops = moments
      .slice(0, at + 1)
      .filter((each) => each.phase === "judge" || each.phase === "extra");
    const isOn = moments[at]?.phase === "judge" || moments[at]?.phase === "extra";
    return stops.length - (isOn || !current ? 1 : 0.5);
  }

  /** @param {any} event */
  jump(event) {
    const button = event.target.closest("button[data-at]");
    const match = button && this.all[Number(button.dataset.at)];
    if (match) this.cursor.toNode(match.round, match.node);
  }

  // `isThought` is true if the debugger shows a changed draw. The matches are still those of the
  // recorded run.
  /**
   * @param {Trace} trace
   * @param {boolean} isThought
   */
  draw(trace, isThought) {
    for (const row of this.rows) this.count(row, trace);
    const matches = this.all;
    const { round, node } = this.cursor;
    const isJudged = Number.isInteger(this.standing);
    const at = isJudged
      ? matches.findIndex((each) => each.round === round && each.node === node)
      : -1;
    for (const name of ["nextMatch", "previousMatch"])
      this.refs[name].disabled = matches.length === 0;
    const isOn = this.rows.some((row) => row.box.checked);
    setText(
      this.refs.matchWord,
      words(matches.length, at, isOn) +
        (this.endWords(at >= 0) || (matches.length && at < 0 ? this.aheadWords : "")) +
        (isThought && matches.length ? " · as recorded" : ""),
    );
    this.list(trace, matches, at);
  }

  /**
   * @param {any} row
   * @param {Trace} trace
   */
  count(row, trace) {
    const value = this.value(row);
    if (row.input && value === null) row.matches = null;
    else {
      row.matches ??= new Matches(row.rule, value);
      row.matches.grow(trace);
    }
    setText(row.count, row.matches ? String(row.matches.found.length) : "–");
  }

  /**
   * @param {Trace} trace
   * @param {Match[]} matches
   * @param {number} at
   */
  list(trace, matches, at) {
    const state = `${matches.length} ${this.moment} ${this.rows.map((row) => row.box.checked + (row.input?.value ?? "")).join()}`;
    if (this.listed !== state) {
      this.listed = state;
      const shown = matches
        .slice(0, MOST_LISTED)
        .flatMap((match, index) => this.listedNow(trace, match, index));
      const focused = this.refs.matches.querySelector("button:focus")?.dataset.at;
      this.refs.matches.replaceChildren(...shown);
      if (focused)
        this.refs.matches.querySelector(`[data-at="${focused}"]`)?.focus({ preventScroll: true });
    }
    this.refs.matches.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const here = this.refs.matches.querySelector(`[data-at="${at}"]`);
    here?.setAttribute("aria-current", "true");
    if (here) keepInView(this.refs.matches, here);
  }
}

/**
 * @param {HTMLElement} box
 * @param {HTMLElement} item
 */
function keepInView(box, item) {
  const top = item.offsetTop - box.offsetTop;
  if (top < box.scrollTop || top + item.offsetHeight > box.scrollTop + box.clientHeight) {
    box.scrollTop = top - box.clientHeight / 2;
  }
}

/**
 * @param {Trace} trace
 * @param {Match} match
 * @param {number} index
 * @param {boolean} isAhead
 */
function listed(trace, { round, node }, index, isAhead) {
  const item = element("li");
  const button = element("button", "match");
  button.type = "button";
  button.dataset.at = String(index);
  const { outcomes, extraKind } = trace.rounds[round];
  const outcome = outcomes[node] ?? extraKind;
  button.append(element("span", "hint", `round ${round + 1}`));
  if (isAhead) button.append(element("span", "hint", "ahead"));
  else
    button.append(
      element("b", "", tokenLabel(trace.text(trace.rounds[round].tokenId(node)))),
      element("span", `verdict ${outcome}`, outcome),
    );
  item.append(button);
  return item;
}

/**
 * @param {number} count
 * @param {number} at
 * @param {boolean} isOn
 */
function words(count, at, isOn) {
  if (!isOn) return "choose what to jump to";
  if (!count) return "no match in this run";
  return at < 0 ? `${count} ${count === 1 ? "match" : "matches"}` : `match ${at + 1} of ${count}`;
}
