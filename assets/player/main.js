// Mounts the app in the element that Gradio made for it, after loading all files.

import { App } from "./app.js";
import { PAGES } from "./pages.js";
import { loadPlotly } from "./shared/charts.js";
import { takeCommas } from "./shared/decimal_comma.js";
import { takeOutcomes } from "./shared/outcomes.js";
import { HeldOut } from "./shared/held_out.js";
import { endLeftTimer } from "./shared/left_timer.js";
import { makeFields, makeModelFields } from "./shared/setting_fields.js";
import { takeSettings } from "./shared/settings.js";
import { takeEndings } from "./shared/token_label.js";

const HOME = new URL("../", import.meta.url);

/**
 * @param {string} path
 * @param {"json" | "text"} read
 */
async function fetched(path, read) {
  const reply = await fetch(new URL(path, HOME));
  if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
  return reply[read]();
}

/**
 * @param {HTMLElement} host
 * @param {GradioLink} gradio
 */
export async function mount(host, gradio) {
  endLeftTimer();
  const root = /** @type {HTMLElement} */ (host.querySelector("[data-specviz]"));
  const files = [
    "player/page.html",
    "player/room/room.html",
    ...PAGES.filter(({ isView }) => !isView).map(({ id }) => `player/${id}/${id}.html`),
  ];
  const [setup, prompts, ...markup] = await Promise.all([
    fetched("setup.json", "json"),
    fetched("prompts.json", "json"),
    ...files.map((file) => fetched(file, "text")),
  ]);
  root.innerHTML = markup.join("\n"); // only our own files, which contain no text of a model or a user
  takeCommas(root);
  takeOutcomes(setup.outcomes);
  takeEndings(setup.endings);
  takeSettings(setup.settings);
  makeModelFields(root);
  makeFields(root);
  window.specviz = new App(root, setup, new HeldOut(prompts), gradio).pages; // used in the browser's console and by tests
  root.dataset.ready = "yes";
  root.dataset.charts = (await loadPlotly(new URL("plotly.min.js", HOME))) ? "drawn" : "missing";
}
