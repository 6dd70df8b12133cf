// A round's tree as it stood at one moment, or as it would have stood: each node in the role that it has
// then. Works on the finished figure (specviz/figures/tree.py), whose traces say by `meta` and
// `customdata` which node each edge, marker and label is of.

const ROOT = -1;

// `roleOf(node)` is "absent", or the role whose colour and mark the node has at this moment;
// `hoverOf(node, lines)` are those lines of its card that are known by then.
export function treeAt({ data, layout }, roleOf, hoverOf) {
  const role = (node) => (node === ROOT ? "root" : roleOf(node));
  const items = data.map((trace) => (trace.mode === "text" && !trace.meta.nodes ? [] : read(trace, hoverOf)));
  const traces = data.map((trace, index) => {
    if (trace.mode === "text") return trace.meta.nodes ? write(trace, items[index].filter(({ node }) => role(node) !== "absent")) : trace;
    const alike = data.flatMap((other, at) => (isTwin(other, trace) ? items[at] : []));
    return write(trace, alike.filter(({ node }) => role(node) === trace.meta.role));
  });
  return { data: traces, layout };
}

// Traces that differ by role alone: a node may move between them.
function isTwin(a, b) {
  return a.mode === b.mode && a.line?.width === b.line?.width;
}

function read(trace, hoverOf) {
  return trace.mode === "lines" ? edges(trace) : trace.mode === "markers" ? markers(trace, hoverOf) : labels(trace);
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

const BREAK = "<br>"; // between the lines of a node's card; in a token's text it stands escaped

function markers({ x, y, customdata, hovertext }, hoverOf) {
  const card = (node, text) => (node === ROOT ? text : hoverOf(node, text.split(BREAK)).join(BREAK));
  return customdata.map((node, at) => ({ node, x: [x[at]], y: [y[at]], hovertext: card(node, hovertext[at]) }));
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
