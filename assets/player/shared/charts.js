// Plotly charts: drawn from plain dicts, at most one react each per frame, recoloured by theme,
// their labels cut to the room they have.
// Knows nothing of what a chart shows. Keeps its own reference to Plotly: another copy may later
// take the global name.

import { ChartSave } from "./chart_save.js";
import { fitLabels } from "./label_fit.js";

let plotly = null;

export function loadPlotly(url) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => resolve((plotly = window.Plotly));
    script.onerror = () => reject(new Error("plotly.min.js could not be loaded"));
    document.head.append(script);
  });
}

// Where the page holds plotly.js already.
export function takePlotly(copy) {
  plotly = copy;
}

const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };

export class Chart {
  // `box` needs a height of its own while it is empty, or it could never come into sight.
  constructor(box, theme, onClick = null) {
    this.box = box;
    this.theme = theme;
    this.onClick = onClick;
    this.figure = null;
    this.width = 0;
    this.isSeen = false;
    this.saving = new ChartSave(box, (format, name) => this.save(format, name));
    // The width is kept, for asking the browser for it in mid-drawing costs a layout of the page.
    new ResizeObserver(() => this.resized()).observe(box);
    // A lazy drawing waits until it is in sight: a live race needs the processor more.
    const seen = ([{ isIntersecting }]) => this.seen(isIntersecting);
    new IntersectionObserver(seen, { rootMargin: "150px" }).observe(box);
  }

  // `figure` in light colours.
  draw(figure, isLazy = false) {
    this.figure = figure;
    this.isLazy = isLazy;
    this.box.style.minHeight = `${figure.layout.height}px`; // no jump when it comes into sight
    this.react();
  }

  // Only the shapes over the same figure: much cheaper than a whole drawing.
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
    if (!plotly || !this.figure) return;
    this.isStale = this.width === 0 || (this.isLazy && !this.isSeen);
    if (this.isStale) return;
    const { data, layout } = this.shown;
    plotly.react(this.box, data, layout, CONFIG);
    this.bind();
    this.saving.show(true);
  }

  // The figure in the colours and the sizes of the page.
  get shown() {
    const { data: traces, layout } = recolour(this.figure, this.theme.swap);
    const data = traces.filter((trace) => trace.x?.length !== 0); // an empty one costs as much as a short one
    layout.width = this.drawnWidth;
    if (this.theme.isLarge) enlarge(layout, data);
    for (const trace of data) if (trace.meta?.room) fitLabels(trace, layout);
    return { data, layout };
  }

  // A file of what is shown, on the card's ground; a PNG has twice the screen's points.
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
  pixelAt(x) {
    const { margin, xaxis } = this.figure.layout;
    const [from, to] = xaxis.range;
    return margin.l + ((x - from) / (to - from)) * (this.drawnWidth - margin.l - margin.r);
  }

  bind() {
    if (this.isBound || !this.onClick) return;
    this.isBound = true;
    this.box.on("plotly_click", (event) => this.onClick(event.points[0].customdata));
  }

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
export function recolour(value, swap) {
  if (typeof value === "string") return swap.get(value) ?? value;
  if (Array.isArray(value)) return isNumbers(value) ? value : value.map((each) => recolour(each, swap));
  if (value === null || typeof value !== "object") return value;
  const copy = {};
  for (const key in value) copy[key] = recolour(value[key], swap);
  return copy;
}

// Columns of numbers are long and hold no colour; a pair of a number and a colour is a step of a scale.
function isNumbers(value) {
  return typeof value[0] === "number" && typeof value.at(-1) === "number";
}

const ENLARGEMENT = 1.3;

function enlarge(layout, data) {
  const fonts = [layout.font, layout.xaxis?.tickfont, layout.yaxis?.tickfont, layout.legend?.font];
  for (const each of layout.annotations ?? []) fonts.push(each.font);
  for (const trace of data) fonts.push(trace.textfont);
  for (const font of fonts) if (font?.size) font.size *= ENLARGEMENT;
}
