// Mounts the app into the element that Gradio made.
// Knows where its files lie.

import { App } from "./app.js";
import { loadPlotly } from "./shared/charts.js";
import { takeOutcomes } from "./shared/outcomes.js";

const HOME = new URL("../", import.meta.url);

async function fetched(path, read) {
  const reply = await fetch(new URL(path, HOME));
  if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
  return reply[read]();
}

export async function mount(host, gradio) {
  const root = host.querySelector("[data-specviz]");
  const [markup, step, lab, setup, prompts] = await Promise.all([
    fetched("player/page.html", "text"),
    fetched("player/step/step.html", "text"),
    fetched("player/lab/lab.html", "text"),
    fetched("setup.json", "json"),
    fetched("prompts.json", "json"),
    loadPlotly(new URL("plotly.min.js", HOME)),
  ]);
  root.innerHTML = markup + step + lab; // our own files; no text of a model or a person is in them
  takeOutcomes(setup.outcomes);
  window.specviz = new App(root, setup, prompts, gradio);
  root.dataset.ready = "yes";
}
