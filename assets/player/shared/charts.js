// Plotly charts. A chart is drawn from a plain object, at most once per frame, in the colours of
// the theme. Its labels are cut to fit. The module keeps its own reference to Plotly, because
// another copy of Plotly may later replace the global variable.

import { element, setText } from "./dom.js";

const MISSING =
  "This chart could not be drawn, for a file of the page did not come. Reload the page to try again.";

/** @type {any} */
let plotly = null;
let isMissing = false;
/** @type {Set<Chart>} charts that were drawn before plotly.js was loaded */
const early = new Set();

// Load Plotly. The promise resolves to true if that worked. The other parts of the page do not wait
// for it.
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

// Use this copy of Plotly for all charts. Null means that Plotly could not be loaded.
/** @param {any} copy */
export function takePlotly(copy) {
  plotly = copy;
  isMissing = copy === null;
  for (const chart of early) chart.react();
  early.clear();
}

const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };

export class Chart {
  // `box` needs a height while it is empty. Otherwise it never becomes visible, and a lazy chart is
  // never drawn.
  /**
   * @param {any} box the element of the chart; Plotly adds methods to it
   * @param {Theme} theme
   * @param {((of: any) => void) | null} [onClick] is called with the `customdata` of the clicked point
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
    // Store the width, because to read it while drawing forces the browser to lay out the page
    // again.
    new ResizeObserver(() => this.resized()).observe(box);
    // Draw a lazy chart only when it becomes visible. Until then a live race can use the CPU.
    new IntersectionObserver(([entry]) => this.seen(entry.isIntersecting), {
      rootMargin: "150px",
    }).observe(box);
  }

  // `figure` uses the colours of the light theme.
  /** @param {Figure} figure */
  draw(figure, isLazy = false) {
    this.figure = figure;
    this.isLazy = isLazy;
    // reserve the height, so that the page does not jump when the chart appears
    this.box.style.minHeight = `${figure.layout.height}px`;
    this.react();
  }

  // Replace only the shapes of the chart, which is much cheaper than drawing all of it.
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

  // The chart in the theme's colours and sizes.
  get shown() {
    const { data: traces, layout } = recolour(this.figure, this.theme.swap);
    // Leave out traces without points, because Plotly spends as much time on them as on short
    // traces.
    const data = traces.filter((/** @type {any} */ trace) => trace.x?.length !== 0);
    layout.width = this.drawnWidth;
    if (this.theme.isLarge) enlarge(layout, data);
    for (const trace of data) if (trace.meta?.room) fitLabels(trace, layout);
    return { data, layout };
  }

  // Save the chart as a file, on the background colour of its card. A PNG has twice the resolution
  // of the screen.
  /**
   * @param {string} format
   * @param {string} name
   */
  save(format, name) {
    const { data, layout } = this.shown;
    const { width, height } = layout;
    const ground = this.theme.palette.card;
    const picture = { data, layout: { ...layout, paper_bgcolor: ground, plot_bgcolor: ground } };
    return plotly.downloadImage(picture, {
      format,
      width,
      height,
      scale: format === "png" ? 2 : 1,
      filename: name,
    });
  }

  // The width of the drawing in pixels. If it is wider than its box, the box scrolls.
  get drawnWidth() {
    return Math.max(this.width, this.figure?.layout.meta?.min_width ?? 0);
  }

  get isScrolling() {
    return this.width > 0 && this.drawnWidth > this.width;
  }

  // Return how many pixels `x` on the x-axis is to the right of the chart's left edge.
  /** @param {number} x */
  pixelAt(x) {
    const { margin, xaxis } = /** @type {Figure} */ (this.figure).layout;
    const [from, to] = xaxis.range;
    return margin.l + ((x - from) / (to - from)) * (this.drawnWidth - margin.l - margin.r);
  }

  bind() {
    if (this.isBound || !this.onClick) return;
    this.isBound = true;
    this.box.on("plotly_click", (/** @type {any} */ event) =>
      this.onClick?.(event.points[0].customdata),
    );
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

// Replace every colour of the light theme by the current theme's colour for the same purpose.
/**
 * @param {any} value
 * @param {Map<string, string>} swap
 * @returns {any}
 */
export function recolour(value, swap) {
  if (typeof value === "string") return swap.get(value) ?? value;
  if (Array.isArray(value))
    return isNumbers(value) ? value : value.map((each) => recolour(each, swap));
  if (value === null || typeof value !== "object") return value;
  /** @type {Record<string, any>} */
  const copy = {};
  for (const key in value) copy[key] = recolour(value[key], swap);
  return copy;
}

// Return whether an array holds only numbers. Such an array may be long and contains no colour, so
// it need not be copied. One step of a colour scale is also an array, but it holds a number and a
// colour.
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

// Cut the labels of a Plotly trace to the space that they have at the chart's current width. If the
// columns of the chart are narrow and the trace has `meta.narrow`, move the labels to the heights
// in `meta.narrow`.
const CHARACTER = 0.62; // width of a character divided by the font size, in the monospace font of charts
const NARROW = 6.5; // largest width of a narrow column, divided by the font size

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
  trace.text = trace.text.map((/** @type {string} */ text, /** @type {number} */ index) =>
    cut(text, Math.floor((room[index] * unit) / size)),
  );
}

// Cut a text to at most `most` characters, but keep at least one character and the mark "…".
/**
 * @param {string} text
 * @param {number} most
 */
export function cut(text, most) {
  const characters = text.match(/&(?:amp|lt|gt);|[^]/gu) ?? [];
  if (characters.length <= Math.max(2, most)) return text;
  return `${characters.slice(0, Math.max(1, most - 1)).join("")}…`;
}

// The buttons "PNG" and "SVG" next to a chart's title. They are faint unless the pointer or the
// focus is near. Their space is always reserved, so that they never cover other content.
const FORMATS = ["png", "svg"];

class ChartSave {
  // `save(format, name)` saves the chart.
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

  // Put the buttons next to the title. A title in a view is already a row with space for the
  // buttons; for any other title, make such a row.
  /** @param {Element} title */
  join(title) {
    if (title.matches(".chart-head")) return title.append(this.bar);
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
    made.addEventListener("click", () =>
      save(format, `specviz-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`),
    );
    return made;
  }

  /** @param {boolean} isThere */
  show(isThere) {
    this.bar.hidden = !isThere;
  }
}

// Return the nearest heading before an element. In a view, return the row that contains the
// heading.
/**
 * @param {any} element
 * @returns {Element}
 */
function titleOf({ previousElementSibling: before }) {
  return before.matches("h3, .chart-head") ? before : titleOf(before);
}
