// The laws at a stop as far as a moment knows them: q when it is drafted, p when the target has seen
// it, the draw when it is judged. Works on the finished figure (specviz/figures/bars.py).

const KNOWN = { drafted: ["draft"], verified: ["target", "draft"] };

export function barsAt({ data, layout }, stage) {
  if (stage === "judged") return { data, layout };
  const { yaxis } = layout;
  const ticktext = [...yaxis.ticktext.slice(0, -1), ""]; // the last row is the draw's
  return {
    data: data.filter((trace) => KNOWN[stage].includes(trace.meta.role)),
    layout: { ...layout, yaxis: { ...yaxis, ticktext } },
  };
}
