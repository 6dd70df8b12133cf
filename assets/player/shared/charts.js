// Plotly charts: drawn from plain dicts, at most one react each per frame, recoloured by theme, their
// labels cut to the room they have. Keeps its own reference to Plotly: another copy may later take the
// global name.

import { element, setText } from "./dom.js";

const MISSING = "This chart could not be drawn, for a file of the page did not come. Reload the page to try again.";

/** @type {any} */
let plotly = null;
let isMissing = false;
/** @type {Set<Chart>} with something to draw before plotly.js is there */
const early = new Set();

// The page does not wait for it: texts and buttons are there before charts are. The answer is whether it came.
/**
 * @param {URL} url
 * @returns {Promise<boolean>}
 */
export function loadPlotly(url) {
  return new Promise((resolve) => {
    const script = document.createElement("script");
    const arrived = (/** @type {any} */ copy) => (takePlotly(copy), resolve(copy !== null));
    script.src = url.href;
    script.onload = () => arrived(window.Plotly);
    script.onerror = () => arrived(null);
    document.head.append(script);
  });
}

// The page's own copy, null where there is none to be had.
/** @param {any} copy */
export function takePlotly(copy) {
  plotly = copy;
  isMissing = copy === null;
  for (const chart of early) chart.react();
  early.clear();
}

const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };

export class Chart {
  // `box` needs a height of its own while it is empty, or it could never come into sight.
  /**
   * @param {any} box an element, which Plotly gives methods of its own
   * @param {Theme} theme
   * @param {((of: any) => void) | null} [onClick] hears of the customdata of what is clicked
   */
  constructor(box, theme, onClick = null) {
    this.box = box;
    this.theme = theme;
    this.onClick = onClick;
    /** @type {Figure | null} */
    this.figure = null;
    this.width = 0;
    this.isSeen = false;
    this.saving = new ChartSave(box, (format, name) => this.save(format, name));
    // The width is kept, for asking the browser for it in mid-drawing costs a layout of the page.
    new ResizeObserver(() => this.resized()).observe(box);
    // A lazy drawing waits until it is in sight: a live race needs the processor more.
    new IntersectionObserver(([entry]) => this.seen(entry.isIntersecting), { rootMargin: "150px" }).observe(box);
  }

  // `figure` in light colours.
  /** @param {Figure} figure */
  draw(figure, isLazy = false) {
    this.figure = figure;
    this.isLazy = isLazy;
    this.box.style.minHeight = `${figure.layout.height}px`; // no jump when it comes into sight
    this.react();
  }

  // Only the shapes over the same figure: much cheaper than a whole drawing.
  /** @param {object[]} shapes */
  drawShapes(shapes) {
    if (!this.figure) return;
    this.figure = { ...this.figure, layout: { ...this.figure.layout, shapes } };
    if (!this.isStale) plotly.relayout(this.box, { shapes });
  }

  clear() {
    if (!this.figure) return;
    this.figure = null;
    this.saving.show(false);
    this.box.style.minHeight = "";
    plotly?.purge(this.box);
    this.isBound = false;
    this.box.replaceChildren();
  }

  react() {
    if (!this.figure) return;
    if (!plotly) return this.waitForPlotly();
    this.isStale = this.width === 0 || (this.isLazy && !this.isSeen);
    if (this.isStale) return;
    const { data, layout } = this.shown;
    plotly.react(this.box, data, layout, CONFIG);
    this.bind();
    this.saving.show(true);
  }

  waitForPlotly() {
    this.isStale = true;
    if (isMissing) setText(this.box, MISSING);
    else early.add(this);
  }

  // The figure in the colours and the sizes of the page.
  get shown() {
    const { data: traces, layout } = recolour(this.figure, this.theme.swap);
    const data = traces.filter((/** @type {any} */ trace) => trace.x?.length !== 0); // an empty one costs as much as a short one
    layout.width = this.drawnWidth;
    if (this.theme.isLarge) enlarge(layout, data);
    for (const trace of data) if (trace.meta?.room) fitLabels(trace, layout);
    return { data, layout };
  }

  // A file of what is shown, on the card's ground; a PNG has twice the screen's points.
  /**
   * @param {string} format
   * @param {string} name
   */
  save(format, name) {
    const { data, layout } = this.shown;
    const { width, height } = layout;
    const ground = this.theme.palette.card;
    const picture = { data, layout: { ...layout, paper_bgcolor: ground, plot_bgcolor: ground } };
    return plotly.downloadImage(picture, { format, width, height, scale: format === "png" ? 2 : 1, filename: name });
  }

  // A chart that is wider than its box scrolls in it.
  get drawnWidth() {
    return Math.max(this.width, this.figure?.layout.meta?.min_width ?? 0);
  }

  get isScrolling() {
    return this.width > 0 && this.drawnWidth > this.width;
  }

