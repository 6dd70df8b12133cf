// The form of a deployment plan. Its fields are the rows of the server's table.

import { html, submitTo, valueTo } from "../shared/view.js";
import { isFirst, MODELS, OWN, problemOf, sizedOf } from "./plan_state.js";

/** @typedef {import("./plan_state.js").PlanState} PlanState */

const LONGEST_CONFIG = 100000;
const EXAMPLE_CONFIG = 'owner/model\nor {"num_hidden_layers": 32, …}';

/**
 * @typedef {object} PlanFormEvents
 * @property {(name: string, value: string) => void} typed
 * @property {(model: string, text: string) => void} named
 * @property {(isOpen: boolean) => void} unfolded
 */

/**
 * @param {PlanState} state
 * @param {PlanField[]} rows
 * @param {PlanFormEvents} on
 */
export function planForm(state, rows, on) {
  const { linkProblems, isMoreOpen } = state;
  const problem = problemOf(state, rows);
  const field = (/** @type {PlanField} */ row) =>
    planField(row, state, row.name === problem.name ? problem.sentence : "", on);
  return html`
    <form class="card form serve-plan" novalidate autocomplete="off" aria-labelledby="sv-plan"
      onSubmit=${submitTo()}>
      <h2 id="sv-plan">What you plan</h2>
      <div class="notice" role="status" hidden=${!linkProblems.length}>
        The link could not be read in full. The defaults replace what was wrong:
        <ul>
          ${linkProblems.map((each) => html`<li>${each}.</li>`)}
        </ul>
      </div>
      <div class="serve-fields">${rows.filter(isFirst).map(field)}</div>
      <details open=${isMoreOpen}
        onToggle=${(/** @type {any} */ { currentTarget }) => on.unfolded(currentTarget.open)}>
        <summary>Formats, lengths, limits, price</summary>
        <div class="serve-fields">${rows.filter((row) => !isFirst(row)).map(field)}</div>
      </details>
    </form>
  `;
}

/**
 * @param {PlanField} row
 * @param {PlanState} state
 * @param {string} error
 * @param {PlanFormEvents} on
 */
function planField({ name, title, unit, meaning, choices, is_whole: isWhole }, state, error, on) {
  const id = `sv-serve-${name}`;
  const about = {
    id,
    value: state.values[name],
    "aria-describedby": `${id}-error`,
    "aria-invalid": error ? "true" : null,
    onInput: valueTo((value) => on.typed(name, value)),
  };
  const control = choices.length
    ? html`<select ...${about}>
        ${choices.map((each) => html`<option value=${each.name}>${each.title}</option>`)}
      </select>`
    : html`<input
        ...${about}
        type="text"
        inputmode=${isWhole ? "numeric" : "decimal"}
        placeholder=${name === "acceptance" ? estimate(state) : null}
      />`;
  return html`
    <div class=${choices.length ? "field is-wide" : "field"}>
      <label for=${id}>
        <button type="button" class="term" data-term=${name} data-title=${title} data-meaning=${meaning}>
          ${title}
        </button>
        ${unit && html` <span class="hint">${unit}</span>`}
      </label>
      ${control}
      <p class="error" id="${id}-error" hidden=${!error}>${error}</p>
      ${
        MODELS.includes(name) &&
        html`<textarea rows="5" spellcheck=${false} maxlength=${LONGEST_CONFIG}
          placeholder=${EXAMPLE_CONFIG} hidden=${state.values[name] !== OWN}
          aria-label="Hub name or config.json of the ${title}" aria-describedby="${id}-error"
          value=${state.configs[name]}
          onInput=${valueTo((value) => on.named(name, value))}></textarea>`
      }
    </div>
  `;
}

// Return the server's estimate of the acceptance rate, which an empty field shows.
/** @param {PlanState} state */
function estimate(state) {
  const sized = sizedOf(state);
  return sized && String(sized.size.acceptance);
}
