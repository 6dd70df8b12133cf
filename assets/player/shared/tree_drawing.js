// A round's draft tree as a figure, with each node in the role that it has at some moment, and the ring
// around a selected node. The server sends the drawing (specviz/figures/tree.py): traces without points,
// one style for each role of a part, and in the layout's `meta.nodes` what is drawn of every node.

import { ROOT } from "./cursor.js";

const RING_RADIUS = 9; // pixels; the labels of a node keep clear of it

// `roleOf(node)` is "absent", or the role whose colour and mark a node has; `cardOf(node, lines)` are the
// lines of its card. Without them the tree stands as the round has left it.
/**
 * @param {Figure} drawing
 * @param {((node: number) => string) | null} [roleOf]
 * @param {((node: number, lines: string[]) => string[]) | null} [cardOf]
 */
export function treeFigure({ data, layout }, roleOf = null, cardOf = null) {
  const known = (/** @type {any} */ each) => (each.node === ROOT ? each : { ...each, role: roleOf?.(each.node) ?? each.role, card: cardOf?.(each.node, each.card) ?? each.card });
  const nodes = layout.meta.nodes.map(known).filter((/** @type {any} */ { role }) => role !== "absent");
  const { nodes: _nodes, ...meta } = layout.meta;
  return { data: data.map((style) => ({ ...style, ...columns(style.meta, nodes) })), layout: { ...layout, meta } };
}

// The points of a style: those of the nodes that are drawn in it.
/**
 * @param {any} meta
 * @param {any[]} nodes
 */
function columns(meta, nodes) {
  if (meta.part === "marker") return markerColumns(nodes.filter(({ role }) => role === meta.role));
  if (meta.part !== "edge") return labelColumns(meta, nodes.map((each) => each[meta.part]).filter(Boolean));
  const edges = nodes.filter(({ role, edge }) => role === meta.role && edge?.width === meta.width).map(({ edge }) => edge);
  return { x: edges.flatMap(({ x }) => [...x, null]), y: edges.flatMap(({ y }) => [...y, null]) };
}

/** @param {any[]} nodes */
function markerColumns(nodes) {
  return {
    x: nodes.map(({ x }) => x),
    y: nodes.map(({ y }) => y),
    customdata: nodes.map(({ node }) => node),
    hovertext: nodes.map(({ card }) => card.join("<br>")),
  };
}

/**
 * @param {any} meta
 * @param {any[]} labels
 */
function labelColumns(meta, labels) {
  const made = {
    x: labels.map(({ x }) => x),
    y: labels.map(({ y }) => y),
    text: labels.map(({ text }) => text),
    textposition: labels.map(({ side }) => side),
  };
  return meta.part === "token" ? { ...made, meta: { ...meta, ...rooms(labels) } } : made;
}

// What a chart needs to fit the labels to its width.
/** @param {any[]} labels */
function rooms(labels) {
  const narrow = labels[0]?.narrow && { y: labels.map((each) => each.narrow.y), room: labels.map((each) => each.narrow.room) };
  return { room: labels.map(({ room }) => room), ...(narrow && { narrow }) };
}

// The shapes of the ring around a node: none where the tree has no such node.
/**
 * @param {Figure} drawing
 * @param {number | null} node
 * @param {string} color
 */
export function ringAround({ layout }, node, color) {
  const size = { xsizemode: "pixel", ysizemode: "pixel", x0: -RING_RADIUS, x1: RING_RADIUS, y0: -RING_RADIUS, y1: RING_RADIUS };
  const chosen = layout.meta.nodes.filter((/** @type {any} */ each) => each.node === node);
  return chosen.map((/** @type {{ x: number, y: number }} */ { x, y }) => ({ type: "circle", ...size, xanchor: x, yanchor: y, line: { width: 2, color } }));
}
