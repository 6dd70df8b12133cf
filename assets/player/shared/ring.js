// A ring around the selected node of a tree (specviz/figures/tree.py), as a shape over its figure.

const RADIUS = 9; // pixels; the labels of a node keep clear of it

// In a list of its own: empty where the tree has no such node. Found by the customdata of its marker.
export function ringAround({ data }, node, color) {
  for (const { customdata, x, y, mode } of data) {
    const at = mode === "markers" ? (customdata ?? []).indexOf(node) : -1;
    if (at >= 0) return [ring(x[at], y[at], color)];
  }
  return [];
}

function ring(xanchor, yanchor, color) {
  const size = { xsizemode: "pixel", ysizemode: "pixel", x0: -RADIUS, x1: RADIUS, y0: -RADIUS, y1: RADIUS };
  return { type: "circle", ...size, xanchor, yanchor, line: { width: 2, color } };
}
