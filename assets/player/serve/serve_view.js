// The view of the page Serve: a plan and its answer, the configuration of an engine, and running
// engines.

import { html } from "../shared/view.js";
import { configurationCard } from "./configuration_card.js";
import { loadCard, moneyCard, payCard, planCharts } from "./plan_answers.js";
import { planForm } from "./plan_form.js";
import { plannedConfiguration, sizedOf } from "./plan_state.js";
import { serverCard } from "./server_card.js";
import { trustView } from "./size_view.js";

/**
 * @typedef {object} ServeState
 * @property {import("./plan_state.js").PlanState} plan
 * @property {import("./configuration_state.js").ConfigurationState} configuration
 * @property {import("./server_state.js").ServerState} server
 */

/**
 * @typedef {object} ServeEvents
 * @property {import("./plan_form.js").PlanFormEvents} plan
 * @property {import("./plan_answers.js").LoadEvents} load
 * @property {import("./configuration_card.js").ConfigurationEvents} configuration
 * @property {import("./server_card.js").ServerEvents} server
 */

/**
 * @param {ServeState} state
 * @param {Setup["serve"]} offer
 * @param {{ theme: Theme, look: string }} look
 * @param {ServeEvents} on
 */
export function serveView({ plan, configuration, server }, offer, look, on) {
  const hasPlan = plannedConfiguration(plan) !== null;
  return html`
    <p class="lead">
      <b>Does it pay on the GPUs that you plan?</b>${" "}
      Choose two models and cards: the answer is computed at once, and nothing is run.
    </p>
    ${planForm(plan, offer.fields, on.plan)}
    <div class="serve-answers">
      ${payCard(plan, offer.fields)} ${planCharts(plan, look)} ${loadCard(plan, look, on.load)}
      ${moneyCard(plan)} ${configurationCard(configuration, offer.engines, hasPlan, on.configuration)}
      ${serverCard(server, offer.watching, look, on.server)}
      ${trustView(offer.trust, sizedOf(plan)?.size.assumed ?? [])}
    </div>
  `;
}