  // From the chart's left edge to `x` of its axis.
  // Of a place on the x-axis, in what is drawn.
  /** @param {number} x */
  pixelAt(x) {
    const { margin, xaxis } = /** @type {Figure} */ (this.figure).layout;
    const [from, to] = xaxis.range;
    return margin.l + ((x - from) / (to - from)) * (this.drawnWidth - margin.l - margin.r);
  }

  bind() {
    if (this.isBound || !this.onClick) return;
    this.isBound = true;
    this.box.on("plotly_click", (/** @type {any} */ event) => this.onClick?.(event.points[0].customdata));
  }

  /** @param {boolean} isSeen */
  seen(isSeen) {
    this.isSeen = isSeen;
    if (isSeen && this.isStale) this.react();
  }

  resized() {
    const width = this.box.clientWidth;
    if (Math.abs(width - this.width) <= 1) return;
    this.width = width;
    this.react();
  }
}

// Every string that is a light colour becomes the colour of the same role.
/**
 * @param {any} value
 * @param {Map<string, string>} swap
 * @returns {any}
 */
export function recolour(value, swap) {
  if (typeof value === "string") return swap.get(value) ?? value;
  if (Array.isArray(value)) return isNumbers(value) ? value : value.map((each) => recolour(each, swap));
  if (value === null || typeof value !== "object") return value;
  /** @type {Record<string, any>} */
  const copy = {};
  for (const key in value) copy[key] = recolour(value[key], swap);
  return copy;
}

// Columns of numbers are long and hold no colour; a pair of a number and a colour is a step of a scale.
/** @param {any[]} value */
function isNumbers(value) {
  return typeof value[0] === "number" && typeof value.at(-1) === "number";
}

const ENLARGEMENT = 1.3;

/**
 * @param {any} layout
 * @param {any[]} data
 */
function enlarge(layout, data) {
  const fonts = [layout.font, layout.xaxis?.tickfont, layout.yaxis?.tickfont, layout.legend?.font];
  for (const each of layout.annotations ?? []) fonts.push(each.font);
  for (const trace of data) fonts.push(trace.textfont);
  for (const font of fonts) if (font?.size) font.size *= ENLARGEMENT;
}

// Labels of a chart cut to the room that they have at its present width. In narrow columns they stand as the
// trace's `meta.narrow` says, if it says anything.
const CHARACTER = 0.62; // of the font size, in the chart's monospace
const NARROW = 6.5; // font sizes

/**
 * @param {any} trace
 * @param {{ width: number, margin: { l: number, r: number }, xaxis: { range: [number, number] } }} layout
 */
export function fitLabels(trace, { width, margin, xaxis }) {
  const [from, to] = xaxis.range;
  const unit = (width - margin.l - margin.r) / (to - from);
  const size = trace.textfont.size * CHARACTER;
  const { narrow } = trace.meta;
  const isNarrow = narrow && unit < NARROW * trace.textfont.size;
  if (isNarrow) trace.y = narrow.y;
  const { room } = isNarrow ? narrow : trace.meta;
  trace.text = trace.text.map((/** @type {string} */ text, /** @type {number} */ index) => cut(text, Math.floor((room[index] * unit) / size)));
}

// At least one character and the mark that there is more.
/**
 * @param {string} text
 * @param {number} most
 */
export function cut(text, most) {
  const characters = text.match(/&(?:amp|lt|gt);|[^]/gu) ?? [];
  if (characters.length <= Math.max(2, most)) return text;
  return `${characters.slice(0, Math.max(1, most - 1)).join("")}…`;
}

// "PNG" and "SVG" beside a chart's title, faint until the pointer or the focus comes near. Their room is
// always kept, so they cover nothing.
const FORMATS = ["png", "svg"];

class ChartSave {
  // `save(format, name)` makes the picture.
  /**
   * @param {HTMLElement} box
   * @param {(format: string, name: string) => void} save
   */
  constructor(box, save) {
    this.box = box;
    this.bar = element("div", "chart-save");
    this.bar.hidden = true;
    for (const format of FORMATS) this.bar.append(this.button(format, save));
    this.join(titleOf(box.closest(".scroller") ?? box));
  }

  /** @param {Element} title */
  join(title) {
    const row = element("div", "chart-head");
    title.before(row);
    row.append(title, this.bar);
  }

  /**
   * @param {string} format
   * @param {(format: string, name: string) => void} save
   */
  button(format, save) {
    const made = element("button", "", format.toUpperCase());
    made.type = "button";
    const title = this.box.getAttribute("aria-label") ?? "";
    made.setAttribute("aria-label", `${made.textContent} of this chart: ${title}`);
    made.title = `Save this chart as ${made.textContent}`;
    made.addEventListener("click", () => save(format, `specviz-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`));
    return made;
  }

  /** @param {boolean} isThere */
  show(isThere) {
    this.bar.hidden = !isThere;
  }
}

// The nearest heading before an element.
/**
 * @param {any} element
 * @returns {Element}
 */
function titleOf({ previousElementSibling: before }) {
  return before.matches("h3") ? before : titleOf(before);
}
