// The uniform draw that is thought of, as a slider, as a field that takes every number in [0, 1), and
// as a button to the other side of the threshold. Knows numbers; what they decide is no concern of it.

import { element, setText } from "../shared/dom.js";

const DIGITS = 6; // of a recorded draw and of a threshold

export class DrawField {
  // `onDraw` hears of another draw, `onRefusal` why one is none.
  constructor(refs, onDraw, onRefusal) {
    this.refs = refs;
    this.onDraw = onDraw;
    this.onRefusal = onRefusal;
    const { whatIfDraw: slider } = refs;
    slider.max = String(1 - 10 ** -DIGITS);
    slider.step = "any"; // or a recorded draw would be rounded, and a threshold near 1 never passed
    this.made();
    slider.addEventListener("input", () => this.take(Number(slider.value)));
    slider.addEventListener("keydown", (event) => this.nudge(event));
    this.field.addEventListener("input", () => this.typed());
    this.beyond.addEventListener("click", () => this.take(this.other));
  }

  made() {
    const row = element("p", "row tight");
    const label = element("label", "go");
    this.field = element("input");
    Object.assign(this.field, { type: "text", inputMode: "decimal", size: 10 });
    this.field.setAttribute("aria-label", "The uniform draw u, exactly");
    this.field.style.width = "8em"; // ten digits
    label.append(element("span", "hint", "exactly"), this.field);
    this.beyond = element("button", "chip");
    Object.assign(this.beyond, { type: "button", hidden: true });
    row.append(label, this.beyond);
    this.refs.whatIfDraw.closest("label").after(row);
  }

  // The recorded draw; from `threshold` on the verdict is another.
  show(u, threshold) {
    this.threshold = threshold;
    this.beyond.hidden = threshold <= 0 || threshold >= 1;
    this.place(u);
  }

  take(u) {
    this.place(u);
    this.onDraw(u);
  }

  place(u) {
    const { refs, field, beyond } = this;
    const text = String(u);
    this.u = u;
    refs.whatIfDraw.value = text;
    if (field.value !== text && Number(field.value || NaN) !== u) field.value = text;
    field.setAttribute("aria-invalid", "false");
    setText(refs.whatIfValue, rounded(u));
    setText(beyond, u < this.threshold ? "Just past the threshold" : "Just below the threshold");
  }

  // A draw on the other side, by one in the last digit that a record keeps: nearer ones may round to
  // the threshold itself.
  get other() {
    const { u, threshold } = this;
    const unit = 10 ** (Math.floor(Math.log10(threshold)) + 1 - DIGITS);
    const beyond = Number((u < threshold ? threshold + unit : threshold - unit).toPrecision(DIGITS));
    return beyond < 1 ? beyond : threshold;
  }

  typed() {
    const text = this.field.value.trim();
    const u = Number(text);
    const holds = text !== "" && u >= 0 && u < 1;
    this.field.setAttribute("aria-invalid", String(!holds));
    if (holds) this.take(u);
    else this.onRefusal(`u must be from 0 to below 1, got “${text.slice(0, 20)}”`);
  }

  // Without a step of its own the browser would move by a hundredth of the slider.
  nudge(event) {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const u = Number((this.u + by * 0.001).toFixed(DIGITS));
    this.take(Math.max(0, Math.min(Number(this.refs.whatIfDraw.max), u)));
  }
}

// Three decimals, or as many as keep it apart from 0 and 1.
function rounded(u) {
  const text = u.toFixed(3);
  return u > 0 && (Number(text) === 0 || Number(text) === 1) ? String(u) : text;
}
