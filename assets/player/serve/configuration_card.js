// The card that writes the configuration of a serving engine for a deployment. The user fills in a
// form, or lets the plan on this page fill it, or pastes old flags.

import { element, option, setText } from "../shared/dom.js";
import { markWrong } from "../shared/field_errors.js";
import { EngineForms } from "./engine_forms.js";

const REST_MILLISECONDS = 300; // pause after the last key before the server is asked
const NONE = "none";
// fields about GPUs and weight formats, which are hidden if the engine has no option for them
const OF_MODELS = ["draft_device", "draft_tensor_parallel", "quantization", "draft_quantization"];
const WEIGHTS = "sv-engine-weights"; // id of the list of weight formats

export class ConfigurationCard {
  /**
   * @param {Refs} refs
   * @param {EnginesOffer} offer
   * @param {(name: string, question: object) => Promise<any>} ask
   */
  constructor(refs, offer, ask) {
    this.refs = refs;
    this.offer = offer;
    this.ask = ask;
    this.asked = 0; // number of the last request; earlier answers are ignored
    this.wanted = NONE; // the method that the user chose, even if the engine does not have it
    /** @type {Record<string, string> | null} */
    this.planned = null;
    /** @type {Record<string, HTMLInputElement>} */
    this.controls = {};
    /** @type {Record<string, HTMLLabelElement>} */
    this.labels = {};
    this.weights = element("datalist");
    this.weights.id = WEIGHTS;
    refs.engineFields.append(this.weights);
    for (const field of offer.fields) refs.engineFields.append(this.made(field));
    refs.engine.append(...offer.engines.map(({ name, title }) => option(name, title)));
    refs.pastedTo.append(
      option("", "its own engine"),
      ...offer.engines.map(({ name, title }) => option(name, title)),
    );
    this.forms = new EngineForms(refs.engineForms, offer.forms);
    this.pastedForms = new EngineForms(refs.pastedForms, offer.forms);
    refs.engineForm.addEventListener("submit", (/** @type {Event} */ event) =>
      event.preventDefault(),
    );
    refs.engineMethod.addEventListener("input", () => (this.wanted = refs.engineMethod.value));
    refs.engineForm.addEventListener("input", () => this.changed());
    refs.takePlan.addEventListener("click", () => this.takePlan());
    refs.pastedForm.addEventListener(
      "submit",
      (/** @type {Event} */ event) => (event.preventDefault(), this.translate()),
    );
    this.showMethods();
  }

  /** @param {{ name: string, title: string, example: string }} field */
  made({ name, title, example }) {
    const field = element("div", "field");
    field.dataset.field = name;
    const label = element("label", "", title);
    const control = element("input");
    Object.assign(control, {
      id: `sv-engine-${name}`,
      type: "text",
      spellcheck: false,
      placeholder: example,
    });
    label.htmlFor = control.id;
    control.setAttribute("aria-describedby", "sv-engine-error");
    if (name.endsWith("quantization")) control.setAttribute("list", WEIGHTS);
    this.controls[name] = control;
    this.labels[name] = label;
    field.append(label, control);
    return field;
  }

  get engine() {
    return /** @type {EnginesOffer["engines"][number]} */ (
      this.offer.engines.find(({ name }) => name === this.refs.engine.value)
    );
  }

  // Offer the engine's methods. If it does not have the chosen one, choose plain decoding.
  showMethods() {
    const { engineMethod } = this.refs;
    engineMethod.replaceChildren(
      ...this.engine.methods.map(({ name, title }) => option(name, title)),
    );
    engineMethod.value = this.isLacking ? NONE : this.wanted;
    this.showFields();
  }

  // Return whether the engine does not have the chosen method.
  get isLacking() {
    return !this.engine.methods.some(({ name }) => name === this.wanted);
  }

  get lackingWords() {
    const titles = this.offer.engines.flatMap(({ methods }) => methods);
    const { title } = /** @type {{ title: string }} */ (
      titles.find(({ name }) => name === this.wanted)
    );
    return `${this.engine.title} cannot draft with ${title}: this is plain decoding.`;
  }

