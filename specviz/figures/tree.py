"""The draft tree of one round and how the target judged it, from left to right.

The functions turn records into a Plotly dict. A node has several parts, such as its marker and its
edge, and a role, such as accepted. `tree_drawing` returns at least one Plotly trace for each part
and role. Such a Plotly trace has a style, but no points yet. `layout.meta.nodes` lists the points
of every node. The page fills the Plotly traces itself, because the role of a node changes during
the round (`assets/player/shared/tree_drawing.js`). `tree_figure` fills them with the roles at the
end of the round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.figures.hover import extra_lines, shown_draft_prob, verdict_lines
from specviz.figures.labels import LABEL_LENGTH, NO_BREAK, percent, visible_text
from specviz.figures.outcomes import LOOKS
from specviz.figures.theme import (
    LIGHT,
    MONOSPACE,
    Figure,
    base_layout,
    hidden_axis,
)
from specviz.figures.tree_layout import EXTRA, ROOT, Places, curve, row_count, tidy_places
from specviz.records import Round

EDGE_WIDTHS = (1.2, 2.4, 4.0)  # line widths in pixels for q below 1/3, below 2/3, and above
_MIDDLE_WIDTH = EDGE_WIDTHS[1]  # line width in pixels if q is unknown
# Pixels from a node to the label above it and to the label below it. The ring around a selected
# node fits between the two labels.
LIFT, DROP = 10, 12
LABEL_PIXELS = 22  # pixels from a node to the top of its label
AXIS_MARGIN = 0.3  # share of a row by which the y-axis extends beyond the tree
# Smallest width in pixels of a column, and of a column in a long tree. On a smaller screen the tree
# scrolls.
COLUMN_PIXELS, LONG_COLUMN_PIXELS = 42, 38
_ROOT_SIZE = 13
# Roles in the order in which Plotly draws them; later roles cover earlier ones.
_DRAWN = ("unreached", "rejected", "accepted")
_EXTRAS = ("recovered", "bonus", "plain")


def tree_figure(round_: Round, texts: Mapping[int, str], root_id: int | None = None) -> Figure:
    """Return the tree of a round; `root_id` is the last committed token, if it needs a label.

    `customdata` of the markers is the index of the node: -1 for the root, -2 for the extra token.
    """
    drawing = tree_drawing(round_, texts, root_id)
    nodes = drawing["layout"]["meta"]["nodes"]
    return {
        "data": [style | _columns(style["meta"], nodes) for style in drawing["data"]],
        "layout": drawing["layout"],
    }


def tree_drawing(round_: Round, texts: Mapping[int, str], root_id: int | None = None) -> Figure:
    """Return the tree as Plotly traces without points, and its nodes in `layout.meta.nodes`.

    The page fills in the points; see the module's docstring.
    """
    view = _TreeView(round_, texts, root_id)
    edges = [_edge_style(role, width) for role in _DRAWN for width in EDGE_WIDTHS]
    extra_edges = [_edge_style(role, _MIDDLE_WIDTH) for role in _EXTRAS]
    markers = [view.marker_style(role) for role in (*_DRAWN, *_EXTRAS, "root")]
    labels = [view.token_style(), view.small_style()]
    return {"data": [*edges, *extra_edges, *markers, *labels], "layout": view.layout()}


def _columns(meta: dict[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the x and y of the points of one Plotly trace, whose part and role are in `meta`."""
    if meta["part"] == "marker":
        own = [node for node in nodes if node["role"] == meta["role"]]
        return {
            "x": [node["x"] for node in own],
            "y": [node["y"] for node in own],
            "customdata": [node["node"] for node in own],
            "hovertext": ["<br>".join(node["card"]) for node in own],
        }
    if meta["part"] == "edge":
        edges = [node["edge"] for node in nodes if node["role"] == meta["role"] and node["edge"]]
        edges = [edge for edge in edges if edge["width"] == meta["width"]]
        return {key: [each for edge in edges for each in (*edge[key], None)] for key in "xy"}
    labels = [node[meta["part"]] for node in nodes if node[meta["part"]]]
    return {
        "x": [label["x"] for label in labels],
        "y": [label["y"] for label in labels],
        "text": [label["text"] for label in labels],
        "textposition": [label["side"] for label in labels],
        "meta": meta | (_rooms(labels) if meta["part"] == "token" else {}),
    }


