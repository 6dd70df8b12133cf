// Turns the texts of lessons into elements, with emphasis, glossary words, and named values that
// follow the widget. It is independent of steps and widgets.

import { element } from "../shared/dom.js";
import { probability } from "../shared/number_words.js";
import { termButton } from "../shared/terms.js";
import { tokenLabel } from "../shared/token_label.js";

const PARTS = /\{([^{}]*)\}|\[([^[\]]+)\]\(([^()]+)\)|\*([^*]+)\*|`([^`]+)`/g;
const UNKNOWN = "…"; // text in place of a value that is not known yet

/** @type {Record<string, (value: any) => string>} */
const WRITTEN = {
  probability,
  percent: (value) => `${percentDigits(100 * value)} %`,
  count: (value) => Math.round(value).toLocaleString("en-US"),
  times: (value) => `${decimal(value)}×`,
  decimal,
  milliseconds: (value) =>
    `${value < 0.9995 ? (1000 * value).toPrecision(3) : Math.round(1000 * value).toLocaleString("en-US")} ms`,
  token: tokenLabel,
  text: String,
};

/** @param {number} value */
function decimal(value) {
  return value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}

// Write a percentage without decimals. It gets one decimal if it would otherwise read as 0 or 100
// without being exactly that.
/** @param {number} value */
function percentDigits(value) {
  const isEdge = (value > 0 && value < 1) || (value > 99 && value < 100);
  return value.toFixed(isEdge ? 1 : 0);
}

/**
 * @param {any} value
 * @param {ValueFormatName} format
 */
export function written(value, format) {
  return value === undefined || value === null ? UNKNOWN : WRITTEN[format](value);
}

// Writes the texts of one lesson and updates the values in them when the widget changes.
export class LessonText {
  /** @param {WidgetKindRecord} widget */
  constructor({ values }) {
    this.formats = new Map(values.map(({ name, format }) => [name, format]));
    /** @type {Record<string, any>} */
    this.values = {};
  }

  /** @param {string} name */
  write(name) {
    return written(this.values[name], /** @type {ValueFormatName} */ (this.formats.get(name)));
  }

  // Return the paragraphs of a text. Blank lines separate them.
  /** @param {string} text */
  paragraphs(text) {
    return text.trim()
      ? text
          .trim()
          .split(/\n\s*\n/)
          .map((each) => this.inline(element("p"), each))
      : [];
  }

  /**
   * @template {HTMLElement} Box
   * @param {Box} box
   * @param {string} text
   * @param {Record<string, any>} [values] fixed values; without them the widget's values are written and later updated
   */
  inline(box, text, values) {
    const own = this.values;
    this.values = values ?? own;
    box.replaceChildren(...textParts(text).map((part) => this.part(part)));
    box.querySelectorAll("button").forEach(glue);
    this.values = own;
    if (values)
      box.querySelectorAll("[data-value]").forEach((each) => each.removeAttribute("data-value"));
    return box;
  }

  /** @param {TextPart} part */
  part({ kind, text, name = "" }) {
    if (kind === "plain") return text;
    if (kind === "term") return termButton(text, name);
    if (kind === "strong") return element("em", "", text);
    if (kind === "code") return element("code", "", text);
    const made = element(
      this.formats.get(name) === "token" ? "code" : "b",
      "value",
      this.write(name),
    );
    made.dataset.value = name;
    return made;
  }

  // Update every value in `box` to the widget's current one.
  /**
   * @param {HTMLElement} box
   * @param {Record<string, any>} values
   */
  refresh(box, values) {
    this.values = values;
    for (const each of /** @type {NodeListOf<HTMLElement>} */ (
      box.querySelectorAll("[data-value]")
    )) {
      const text = this.write(each.dataset.value ?? "");
      if (each.textContent !== text) each.textContent = text;
    }
  }
}

// Keep a button on one line with the brackets or punctuation marks that touch it.
/** @param {Element} button */
function glue(button) {
  const [before, after] = [button.previousSibling, button.nextSibling];
  const open =
    /[([“‘]*$/.exec(before?.nodeType === Node.TEXT_NODE ? (before.textContent ?? "") : "")?.[0] ??
    "";
  const close =
    /^[)\].,:;!?’”]*/.exec(
      after?.nodeType === Node.TEXT_NODE ? (after.textContent ?? "") : "",
    )?.[0] ?? "";
  if (!open && !close) return;
  if (before && open) before.textContent = (before.textContent ?? "").slice(0, -open.length);
  if (after && close) after.textContent = (after.textContent ?? "").slice(close.length);
  const whole = element("span", "lesson-glued");
  button.replaceWith(whole);
  whole.append(open, button, close);
}

/** @typedef {{ kind: "plain" | "value" | "term" | "strong" | "code", text: string, name?: string }} TextPart */

/**
 * @param {string} text
 * @returns {TextPart[]}
 */
export function textParts(text) {
  /** @type {TextPart[]} */
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(PARTS)) {
    const [whole, value, words, term, strong, code] = found;
    parts.push({ kind: "plain", text: text.slice(end, found.index) });
    end = found.index + whole.length;
    if (value !== undefined) parts.push({ kind: "value", text: "", name: value });
    else if (term !== undefined) parts.push({ kind: "term", text: words, name: term });
    else
      parts.push(
        strong !== undefined ? { kind: "strong", text: strong } : { kind: "code", text: code },
      );
  }
  parts.push({ kind: "plain", text: text.slice(end) });
  return parts.filter(({ kind, text: own }) => kind !== "plain" || own !== "");
}
