// The form of the race's settings, with its error messages. The browser checks at once whether
// numbers are within their bounds. The server checks everything else.

import { option, setText } from "../shared/dom.js";
import { FieldErrors } from "../shared/field_errors.js";
import { Menu } from "../shared/menu.js";
import { GrammarField } from "./grammar_field.js";
import { MethodFields } from "./method_fields.js";
import { PairFields } from "../shared/pair_fields.js";
import { counted } from "../shared/number_words.js";
import { controlsOf, putText, textOf } from "../shared/setting_fields.js";
import {
  allSettings,
  brief,
  defaults,
  labelled,
  plainNumbers,
  problemFor,
  settingNamed,
} from "../shared/settings.js";
import { PromptPicker } from "./prompt_picker.js";
import { Slider } from "./slider.js";

export class Form {
  // `heldOut` holds the held-out prompts of each pair of models. `ask(form)` asks the server for a
  // report on the models in the form.
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   * @param {HeldOut} heldOut
   * @param {{ onChange: () => void, ask: (form: object) => Promise<Reply> }} on
   */
  constructor(refs, setup, heldOut, { onChange, ask }) {
    this.refs = refs;
    this.heldOut = heldOut;
    this.setup = setup;
    this.controls = controlsOf(refs.form);
    this.onChange = () => (this.refresh(), onChange());
    this.methodPart = new MethodFields(refs, setup);
    this.pairPart = new PairFields(refs, setup, {
      ask: () => ask(this.order),
      onOffer: (refusals) => this.methodPart.offer(refusals),
      onReport: () => this.onChange(),
    });
    this.errors = new FieldErrors(refs.form, {}, () => this.checked);
    this.fillMenus();
    const dragged = allSettings().filter(({ slider }) => slider);
    refs.more.addEventListener("toggle", () => this.showMore());
    this.sliders = dragged.map(
      ({ name, slider }) =>
        new Slider(
          this.controls[name],
          /** @type {{ low: number, high: number, step: number }} */ (slider),
        ),
    );
    // The draft length that was last suggested for the chosen method and pair. Null if a link or a
    // preset has just set the field.
    /** @type {string | null} */
    this.suggested = null;
    this.picker = new PromptPicker(refs, setup.tasks, heldOut.of(this.pair), () => this.onChange());
    this.grammarPart = new GrammarField(refs, setup.grammars, (prompt) => {
      this.picker.showText(this.picker.task, prompt);
      this.onChange();
    });
    this.fields = defaults();
    refs.method.addEventListener("change", () => {
      this.onChange();
      this.methodPart.reveal();
    });
    refs.otherPair.addEventListener("click", () => this.usePair(refs.otherPair.value));
    refs.form.addEventListener("input", (/** @type {any} */ event) => {
      if (event.target !== refs.prompt) this.onChange();
    });
  }

  fillMenus() {
    const { devices, dtypes } = this.setup;
    new Menu(this.refs.deviceChoice).fill(devices);
    new Menu(this.refs.dtype).fill(dtypes);
    this.refs.deviceChoice.closest(".field").hidden = devices.length < 2;
    this.refs.dtype.closest(".field").hidden = dtypes.length < 2;
    this.refs.raceServers.hidden = this.setup.servers === null;
    this.refs.raceAllowed.append(
      ...(this.setup.servers ?? []).map((address) => option(address, "")),
    );
  }

  // The serving engines that take part in the race. They are not settings, so they are saved
  // neither in a link nor with a race.
  get servers() {
    const { raceServer, racePlainServer, raceKey } = this.refs;
    return {
      server: raceServer.value.trim(),
      plain_server: racePlainServer.value.trim(),
      key: raceKey.value.trim(),
    };
  }

  get serverCount() {
    const { server, plain_server: plain } = this.servers;
    return [server, plain].filter(Boolean).length;
  }

  // The number of serving engines in words, such as "2 servers".
  get serverWords() {
    return this.serverCount ? [counted(this.serverCount, "server")] : [];
  }

  get method() {
    return this.methodPart.method;
  }

  /** @returns {PairOffer | undefined} */
  get pair() {
    return this.pairPart.pair;
  }

  // The fields that the browser itself can check.
  get checked() {
    const isShown = (/** @type {string} */ name) => !this.controls[name]?.closest(".field[hidden]");
    const bounded = allSettings().filter(({ bounds, name }) => bounds && isShown(name));
    const own = bounded.map((setting) => ({
      name: setting.name,
      control: this.controls[setting.name],
      problem: (/** @type {string} */ text) => problemFor(setting, this.pair, text),
    }));
    return [...own, ...this.methodPart.checked];
  }

  // The reason why the chosen method cannot run on the chosen models, or "" if it can.
  get refusal() {
    return this.methodPart.refusal;
  }

  // Return whether the server would certainly refuse the form. If so, move the focus to the first
  // wrong field.
  refuses() {
    if (this.refusal) return (this.refs.method.focus(), true);
    return this.errors.refuses();
  }

