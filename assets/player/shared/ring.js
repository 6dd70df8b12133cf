// A ring around the selected node of a tree (specviz/figures/tree.py), as a shape over its figure.

const RADIUS = 9; // pixels; the labels of a node keep clear of it

// In a list of its own: empty where the tree has no such node. The server sends the nodes' places.
export function ringAround({ layout }, node, color) {
  const place = layout.meta.places[node];
  return place ? [ring(place[0], place[1], color)] : [];
}

function ring(xanchor, yanchor, color) {
  const size = { xsizemode: "pixel", ysizemode: "pixel", x0: -RADIUS, x1: RADIUS, y0: -RADIUS, y1: RADIUS };
  return { type: "circle", ...size, xanchor, yanchor, line: { width: 2, color } };
}
