// The draft tree of a round as a chart. Each node has the colour and mark of its state at some
// moment, and a ring marks the selected node. The server sends the drawing
// (specviz/figures/tree.py). Its layout has a list of all nodes, `meta.nodes`. Its traces have no
// points yet: there is one trace for each style that a part of the tree can have. This module puts
// the points of the nodes into the traces.

import { ROOT } from "./cursor.js";

const RING_RADIUS = 9; // pixels; the labels of a node stay outside of the ring

// `roleOf(node)` returns the state of a node, or "absent" if it is not drawn. `cardOf(node, lines)`
// returns the lines of its tooltip. Without these functions the chart shows the tree after the
// round.
/**
 * @param {Figure} drawing
 * @param {((node: number) => string) | null} [roleOf]
 * @param {((node: number, lines: string[]) => string[]) | null} [cardOf]
 */
export function treeFigure({ data, layout }, roleOf = null, cardOf = null) {
  const known = (/** @type {any} */ each) =>
    each.node === ROOT
      ? each
      : {
          ...each,
          role: roleOf?.(each.node) ?? each.role,
          card: cardOf?.(each.node, each.card) ?? each.card,
        };
  const nodes = layout.meta.nodes
    .map(known)
    .filter((/** @type {any} */ { role }) => role !== "absent");
  const { nodes: _nodes, ...meta } = layout.meta;
  return {
    data: data.map((style) => ({ ...style, ...columns(style.meta, nodes) })),
    layout: { ...layout, meta },
  };
}

// Return the points of one trace: those of the nodes that have its style.
/**
 * @param {any} meta
 * @param {any[]} nodes
 */
function columns(meta, nodes) {
  if (meta.part === "marker") return markerColumns(nodes.filter(({ role }) => role === meta.role));
  if (meta.part !== "edge")
    return labelColumns(meta, nodes.map((each) => each[meta.part]).filter(Boolean));
  const edges = nodes
    .filter(({ role, edge }) => role === meta.role && edge?.width === meta.width)
    .map(({ edge }) => edge);
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

// Return how much space each label has. The chart cuts a label that is longer than its space.
/** @param {any[]} labels */
function rooms(labels) {
  const narrow = labels[0]?.narrow && {
    y: labels.map((each) => each.narrow.y),
    room: labels.map((each) => each.narrow.room),
  };
  return { room: labels.map(({ room }) => room), ...(narrow && { narrow }) };
}

// Return the ring around a node as shapes, or an empty list if the tree does not have the node.
/**
 * @param {Figure} drawing
 * @param {number | null} node
 * @param {string} color
 */
export function ringAround({ layout }, node, color) {
  const size = {
    xsizemode: "pixel",
    ysizemode: "pixel",
    x0: -RING_RADIUS,
    x1: RING_RADIUS,
    y0: -RING_RADIUS,
    y1: RING_RADIUS,
  };
  const chosen = layout.meta.nodes.filter((/** @type {any} */ each) => each.node === node);
  return chosen.map((/** @type {{ x: number, y: number }} */ { x, y }) => ({
    type: "circle",
    ...size,
    xanchor: x,
    yanchor: y,
    line: { width: 2, color },
  }));
}
