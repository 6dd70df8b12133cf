// The card of the losslessness test. The next two tokens of a text are drawn thousands of times by
// a method, and their frequencies are compared with the target's own distribution.

import { CURVE } from "../shared/came_out.js";
import { withoutThousands } from "../shared/decimal_comma.js";
import { drawing, element, setText } from "../shared/dom.js";
import {
  barsKey,
  curveKey,
  drawDistance,
  drawnRows,
  findingClass,
  verdictWords,
} from "../shared/drawn_counts.js";
import { FieldErrors } from "../shared/field_errors.js";
import { Menu } from "../shared/menu.js";
import { numberProblem, problemOf, settingOf } from "../shared/settings.js";
import { tokenLabel } from "../shared/token_label.js";
import { LabRun } from "./lab_run.js";

const MANY = "4000"; // default number of draws for the quick method, which evaluates the models once for all draws
const FEW = "300"; // default number of draws for any other method, which decodes again for every draw
// the server requires a number of new tokens, although the test does not use it
const NO_TOKENS = { max_new_tokens: "1" };

export class ExactCard {
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   * @param {GradioLink} gradio
   * @param {HeldOut} heldOut
   * @param {{ setting: () => SettingForm }} on
   */
  constructor(refs, { methods, lab }, gradio, heldOut, { setting }) {
    this.refs = refs;
    this.setting = setting;
    this.heldOut = heldOut;
    this.methods = methods;
    this.bounds = lab.bounds.draws;
    // The name of the quick method. The server evaluates the models once and then makes all draws
    // from these distributions. Only with this method can the user choose how the draft draws.
    this.quick = lab.zoo.form.method;
    this.menu = new Menu(refs.exactMethod);
    const fields = {
      method: refs.exactMethod,
      draft_length: refs.exactLength,
      draft: refs.exactDraft,
      draws: refs.exactDraws,
      prompt: refs.exactText,
    };
    this.errors = new FieldErrors(refs.exactError.closest("section"), fields, () => [
      {
        name: "draft_length",
        control: refs.exactLength,
        problem: (text) => problemOf(settingOf("draft_length"), text),
      },
      {
        name: "draws",
        title: "Draws",
        control: refs.exactDraws,
        problem: (text) => this.drawsProblem(text),
      },
    ]);
    this.run = new LabRun(
      { go: refs.exactGo, stop: refs.exactStop, state: refs.exactState },
      gradio,
      {
        begun: () => this.begun(),
        message: (message) => this.take(message),
        failed: (text) => this.failed(text),
      },
    );
    /** @type {any[]} the counts after each part of this series */
    this.history = [];
    this.goal = 0;
    this.isGreedy = false;
    this.build();
    this.offer({});
    refs.exactMethod.value = this.quick;
    refs.exactLength.value = settingOf("draft_length").default;
    refs.exactDraws.value = MANY;
    refs.exactGo.addEventListener("click", () => this.start());
    refs.exactMethod.addEventListener("change", () => this.chosen());
    for (const field of [refs.exactLength, refs.exactDraws])
      field.addEventListener(
        "keydown",
        (/** @type {any} */ event) => event.key === "Enter" && this.start(),
      );
    this.drawForm();
  }

  build() {
    this.cells = [0, 1].map(() => ({ title: element("h3"), bins: element("ol", "redraw-bins") }));
    this.curve = /** @type {SVGElement} */ (drawing(CURVE));
    const side = element("div", "redraw-side");
    side.append(this.curve, curveKey());
    this.verdict = element("p", "guess-verdict");
    this.verdict.setAttribute("role", "status");
    const columns = element("div", "exact-cells");
    columns.append(
      ...this.cells.map(({ title, bins }) => {
        const column = element("div");
        column.append(title, bins);
        return column;
      }),
    );
    const redraw = element("div", "redraw");
    redraw.append(barsKey(), columns, side, this.verdict);
    this.refs.exactResult.replaceChildren(redraw);
  }

