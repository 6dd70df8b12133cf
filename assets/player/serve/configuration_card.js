// The card that writes the configuration of a serving engine for a deployment. The user fills in a
// form, or lets the plan on this page fill it, or pastes old flags.

import { html, submitTo, valueTo } from "../shared/view.js";
import {
  configurationProblem,
  engineOf,
  hasField,
  methodOf,
  titleOf,
} from "./configuration_state.js";
import { formsView } from "./engine_forms.js";

/** @typedef {import("./configuration_state.js").ConfigurationState} ConfigurationState */

const WEIGHTS = "sv-engine-weights"; // id of the list of weight formats
const PLAN_TAKEN =
  "models, cards, the best K of each batch, and as many requests at once as keep both your limits (of a batch job, as are done soonest); the longest request is its averages, prompt + answer + K: raise it to the longest that you expect";
const EXAMPLE = "vllm serve org/model --speculative-model [ngram] --num-speculative-tokens 5";

/**
 * @typedef {object} ConfigurationEvents
 * @property {(change: { engine: string } | { wanted: string }) => void} chose
 * @property {(name: string, value: string) => void} entered
 * @property {() => void} takePlan
 * @property {(change: { pasted: string } | { pastedTo: string }) => void} pasted
 * @property {() => void} translate
 * @property {import("./engine_forms.js").FormsEvents} forms
 * @property {import("./engine_forms.js").FormsEvents} translationForms
 */

/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 * @param {boolean} hasPlan whether there is a plan that fits
 * @param {ConfigurationEvents} on
 */
export function configurationCard(state, offer, hasPlan, on) {
  const { answer, translation } = state;
  return html`
    <section class="card serve-engine" aria-labelledby="sv-engine-title">
      <h2 id="sv-engine-title">Configuration</h2>
      <p class="hint">A deployment in the words that a serving engine of today reads.</p>
      ${engineForm(state, offer, hasPlan, on)}
      ${formsView(
        answer.kind === "written" ? answer.written : null,
        state.shown,
        offer.forms,
        on.forms,
      )}
      ${pastedForm(state, offer, on)} ${changesView(translation)}
      ${formsView(
        translation.kind === "written" ? translation.written : null,
        state.translationShown,
        offer.forms,
        on.translationForms,
      )}
    </section>
  `;
}

/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 * @param {boolean} hasPlan
 * @param {ConfigurationEvents} on
 */
function engineForm(state, offer, hasPlan, on) {
  const problem = configurationProblem(state, offer);
  const { methods, weights } = engineOf(state, offer);
  return html`
    <form class="serve-engine-form" novalidate autocomplete="off" aria-labelledby="sv-engine-title"
      onSubmit=${submitTo()}>
      <div class="serve-engine-fields">
        <div class="field">
          <label for="sv-engine">Engine</label>
          <select id="sv-engine" value=${state.engine}
            onInput=${valueTo((value) => on.chose({ engine: value }))}>
            ${offer.engines.map(optionView)}
          </select>
        </div>
        <div class="field">
          <label for="sv-engine-method">Method</label>
          <select id="sv-engine-method" aria-describedby="sv-engine-error"
            value=${methodOf(state, offer)}
            onInput=${valueTo((value) => on.chose({ wanted: value }))}>
            ${methods.map(optionView)}
          </select>
        </div>
        <datalist id=${WEIGHTS}>
          ${weights.map((name) => html`<option value=${name}>${name}</option>`)}
        </datalist>
        ${offer.fields.map((field) => engineField(field, state, offer, problem.name, on))}
      </div>
      <p>
        <button type="button" class="secondary" disabled=${!hasPlan} onClick=${on.takePlan}>
          Fill in what you plan
        </button>
        ${" "}<span class="hint">${hasPlan ? PLAN_TAKEN : "once there is a plan that fits"}</span>
      </p>
      <p class="error" id="sv-engine-error" role="alert" hidden=${!problem.sentence}>
        ${problem.sentence}
      </p>
    </form>
  `;
}

/**
 * @param {EnginesOffer["fields"][number]} field
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 * @param {string} wrong
 * @param {ConfigurationEvents} on
 */
function engineField(field, state, offer, wrong, on) {
  const { name, example } = field;
  const id = `sv-engine-${name}`;
  return html`
    <div key=${name} class="field" hidden=${!hasField(state, offer, name)}>
      <label for=${id}>${titleOf(state, offer, field)}</label>
      <input id=${id} type="text" spellcheck=${false} placeholder=${example}
        list=${name.endsWith("quantization") ? WEIGHTS : null} aria-describedby="sv-engine-error"
        aria-invalid=${name === wrong ? "true" : null} value=${state.values[name]}
        onInput=${valueTo((value) => on.entered(name, value))} />
    </div>
  `;
}

/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 * @param {ConfigurationEvents} on
 */
function pastedForm({ pasted, pastedTo, isTranslating, translation }, { engines }, on) {
  const problem = translation.kind === "refused" ? translation.problem : "";
  return html`
    <form class="serve-engine-form" novalidate autocomplete="off" aria-label="Older flags"
      onSubmit=${submitTo(on.translate)}>
      <div class="field">
        <label for="sv-pasted">Older flags, or a snippet of an article</label>
        <textarea id="sv-pasted" rows="4" spellcheck=${false} aria-describedby="sv-pasted-error"
          placeholder=${EXAMPLE} value=${pasted}
          onInput=${valueTo((value) => on.pasted({ pasted: value }))}></textarea>
      </div>
      <div class="serve-engine-fields">
        <div class="field">
          <label for="sv-pasted-to">In the words of</label>
          <select id="sv-pasted-to" value=${pastedTo}
            onInput=${valueTo((value) => on.pasted({ pastedTo: value }))}>
            <option value="">its own engine</option>
            ${engines.map(optionView)}
          </select>
        </div>
        <p class="field">
          <button type="submit" class="secondary" disabled=${isTranslating}>Translate</button>
        </p>
      </div>
      <p class="error" id="sv-pasted-error" role="alert" hidden=${!problem}>${problem}</p>
    </form>
  `;
}

/** @param {ConfigurationState["translation"]} translation */
function changesView(translation) {
  const changes = translation.kind === "written" ? translation.changes : [];
  return html`
    <ul class="engine-changes" aria-label="What became of each flag" hidden=${!changes.length}>
      ${changes.map(changeView)}
    </ul>
  `;
}

/** @param {import("./configuration_state.js").Change} change */
function changeView({ typed, value, fate, now, why }) {
  const flag = html`<code>${value ? `${typed} ${value}` : typed}</code>`;
  return html`<li>${flag} ${fate}${now && html` → <code>${now}</code>`}${why && `: ${why}`}</li>`;
}

/** @param {Choice} choice */
function optionView({ name, title }) {
  return html`<option key=${name} value=${name}>${title}</option>`;
}