  // Show only the fields that the chosen method uses. An empty field about GPUs or weights is also
  // hidden if the engine has no option for it.
  showFields() {
    const { engine, offer } = this;
    const method = this.refs.engineMethod.value;
    for (const [name, control] of Object.entries(this.controls)) {
      const isOff = offer.of_draft.includes(name)
        ? !(method in offer.drafts)
        : offer.of_method[name]
          ? offer.of_method[name] !== method
          : ["draft_tokens", "schedule"].includes(name) && method === NONE;
      const isLacking = OF_MODELS.includes(name) && engine.lacks.includes(name) && !control.value;
      /** @type {HTMLElement} */ (control.parentElement).hidden = isOff || isLacking;
    }
    setText(this.labels.draft, offer.drafts[method] ?? "");
    this.weights.replaceChildren(...engine.weights.map((name) => option(name, name)));
  }

  // Return the current title of a field, which may depend on the method.
  /** @param {{ name: string, title: string }} field */
  titleOf({ name, title }) {
    return this.labels[name].textContent || title;
  }

  changed() {
    this.showMethods();
    window.clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => this.configure(), REST_MILLISECONDS);
  }

  // Take the configuration of a plan, or null if no configuration fits.
  /** @param {Record<string, string> | null} planned */
  setPlan(planned) {
    this.planned = planned;
    this.refs.takePlan.disabled = !planned;
    this.refs.planTaken.hidden = !planned;
    this.refs.planUnfit.hidden = Boolean(planned);
  }

  takePlan() {
    if (!this.planned) return;
    for (const [name, control] of Object.entries(this.controls))
      control.value = this.planned[name] ?? "";
    this.wanted = this.planned.method;
    this.showMethods();
    this.configure();
  }

  async configure() {
    const number = (this.asked += 1);
    const { engineError, engine, engineMethod } = this.refs;
    const shown = Object.entries(this.controls).filter(
      ([, control]) => !control.parentElement?.hidden,
    );
    const fields = Object.fromEntries([
      ...shown.map(([name, { value }]) => [name, value]),
      ["method", engineMethod.value],
    ]);
    const reply = await this.ask("configuration", { engine: engine.value, fields });
    if (number !== this.asked) return;
    const problem = problemOf(reply);
    const wrong = this.offer.fields.find(
      ({ name }) => problem.split(" ", 1)[0].replaceAll("-", "_") === name,
    );
    for (const [name, control] of Object.entries(this.controls))
      markWrong(control, name === wrong?.name);
    engineError.hidden = !problem;
    setText(engineError, wrong ? problem.replace(/^\S+/, this.titleOf(wrong)) : problem);
    this.forms.show(
      problem ? {} : reply.forms,
      problem ? [] : [...(this.isLacking ? [this.lackingWords] : []), ...reply.remarks],
    );
  }

  async translate() {
    const { pasted, pastedTo, pastedError, pastedChanges, pastedStart } = this.refs;
    pastedStart.disabled = true;
    const { length } = pasted.value;
    const { longest } = this.offer;
    const reply =
      length > longest
        ? { error: `the text must have at most ${longest} characters, got ${length}` }
        : await this.ask("translation", { text: pasted.value, to: pastedTo.value });
    pastedStart.disabled = false;
    const problem = problemOf(reply);
    pastedError.hidden = !problem;
    setText(pastedError, problem);
    pastedChanges.hidden = Boolean(problem) || !reply.changes.length;
    this.pastedForms.show(
      problem ? {} : reply.forms,
      problem ? [] : [...reply.problems, ...reply.notes],
      problem || reply.problems.length ? "problem" : "warning",
    );
    if (!problem) pastedChanges.replaceChildren(...reply.changes.map(changeLine));
  }
}

/** @param {any} reply */
function problemOf(reply) {
  return reply ? (reply.error ?? "") : "The server cannot be reached.";
}

/** @param {{ typed: string, value: string, fate: string, now: string, why: string }} change */
function changeLine({ typed, value, fate, now, why }) {
  const line = element("li");
  line.append(element("code", "", value ? `${typed} ${value}` : typed), ` ${fate}`);
  if (now) line.append(" → ", element("code", "", now));
  if (why) line.append(`: ${why}`);
  return line;
}
