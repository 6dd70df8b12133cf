// The distributions at a stop as far as a moment knows them: q when it is drafted, p when the target has
// seen it, the draw when it is judged. The figure is that of a judged stop (specviz/figures/bars.py), whose
// traces are named by their roles; what shows before p is known stands in its `meta.drafted`.

import { probability } from "../shared/probability.js";

const PIN_FLIPS = 0.8; // from there on the pin's label stands on its left, as in specviz/figures/coin.py

// The figure at this stage; null where nothing of it is known yet.
export function barsAt(figure, stage) {
  if (stage === "judged") return figure;
  return stage === "drafted" ? draftAlone(figure) : distributionsAlone(figure);
}

// With another draw than the recorded one.
export function withDraw({ data, layout }, u) {
  const pin = { x: [u, u], text: ["", ` u = ${probability(u)} `], textposition: u > PIN_FLIPS ? "middle left" : "middle right" };
  return { data: data.map((trace) => (trace.meta.role === "ink" ? { ...trace, ...pin } : trace)), layout };
}

function distributionsAlone({ data, layout }) {
  const { yaxis } = layout;
  const ticktext = [...yaxis.ticktext.slice(0, -1), ""]; // the last row is the draw's
  const both = data.filter(({ meta }) => meta.role === "target" || meta.role === "draft");
  return { data: both, layout: { ...layout, yaxis: { ...yaxis, ticktext } } };
}

function draftAlone({ data, layout }) {
  const { bars, axis } = layout.meta.drafted;
  if (!bars) return null;
  const draft = data.find(({ meta }) => meta.role === "draft");
  return { data: [{ ...draft, ...bars }], layout: { ...layout, yaxis: { ...layout.yaxis, ...axis } } };
}