  // Choose another pair of models without changing the method.
  /** @param {string} name */
  usePair(name) {
    this.refs.pair.value = name;
    this.refs.method.focus();
    this.onChange();
  }

  // All settings as text, keyed by the server's names. The prompt, the task and the method's own
  // options are not included.
  get fields() {
    return Object.fromEntries(
      Object.entries(this.controls).map(([name, control]) => [name, textOf(control)]),
    );
  }

  // The method is set first, because the available rules and options depend on it.
  set fields({ method, ...values }) {
    if (method !== undefined) this.refs.method.value = method;
    this.methodPart.methodChanged();
    for (const [name, value] of Object.entries(values)) {
      if (name in this.controls) putText(this.controls[name], String(value));
    }
    for (const slider of this.sliders) slider.follow();
    this.suggested = null;
    this.refresh();
  }

  // The request for the server, without settings that do not apply.
  /** @returns {Record<string, any>} */
  get order() {
    const {
      target,
      draft,
      branching: _branching,
      drawing: _drawing,
      rule: _rule,
      length_policy: _length,
      entropy_threshold: _entropy,
      system,
      ...order
    } = this.fields;
    if (!order.raw) order.system = system;
    if (this.pairPart.isCustom) Object.assign(order, { target, draft });
    Object.assign(order, this.methodPart.order);
    return { ...order, prompt: this.picker.text, task: this.picker.task || null };
  }

  // The form's settings in a few words.
  get words() {
    const { draft_length, temperature, max_new_tokens, seed } = this.fields;
    const task =
      this.setup.tasks.find((each) => each.name === this.picker.task)?.title ?? "free text";
    const place = this.picker.isHeldOut ? ` ${this.picker.place + 1}` : "";
    const text = this.picker.text.trim();
    const prompt = text ? ` “${brief(text)}”` : "";
    const shape = [this.method?.title ?? "", `K ${draft_length}`, ...this.methodPart.words];
    return [
      `${task}${place}${prompt}`,
      ...this.framing,
      ...shape,
      ...this.grammarPart.words,
      `temperature ${temperature}`,
      `${max_new_tokens} tokens`,
      `seed ${seed}`,
    ].join(", ");
  }

  // If the form itself scrolls, scroll it so that the opened part begins at the form's top. Otherwise
  // the part would begin behind the buttons, which stay at the bottom.
  showMore() {
    const { form, more } = this.refs;
    if (!more.open || form.scrollHeight <= form.clientHeight) return;
    form.scrollTop += more.getBoundingClientRect().top - form.getBoundingClientRect().top;
  }

  // The text on the folded part of the form: the models, and each setting that is not at its
  // default.
  get foldedWords() {
    const { draft_length, max_new_tokens } = this.fields;
    const unusual = plainNumbers().filter(
      ({ name, slider, default: usual }) => !slider && this.fields[name] !== usual,
    );
    const others = unusual.map(({ name, word }) => `${word} ${this.fields[name]}`);
    return [
      this.pair?.title ?? "",
      `K ${draft_length}`,
      `${max_new_tokens} tokens`,
      ...this.methodPart.words,
      ...this.grammarPart.words,
      ...this.framing,
      ...others,
      ...this.serverWords,
    ].join(" · ");
  }

  // The words "raw prompt" or "system prompt" if the prompt is not framed in the usual way.
  get framing() {
    const { raw, system } = this.fields;
    return raw ? ["raw prompt"] : system.trim() ? ["system prompt"] : [];
  }

  // Put the draft length to start with into its field if the method or the pair has changed and the
  // user has not changed the length.
  suggestLength() {
    const { draft_length: field } = this.controls;
    const length = this.pair?.draft_lengths[this.method?.name ?? ""];
    if (length === undefined) return;
    const text = String(length);
    if (this.suggested !== null && textOf(field) === this.suggested) {
      putText(field, text);
      for (const slider of this.sliders) slider.follow();
    }
    this.suggested = text;
  }

  refresh() {
    this.methodPart.methodChanged();
    this.pairPart.refresh();
    this.suggestLength();
    this.grammarPart.refresh();
    this.picker.use(this.heldOut.of(this.pair));
    this.methodPart.refresh(Number(this.controls.temperature.value) === 0);
    setText(this.refs.foldedSettings, this.foldedWords);
    this.refs.system.disabled = this.refs.raw.checked; // a raw prompt is sent without a system prompt
  }

  // Show an error message next to the first setting that it names, or above the button if it names
  // none.
  /** @param {string} text */
  showError(text) {
    this.clearErrors();
    const own = this.errors.lineOf(settingNamed(text));
    const line = own && !own.closest("[hidden]:not(.error)") ? own : this.refs.runError;
    const control = line
      .closest(".field")
      ?.querySelector("textarea, select, input[type=text], input[type=password]");
    this.errors.show(line, labelled(text, this.method?.options), control);
    this.errors.lead(line, control);
  }

  // Remove the server's error messages. Errors that the browser finds itself stay.
  clearErrors() {
    this.errors.recheck([this.refs.methodRefusal]);
  }
}