  // Offer the methods for the chosen models. `refusals` maps each method that they cannot run to
  // the reason.
  /** @param {Record<string, string>} refusals */
  offer(refusals) {
    this.menu.fill(
      this.methods.map(({ name, title, summary, group }) => ({
        name,
        title,
        group,
        note: summary,
        refusal: refusals[name],
      })),
    );
  }

  get isQuick() {
    return this.refs.exactMethod.value === this.quick;
  }

  // Return whether the lab's settings have temperature 0.
  get isCold() {
    return Number(this.setting().controls.temperature.value || "0") === 0;
  }

  // Set the number of draws to the default of the chosen method, unless the user has typed a
  // number.
  chosen() {
    const { exactDraws } = this.refs;
    if ([MANY, FEW].includes(exactDraws.value)) exactDraws.value = this.isQuick ? MANY : FEW;
    this.drawForm();
  }

  drawForm() {
    const { exactDraftField, exactHow } = this.refs;
    exactDraftField.hidden = !this.isQuick;
    if (this.isCold)
      return setText(
        exactHow,
        "At temperature 0 one token is certain, so there is nothing to count. Set a temperature above 0 to see distributions.",
      );
    setText(
      exactHow,
      this.isQuick
        ? "The two models run once. Guesses, verdicts and replacements are drawn again each time."
        : "This method decodes again for every draw, so it takes a while. More draws show smaller differences.",
    );
  }

  /** @param {string} text */
  drawsProblem(text) {
    return numberProblem(this.bounds, withoutThousands(text));
  }

  start() {
    const { refs } = this;
    this.setting().clearErrors();
    if (this.errors.refuses() || this.setting().refuses()) return;
    /** @type {Record<string, string>} */
    const form = {
      ...this.setting().form,
      ...NO_TOKENS,
      method: refs.exactMethod.value,
      draft_length: refs.exactLength.value,
      prompt: this.text,
    };
    this.goal = Number(withoutThousands(refs.exactDraws.value));
    this.isGreedy = this.isCold;
    this.run.start("losslessness", {
      form,
      rule: "right",
      draft: this.isQuick ? refs.exactDraft.value : "",
      draws: this.goal,
    });
  }

  // The typed text, or the first prompt of the chosen task.
  get text() {
    const { pairs, controls } = this.setting();
    const own = this.refs.exactText.value;
    const prompts = this.heldOut.of(pairs.pair);
    return own.trim()
      ? own
      : String((prompts[controls.task.value] ?? Object.values(prompts)[0])[0]);
  }

  begun() {
    this.history = [];
    this.refs.exactLesson.hidden = true;
    this.refs.exactBar.hidden = false;
    this.draw(false);
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "counts") {
      this.history.push(message);
      this.run.showState(
        `${message.draws.toLocaleString("en")} of ${this.goal.toLocaleString("en")} draws`,
      );
      this.draw(false);
    }
    if (message.kind !== "end") return;
    this.refs.exactBar.hidden = true;
    const words =
      message.reason === "done"
        ? ""
        : this.history.length
          ? "stopped: the chart shows what was drawn until then"
          : "stopped before anything was drawn";
    this.run.showState(words);
    this.draw(true);
  }

  /** @param {string} text */
  failed(text) {
    this.refs.exactBar.hidden = true;
    if (!this.setting().show(text)) this.errors.report(text);
  }

  /** @param {boolean} isDone */
  draw(isDone) {
    const { refs, history, goal } = this;
    const last = history.at(-1);
    refs.exactResult.hidden = !last;
    refs.exactBar.value = last ? last.draws / goal : 0;
    if (!last) return;
    const titles = [
      "The next token",
      `The one after it, if the first is ${tokenLabel(last.usual)}`,
    ];
    this.cells?.forEach(({ title, bins }, at) => {
      setText(title, titles[at]);
      bins.setAttribute("aria-label", titles[at]);
      bins.replaceChildren(...drawnRows(last.cells[at]));
    });
    if (this.curve) drawDistance(this.curve, history, goal);
    if (!this.verdict) return;
    this.verdict.className = `guess-verdict${isDone ? findingClass(last) : ""}`;
    setText(this.verdict, verdictWords(last, isDone, this.isGreedy));
  }
}
