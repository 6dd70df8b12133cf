// The timeline of a run: one column per round and one cell per drafted level, coloured by its
// verdict. It is drawn on a canvas, because a thousand rounds would need too many elements.

import { lookOf } from "./outcomes.js";

const SIDE = 3; // margin in pixels on the left and right of the columns
const GAP = 2;
const NO_MARK = 7; // width in pixels of the line that is drawn instead of a mark
const LANE = 0.24; // share of the height that is reserved for the mark of the extra token
const WIDEST = 26; // largest mean width of a column in pixels
const LEGIBLE = 7; // mean width in pixels below which the columns around the selected one are widened
const CLOSE_BY = 10; // width of a widened column in pixels, enough for a finger
const NEIGHBOURS = 5; // number of widened columns on each side of the selected one

export class Strip {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{ onSelect: (round: number) => void, onChange: () => void, theme: Theme }} on
   */
  constructor(canvas, { onSelect, onChange, theme }) {
    this.canvas = canvas;
    this.theme = theme;
    /** @type {Round[]} */
    this.rounds = [];
    /** @type {number[]} */
    this.edges = [];
    this.look = "";
    this.middle = 0; // index of the round in the middle of the widened columns
    /** @type {Palette} */
    this.colours = {};
    this.isDragging = false;
    this.picture = document.createElement("canvas"); // the drawn columns; they are drawn again only if the run has grown
    this.width = this.height = 0;
    new ResizeObserver(() => this.measure(onChange)).observe(canvas);
    const select = (/** @type {PointerEvent} */ event) => onSelect(this.roundAt(event.offsetX));
    canvas.addEventListener("pointerdown", (event) => {
      this.isDragging = true;
      canvas.setPointerCapture(event.pointerId);
      select(event);
    });
    canvas.addEventListener("pointermove", (event) => this.isDragging && select(event));
    const leave = () => ((this.isDragging = false), onChange());
    canvas.addEventListener("pointerup", leave);
    canvas.addEventListener("pointercancel", leave);
  }

  /** @param {() => void} onChange */
  measure(onChange) {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    onChange();
  }

  // Compute the right edge of every column in pixels. Each width is proportional to the round's
  // share of the axis. If there are so many columns that they become narrow, the columns around the
  // selected one are made wider. The margins leave space for the frame of the first and last
  // column.
  /** @param {{ from: number, ends: number[] }} axis */
  layOut({ from, ends }) {
    const whole = (ends.at(-1) ?? from) - from;
    const width = Math.min(this.width - 2 * SIDE, WIDEST * ends.length);
    const even = ends.map((end, index) =>
      whole > 0 ? ((end - (index ? ends[index - 1] : from)) / whole) * width : 0,
    );
    let edge = SIDE;
    this.edges = (this.isCrowded(ends.length) ? widenedAround(even, this.middle) : even).map(
      (each) => (edge += each),
    );
  }

  /** @param {number} count */
  isCrowded(count) {
    return this.width - 2 * SIDE < LEGIBLE * count;
  }

  /** @param {number} index */
  left(index) {
    return index ? this.edges[index - 1] : SIDE;
  }

  /** @param {number} x */
  roundAt(x) {
    const at = this.edges.findIndex((edge) => x < edge);
    return at < 0 ? this.rounds.length - 1 : at;
  }

  // `axis` says where the first round begins and where each round ends; by default all columns have
  // the same width. `forks` are the rounds before which the run was forked. If the selected round
  // is not finished, `known` is the part of it that may be shown. Only the first `until` rounds are
  // visible; the space of later rounds stays empty.
  /**
   * @param {Round[]} rounds
   * @param {number} selected
   * @param {{ axis?: { from: number, ends: number[] }, forks?: number[], known?: { levels: string[], extraKind?: string | null } | null, until?: number }} [how]
   */
  draw(
    rounds,
    selected,
    {
      axis = { from: 0, ends: rounds.map((_, index) => index + 1) },
      forks = [],
      known = null,
      until = rounds.length,
    } = {},
  ) {
    const { canvas, picture, width, height } = this;
    const scale = window.devicePixelRatio || 1;
    for (const each of [canvas, picture])
      fit(each, Math.round(width * scale), Math.round(height * scale));
    if (!this.isDragging) this.middle = selected; // no column may move under a finger
    const look = [
      rounds.length,
      this.isCrowded(rounds.length) && this.middle,
      forks.join("-"),
      axis.from,
      axis.ends.at(-1),
      width,
      height,
      scale,
      this.theme.name,
    ].join();
    if (rounds !== this.rounds || look !== this.look) this.drawColumns(rounds, axis, scale, forks);
    this.rounds = rounds;
    this.look = look;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    if (picture.width && picture.height) pen.drawImage(picture, 0, 0);
    pen.scale(scale, scale);
    if (rounds[selected] && known) {
      pen.clearRect(this.left(selected), 0, this.edges[selected] - this.left(selected), height);
      this.column(pen, known, selected, height, deepestOf(rounds));
    }
    if (until < rounds.length) this.hideFrom(pen, until);
    if (rounds[selected] && selected < until) this.frame(pen, selected, height);
  }

  // Draw a line in place of the rounds from `index` on, which are not visible yet.
  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {number} index
   */
  hideFrom(pen, index) {
    const left = this.left(index);
    pen.clearRect(left, 0, this.width - left, this.height);
    pen.fillStyle = this.colours.grid;
    pen.fillRect(left + GAP / 2, this.height - 5, (this.edges.at(-1) ?? left) - left - GAP, 2);
  }

  /**
   * @param {Round[]} rounds
   * @param {{ from: number, ends: number[] }} axis
   * @param {number} scale
   * @param {number[]} forks
   */
  drawColumns(rounds, axis, scale, forks) {
    this.layOut(axis);
    this.colours = this.theme.palette;
    const pen = /** @type {CanvasRenderingContext2D} */ (this.picture.getContext("2d"));
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const deepest = deepestOf(rounds);
    rounds.forEach((round, index) => this.column(pen, round, index, this.height, deepest));
    for (const index of forks) if (index < rounds.length) this.fork(pen, this.left(index));
  }

  // Draw a dashed line at a fork. Everything to the left of it was decoded by the parent run.
  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {number} x
   */
  fork(pen, x) {
    pen.strokeStyle = this.colours.ink;
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(Math.max(1, x), 0);
    pen.lineTo(Math.max(1, x), this.height);
    pen.stroke();
    pen.setLineDash([]);
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {{ levels: string[], extraKind?: string | null }} round
   * @param {number} index
   * @param {number} height
   * @param {number} deepest
   */
  column(pen, round, index, height, deepest) {
    const pitch = this.edges[index] - this.left(index);
    const gap = pitch > 6 ? GAP : 0.5;
    const top = height * LANE;
    const cell = (height - top - 3) / deepest;
    const [x, width] = [this.left(index) + gap / 2, Math.max(0.8, pitch - gap)];
    round.levels.forEach((outcome, level) => {
      const y = height - 3 - (level + 1) * cell;
      this.cell(pen, outcome, x, y + 0.5, width, Math.max(1, cell - 1.5));
    });
    const y = height - 3 - round.levels.length * cell - 7;
    if (pitch >= 7) this.mark(pen, round.extraKind, x + width / 2, Math.max(6, y));
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {string} outcome
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  cell(pen, outcome, x, y, width, height) {
    pen.beginPath();
    // rounded corners of so narrow a cell would be invisible and slow to draw
    if (width < 4) pen.rect(x, y, width, height);
    else pen.roundRect(x, y, width, height, Math.min(3, width / 3, height / 3));
    pen.fillStyle = this.colours[outcome];
    const look = lookOf(outcome);
    if (look.cell === "faint") {
      pen.globalAlpha = 0.28;
      pen.fill();
      pen.globalAlpha = 1;
      return;
    }
    pen.fill();
    const arm = Math.min(2.5, width / 2 - 1, height / 2 - 1);
    if (look.cell === "crossed" && arm >= 1.5) this.cross(pen, x + width / 2, y + height / 2, arm);
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {number} x
   * @param {number} y
   * @param {number} arm
   */
  cross(pen, x, y, arm) {
    pen.strokeStyle = this.colours.card;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const side of [-1, 1]) {
      pen.moveTo(x - arm, y - arm * side);
      pen.lineTo(x + arm, y + arm * side);
    }
    pen.stroke();
  }

  // Draw the mark of the token that the target added. `kind` is null if the round added none, and
  // undefined if it is not known yet.
  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {string | null | undefined} kind
   * @param {number} x
   * @param {number} y
   */
  mark(pen, kind, x, y) {
    if (kind === undefined) return;
    pen.fillStyle = this.colours[kind ?? "muted"];
    if (!kind) return void pen.fillRect(x - NO_MARK / 2, y - 1, NO_MARK, 2); // the text ends with a drafted token
    pen.font = "700 10px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(lookOf(kind).mark, x, y);
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {number} index
   * @param {number} height
   */
  frame(pen, index, height) {
    pen.strokeStyle = this.theme.selectColour;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.roundRect(
      this.left(index) - 0.5,
      1,
      Math.max(4, this.edges[index] - this.left(index) + 1),
      height - 2,
      4,
    );
    pen.stroke();
  }

  /**
   * @param {number} selected
   * @param {string} text
   */
  describe(selected, text) {
    this.canvas.setAttribute("aria-valuemin", "1");
    this.canvas.setAttribute("aria-valuemax", String(Math.max(1, this.rounds.length)));
    this.canvas.setAttribute("aria-valuenow", String(selected + 1));
    this.canvas.setAttribute("aria-valuetext", text);
  }
}

// Widen the columns around the middle one without changing the total width. The middle column stays
// where it is, because the user's finger is on it. The other columns on each side become narrower
// to make space.
/**
 * @param {number[]} widths
 * @param {number} middle
 */
function widenedAround(widths, middle) {
  if (!sum(widths)) return widths;
  const side = (/** @type {number[]} */ those, /** @type {number} */ more) => {
    const [all, near] = [sum(those), those.slice(0, NEIGHBOURS)];
    const wide = near.map((width) => Math.max(width, CLOSE_BY));
    const [left, far] = [all - more - sum(wide), all - sum(near)];
    // The other columns are too narrow to give up space, so all widths shrink alike.
    if (left <= 0 || far <= 0) return those.map((width) => (width * (all - more)) / all);
    return [...wide, ...those.slice(NEIGHBOURS).map((width) => (width * left) / far)];
  };
  const [before, after] = [widths.slice(0, middle).reverse(), widths.slice(middle + 1)];
  const more = Math.max(0, CLOSE_BY - widths[middle]); // additional width of the middle column
  const share = sum(before) / (sum(before) + sum(after));
  return [
    ...side(before, more * share).reverse(),
    widths[middle] + more,
    ...side(after, more * (1 - share)),
  ];
}

/** @param {number[]} numbers */
function sum(numbers) {
  return numbers.reduce((total, each) => total + each, 0);
}

/** @param {Round[]} rounds */
function deepestOf(rounds) {
  return Math.max(1, ...rounds.map((round) => round.levels.length));
}

// Set the size of a canvas only if it differs, because a canvas loses its content when its size is
// set.
/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
function fit(canvas, width, height) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}
