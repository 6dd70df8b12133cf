// The distributions at a stop as far as a moment knows them: q when it is drafted, p when the target has
// seen it, the draw when it is judged. What q was before p was known stands in the figure's layout.meta
// (specviz/figures/bars.py).

import { probability } from "../shared/probability.js";

const PIN_FLIPS = 0.8; // from there on the pin's label stands on its left, as in specviz/figures/coin.py

// The figure at this stage; null where nothing of it is known yet.
export function barsAt(figure, stage) {
  if (stage === "judged") return figure;
  return stage === "drafted" ? draftAlone(figure) : distributionsAlone(figure);
}

// With another draw than the recorded one.
export function withDraw({ data, layout }, u) {
  const moved = (trace) => ({
    ...trace,
    x: trace.x.map(() => u),
    text: trace.text.map((text) => (text ? ` u = ${probability(u)} ` : "")),
    textposition: u > PIN_FLIPS ? "middle left" : "middle right",
  });
  return { data: data.map((trace) => (trace.meta.role === "ink" ? moved(trace) : trace)), layout };
}

function distributionsAlone({ data, layout }) {
  const { yaxis } = layout;
  const ticktext = [...yaxis.ticktext.slice(0, -1), ""]; // the last row is the draw's
  const both = data.filter(({ meta }) => meta.role === "target" || meta.role === "draft");
  return { data: both, layout: { ...layout, yaxis: { ...yaxis, ticktext } } };
}

// Only what the draft itself names, by falling q: no row may tell where p will be large.
function draftAlone({ data, layout }) {
  const draft = data.find(({ meta }) => meta.role === "draft");
  const { own } = layout.meta;
  if (!own.q.length) return null;
  const rest = Math.max(0, 1 - own.q.reduce((sum, each) => sum + each, 0));
  const rows = [...own.q.keys(), own.q.length];
  const bars = {
    ...draft,
    x: [...own.q, rest],
    y: rows,
    width: rows.map(() => draft.width[0]),
    text: [...own.text, restWords(rest)],
    customdata: [...own.node, null],
  };
  const yaxis = { ...layout.yaxis, tickvals: rows, ticktext: [...own.name, "other"] };
  return { data: [bars], layout: { ...layout, yaxis } };
}

const LEAST_SUM = 1e-5; // what the six digits of a recorded distribution can lose

function restWords(rest) {
  if (rest < LEAST_SUM) return "0";
  return rest < 0.005 ? "<0.01" : rest.toFixed(2);
}