def _rooms(labels: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the width that each label may have; the page shortens longer labels.

    `narrow` has other heights and widths of the labels of a chain, for a narrow page.
    """
    rooms: dict[str, Any] = {"room": [label["room"] for label in labels]}
    if labels and labels[0]["narrow"]:
        rooms["narrow"] = {key: [label["narrow"][key] for label in labels] for key in ("y", "room")}
    return rooms


class _TreeView:
    """One round's tree with the positions of its nodes: computes the figure's styles and nodes."""

    def __init__(self, round_: Round, texts: Mapping[int, str], root_id: int | None) -> None:
        self.round, self.texts, self.root_id = round_, texts, root_id
        self.places: Places = tidy_places(round_)
        self.has_confidence = any(p.draft_probs or p.raw_draft_probs for p in round_.positions)
        self.rows = row_count(round_, self.places)
        self.columns = 1 + max((node.depth for node in round_.tree.nodes), default=0)
        self.is_long = self.columns > 10
        self.is_chain = all(y == 0 for node, (_, y) in self.places.items() if node != EXTRA)
        self.row_pixels = max(18.0, min(66.0 if self.is_long else 56.0, 560 / self.rows))
        self.unit = self._unit()
        # The rows of a dense tree are so low that the label of a leaf must be right of the leaf,
        # not above it. The rows of a crowded tree are even lower, so the labels of all other nodes
        # are closer to their nodes.
        self.is_dense = self.row_pixels < 36
        self.is_crowded = self.row_pixels < 22
        # X at which the axis ends, to the right of the last column.
        self.end = self.columns + (2.0 if self.is_dense else 0.5)

    def _unit(self) -> float:
        """Return the pixels from row to row, from which the distances of labels are computed.

        If the rows are low, the result is a little larger than the exact value. Labels are then
        closer to their nodes.
        """
        rows = max(2.0, self.rows)  # the axis has space for at least two rows
        is_roomy = self.row_pixels >= 52
        return self.row_pixels * (rows / (rows + AXIS_MARGIN) if is_roomy else 1)

    def role(self, index: int) -> str:
        if index == ROOT:
            return "root"
        if index == EXTRA:
            return self._extra_role()
        return self.round.verdicts[index].outcome.value

    def _extra_role(self) -> str:
        assert self.round.extra is not None
        return self.round.extra.kind.value

    def text(self, index: int, length: int = LABEL_LENGTH) -> str:
        token_id = self._token_id(index)
        if token_id is None:
            return ""
        return visible_text(self.texts.get(token_id, f"#{token_id}"), length)

    def _parent(self, index: int) -> int:
        if index != EXTRA:
            return self.round.tree.nodes[index].parent
        assert self.round.extra is not None
        return self.round.extra.parent

    def _token_id(self, index: int) -> int | None:
        if index == ROOT:
            return self.root_id
        if index == EXTRA:
            return self.round.extra.token_id if self.round.extra else None
        return self.round.tree.nodes[index].token_id

    def shown_q(self, index: int) -> float | None:
        """Return the q that the page shows for a node.

        The result is None if the drafter gives no probabilities.
        """
        return shown_draft_prob(self.round.tree.nodes[index]) if self.has_confidence else None

    def _bucket(self, index: int) -> int:
        """Return the index in EDGE_WIDTHS for the q of a node; the middle index if q is unknown."""
        q = self.shown_q(index)
        return 1 if q is None else min(2, int(q * 3))

    def marker_style(self, role: str) -> dict[str, Any]:
        look = LOOKS.get(role)
        symbol, size = (look.symbol, look.size) if look else ("circle", _ROOT_SIZE)
        line = {"width": 1.6} if symbol.endswith("open") else {"width": 0}
        return {
            "type": "scatter",
            "mode": "markers",
            "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {
                "color": LIGHT[role],
                "symbol": symbol,
                "size": size * (0.7 if self.is_dense or self.columns > 20 else 1),
                "line": line,
                "opacity": 1,
            },
            "cliponaxis": False,
            "meta": {"part": "marker", "role": role},
        }

    def token_style(self) -> dict[str, Any]:
        size = 10 if self.is_dense or self.is_long else 12
        font = {"family": MONOSPACE, "size": size, "color": LIGHT["ink"]}
        return _text_style("token", "ink", font)

    def small_style(self) -> dict[str, Any]:
        """Return the style of small labels: q under each node, and the kind of the extra token."""
        return _text_style("small", "muted", {"size": 10, "color": LIGHT["muted"]})

    def node(self, index: int) -> dict[str, Any]:
        x, y = self.places[index]
        return {
            "node": index,
            "role": self.role(index),
            "x": x,
            "y": y,
            "edge": self.edge(index),
            "card": self.card(index),
            "token": self.token_label(index),
            "small": self.small_label(index),
        }

    def edge(self, index: int) -> dict[str, Any] | None:
        """Return the edge from the node's parent to the node; its width shows q."""
        if index == ROOT:
            return None
        x, y = curve(self.places[self._parent(index)], self.places[index])
        width = _MIDDLE_WIDTH if index == EXTRA else EDGE_WIDTHS[self._bucket(index)]
        return {"x": x, "y": y, "width": width}

    def card(self, index: int) -> list[str]:
        """Return the hover text of the node, line by line."""
        text = f"<b>{self.text(index, 40)}</b>"
        if index == ROOT:
            named = [] if self.root_id is None else [text]
            return [*named, "root: the last committed token"]
        if index == EXTRA:
            assert self.round.extra is not None
            return [text, *extra_lines(self.round.extra, self.round.rule)]
        each = self.round
        return [text, *verdict_lines(each.verdicts[index], each.tree.drawing.is_drawn, each.rule)]

    def token_label(self, index: int) -> dict[str, Any]:
        is_beside = self.is_dense and self._is_leaf(index)
        above = "top right" if self.is_crowded else "top center"
        return {
            "x": self.places[index][0],
            **self._fitted(index, is_beside, self.is_long),
            "text": self._label(index, is_beside),
            "side": "middle right" if is_beside else above,
            "narrow": self._fitted(index, is_beside, True) if self.is_chain else None,
        }

    def _fitted(self, index: int, is_beside: bool, is_staggered: bool) -> dict[str, float]:
        """Return the y of a label, and the width of its space in columns.

        The page shortens the label's text to this width. Staggered labels alternate between two
        heights, so that each label has the width of two columns.
        """
        x, y = self.places[index]
        if is_beside:  # the label is on the right of a leaf, where there is no other node
            return {"y": y, "room": self.end - x}
        # A chain has only one label below it. That label has enough space, so it is not staggered.
        is_lifted = is_staggered and x % 2 and not (self.is_chain and y)
        lift = 4 if self.is_crowded else 22 if is_lifted else LIFT
        if is_staggered:
            is_free = self.is_chain or self._is_level(index)
        else:
            is_free = self._is_alone(index)
        room = 1.85 if is_free else 0.92
        return {"y": y - lift / self.unit, "room": room}

    def _is_level(self, index: int) -> bool:
        """Return whether all neighbours of a node are on its row, so that its label has space."""
        x, y = self.places[index]
        return all(row == y for column, row in self.places.values() if abs(column - x) <= 1)

    def _is_alone(self, index: int) -> bool:
        """Return whether no neighbour is so close that the labels could overlap."""
        x, y = self.places[index]
        others = (place for node, place in self.places.items() if node != index)
        return all(
            abs(column - x) > 1 or abs(row - y) * self.unit > LABEL_PIXELS for column, row in others
        )

    def _label(self, index: int, is_beside: bool) -> str:
        if not is_beside:
            return self.text(index)
        # The text starts with a no-break space, because Plotly removes normal spaces.
        return f"{NO_BREAK}{self.text(index)}" + (
            f" {self._extra_role()}" if index == EXTRA else ""
        )

    def small_label(self, index: int) -> dict[str, Any] | None:
        """Return the small label with the node's q; in dense trees only the hover text shows q."""
        if index == ROOT or self.is_dense:
            return None
        x, y = self.places[index]
        y += DROP / self.unit
        return {"x": x, "y": y, "text": self._small_text(index), "side": "bottom center"}

    def _small_text(self, index: int) -> str:
        if index == EXTRA:
            return self._extra_role()
        known = self.shown_q(index)
        if known is None:
            return "—"
        q = percent(known)
        return f"q {q}" if self.columns <= 12 else q if self.columns <= 18 else ""

    def _is_leaf(self, index: int) -> bool:
        parents = {node.parent for node in self.round.tree.nodes}
        extra = self.round.extra
        return index not in parents and (extra is None or extra.parent != index)

    def layout(self) -> dict[str, Any]:
        rows = max(2.0, self.rows)
        above = (rows - self.rows) / 2
        height = round(rows * self.row_pixels) + 24
        layout = base_layout(height)
        layout["margin"] = {"l": 8, "r": 8, "t": 12, "b": 12}
        column = LONG_COLUMN_PIXELS if self.is_long else COLUMN_PIXELS
        layout["meta"] = {
            "min_width": round((self.end + 0.5) * column) + 16,
            "nodes": [self.node(index) for index in self.places],
        }
        layout["xaxis"] = hidden_axis(range=[-0.5, self.end])
        layout["yaxis"] = hidden_axis(range=[self.rows - 0.4 + above, -0.7 - above])
        return layout


def _edge_style(role: str, width: float) -> dict[str, Any]:
    dash = "dot" if role == "unreached" else "solid"
    return {
        "type": "scatter",
        "mode": "lines",
        "line": {"color": LIGHT[role], "width": width, "dash": dash},
        "opacity": 0.55 if role == "unreached" else 1,
        "hoverinfo": "skip",
        "meta": {"part": "edge", "role": role, "width": width},
    }


def _text_style(part: str, role: str, font: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "text",
        "textfont": font,
        "hoverinfo": "skip",
        "cliponaxis": False,
        "meta": {"part": part, "role": role},
    }
