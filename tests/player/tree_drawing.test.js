// A round's tree as a figure, made from the server's description of its nodes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ringAround, treeFigure } from "../../assets/player/shared/tree_drawing.js";

const node = (index, role, [x, y], width) => ({
  node: index,
  role,
  x,
  y,
  edge: width ? { x: [x - 1, x], y: [0, y], width } : null,
  card: [`<b>${index}</b>`, "p 0.5 → 0.2", "q 0.4"],
  token: { x, y: y - 0.2, text: `t${index}`, side: "top center", room: 0.9 },
  small: width ? { x, y: y + 0.2, text: "q 0.40", side: "bottom center" } : null,
});
const style = (part, role, rest = {}) => ({ mode: part, meta: { part, role, ...rest } });
const WIDTHS = [1, 2];
const ROLES = ["unreached", "accepted"];
const drawing = {
  data: [
    ...ROLES.flatMap((role) => WIDTHS.map((width) => style("edge", role, { width }))),
    ...[...ROLES, "root"].map((role) => style("marker", role)),
    style("token", "ink"),
    style("small", "muted"),
  ],
  layout: {
    height: 9,
    meta: {
      min_width: 80,
      nodes: [
        node(0, "accepted", [1, 0], 2),
        node(1, "unreached", [1, 1], 1),
        node(-1, "root", [0, 0.5], null),
      ],
    },
  },
};
const traceOf = ({ data }, part, role, width) =>
  data.find(
    ({ meta }) =>
      meta.part === part && meta.role === role && (width === undefined || meta.width === width),
  );

test("without a moment a tree is drawn as it is after the round", () => {
  const figure = treeFigure(drawing);
  assert.deepEqual(traceOf(figure, "marker", "accepted").customdata, [0]);
  assert.deepEqual(traceOf(figure, "edge", "accepted", 2).x, [0, 1, null]);
  assert.deepEqual(traceOf(figure, "edge", "accepted", 1).x, []);
  assert.deepEqual(traceOf(figure, "marker", "unreached").hovertext, [
    "<b>1</b><br>p 0.5 → 0.2<br>q 0.4",
  ]);
  assert.deepEqual(figure.layout, { height: 9, meta: { min_width: 80 } });
});

test("at a moment each node and the root have the role and the card of that moment", () => {
  const figure = treeFigure(
    drawing,
    () => "unreached",
    (index, [text]) => [text, `stage of ${index}`],
  );
  assert.deepEqual(traceOf(figure, "marker", "unreached").customdata, [0, 1]);
  assert.deepEqual(traceOf(figure, "marker", "unreached").hovertext, [
    "<b>0</b><br>stage of 0",
    "<b>1</b><br>stage of 1",
  ]);
  assert.deepEqual(traceOf(figure, "marker", "root").customdata, [-1]);
  assert.deepEqual(traceOf(figure, "marker", "root").hovertext, [
    "<b>-1</b><br>p 0.5 → 0.2<br>q 0.4",
  ]);
  assert.deepEqual(traceOf(figure, "edge", "unreached", 2).y, [0, 0, null]);
});

test("a node that is not drafted yet is invisible", () => {
  const figure = treeFigure(drawing, (index) => (index ? "absent" : "unreached"));
  assert.deepEqual(traceOf(figure, "marker", "unreached").customdata, [0]);
  assert.deepEqual(traceOf(figure, "edge", "unreached", 1).x, []);
  assert.deepEqual(traceOf(figure, "token", "ink").text, ["t0", "t-1"]);
  assert.deepEqual(traceOf(figure, "token", "ink").meta.room, [0.9, 0.9]);
  assert.deepEqual(traceOf(figure, "small", "muted").text, ["q 0.40"]);
});

test("the ring is at the position that the server gives for the node", () => {
  assert.deepEqual(
    ringAround(drawing, 1, "#fff").map(({ xanchor, yanchor }) => [xanchor, yanchor]),
    [[1, 1]],
  );
  assert.deepEqual(ringAround(drawing, 7, "#fff"), []);
  assert.deepEqual(ringAround(drawing, null, "#fff"), []);
});
