// A round's tree as it stood at one moment: what was not drafted yet is absent, what was not judged
// yet looks like what was never examined. Works on the finished figure (specviz/figures/tree.py),
// whose traces say by `meta` and `customdata` which node each edge, marker and label is of.
// Knows figures as plain dicts; knows no chart.

const ROOT = -1;

// `stage(node)` is "absent", "drafted" or "judged".
export function treeAt({ data, layout }, stage) {
  const stageOf = (node) => (node === ROOT ? "judged" : stage(node));
  const traces = data.map((trace) => ({ ...trace }));
  for (const [index, trace] of data.entries()) {
    if (trace.mode === "lines") split(traces, index, trace, edges(trace), stageOf, sameEdges);
    else if (trace.mode === "markers") split(traces, index, trace, markers(trace), stageOf, sameMarkers);
    else if (trace.meta.nodes) traces[index] = write(trace, labels(trace).filter(({ node }) => stageOf(node) !== "absent"));
  }
  return { data: traces, layout };
}

// Keep in a trace what was judged; move what was only drafted to its unreached twin.
function split(traces, index, trace, items, stageOf, isTwin) {
  const present = items.filter(({ node }) => stageOf(node) === "judged");
  const waiting = items.filter(({ node }) => stageOf(node) === "drafted");
  const own = trace.meta.role === "unreached" ? [...present, ...waiting] : present;
  traces[index] = write(trace, own);
  if (trace.meta.role === "unreached" || !waiting.length) return;
  const twin = traces.findIndex((each) => each.meta.role === "unreached" && isTwin(each, trace));
  traces[twin] = { ...write(traces[twin], [...read(traces[twin]), ...waiting]) };
}

const sameEdges = (twin, trace) => twin.mode === "lines" && twin.line.width === trace.line.width;
const sameMarkers = (twin) => twin.mode === "markers";

function read(trace) {
  return trace.mode === "lines" ? edges(trace) : trace.mode === "markers" ? markers(trace) : labels(trace);
}

function edges({ x, y, meta }) {
  const items = [];
  let start = 0;
  x.forEach((value, end) => {
    if (value !== null) return;
    items.push({ node: meta.nodes[items.length], x: x.slice(start, end + 1), y: y.slice(start, end + 1) });
    start = end + 1;
  });
  return items;
}

function markers({ x, y, customdata, hovertext }) {
  return customdata.map((node, at) => ({ node, x: [x[at]], y: [y[at]], hovertext: hovertext[at] }));
}

function labels({ x, y, text, textposition, meta }) {
  return meta.nodes.map((node, at) => ({
    node, x: [x[at]], y: [y[at]], text: text[at], textposition: textposition[at], room: meta.room?.[at],
  }));
}

function write(trace, items) {
  const made = { ...trace, x: items.flatMap((each) => each.x), y: items.flatMap((each) => each.y) };
  const nodes = items.map((each) => each.node);
  if (trace.mode === "markers") return { ...made, customdata: nodes, hovertext: items.map((each) => each.hovertext) };
  made.meta = { ...trace.meta, nodes };
  if (trace.mode === "lines") return made;
  if (trace.meta.room) made.meta.room = items.map((each) => each.room);
  return { ...made, text: items.map((each) => each.text), textposition: items.map((each) => each.textposition) };
}
