"""The draft tree of one round and how the target judged it, from left to right.

Pure: records to a Plotly dict. Knows neither the run around the round nor the page. The number,
order and roles of the traces never change from round to round; only their arrays do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.figures.hover import extra_lines, shown_draft_prob, verdict_lines
from specviz.figures.labels import LABEL_LENGTH, probability, visible_text
from specviz.figures.outcomes import LOOKS
from specviz.figures.theme import (
    LIGHT,
    MONOSPACE,
    Figure,
    base_layout,
    hidden_axis,
)
from specviz.figures.tree_layout import EXTRA, ROOT, Places, curve, tidy_places
from specviz.records import ExtraKind, Round

EDGE_WIDTHS = (1.2, 2.4, 4.0)  # for q below 1/3, below 2/3, above
LIFT, DROP = 10, 12  # pixels from a node to its labels: the ring of a selected one fits between
AXIS_MARGIN = 0.3  # rows that the y-axis shows beyond those of the tree
NO_BREAK = "\u00a0"  # Plotly trims plain spaces
COLUMN_PIXELS, LONG_COLUMN_PIXELS = 46, 38  # at the least: a smaller screen scrolls the tree
_ROOT_SIZE = 13
_DRAWN = ("unreached", "rejected", "accepted")  # later ones lie on top
_EXTRAS = ("recovered", "bonus")


def tree_figure(round_: Round, texts: Mapping[int, str], root_id: int | None = None) -> Figure:
    """The tree of `round_`; `root_id` is the last committed token, if it is to have a label.

    `customdata` holds the node's index: -1 the root, -2 the extra token. The edges' `meta` names
    the node that each leads to, the labels' the node that each belongs to, and that of the layout
    where each node stands.
    """
    view = _TreeView(round_, texts, root_id)
    edges = [view.edges(role, width) for role in _DRAWN for width in EDGE_WIDTHS]
    extra_edges = [view.extra_edge(role) for role in _EXTRAS]
    markers = [view.markers(role) for role in (*_DRAWN, *_EXTRAS, "root")]
    labels = [view.token_labels(), view.small_labels()]
    return {"data": [*edges, *extra_edges, *markers, *labels], "layout": view.layout()}


class _TreeView:
    """One round with its places; each method makes one trace."""

    def __init__(self, round_: Round, texts: Mapping[int, str], root_id: int | None) -> None:
        self.round, self.texts, self.root_id = round_, texts, root_id
        self.places: Places = tidy_places(round_)
        self.has_confidence = any(p.draft_probs or p.raw_draft_probs for p in round_.positions)
        self.rows = 1 + max(row for _, row in self.places.values())
        self.columns = 1 + max((node.depth for node in round_.tree.nodes), default=0)
        self.is_long = self.columns > 10  # labels alternate between two heights
        self.row_pixels = max(18.0, min(66.0 if self.is_long else 56.0, 560 / self.rows))
        self.unit = self._unit()
        self.is_dense = self.row_pixels < 36  # labels stand beside the leaves
        self.is_crowded = self.row_pixels < 22  # and close above the edges
        self.end = self.columns + (2.0 if self.is_dense else 0.5)  # of the x-axis

    def _unit(self) -> float:
        """Pixels from row to row as drawn; narrow rows keep their labels a little closer."""
        rows = max(2.0, self.rows)  # the least that the axis shows
        is_roomy = self.row_pixels >= 52
        return self.row_pixels * (rows / (rows + AXIS_MARGIN) if is_roomy else 1)

    # ---- who is who

    def role(self, index: int) -> str:
        if index == ROOT:
            return "root"
        if index == EXTRA:
            return self._extra_role()
        return self.round.verdicts[index].outcome.value

    def _extra_role(self) -> str:
        extra = self.round.extra
        return "bonus" if extra is not None and extra.kind is ExtraKind.BONUS else "recovered"

    def text(self, index: int, length: int = LABEL_LENGTH) -> str:
        token_id = self._token_id(index)
        if token_id is None:
            return ""
        return visible_text(self.texts.get(token_id, f"#{token_id}"), length)

    def _token_id(self, index: int) -> int | None:
        if index == ROOT:
            return self.root_id
        if index == EXTRA:
            return self.round.extra.token_id if self.round.extra else None
        return self.round.tree.nodes[index].token_id

    def shown_q(self, index: int) -> float | None:
        """None where the drafter gives no probabilities: its guesses are point masses."""
        return shown_draft_prob(self.round.tree.nodes[index]) if self.has_confidence else None

    def _bucket(self, index: int) -> int:
        """Which of EDGE_WIDTHS; the middle one where no q is known."""
        q = self.shown_q(index)
        return 1 if q is None else min(2, int(q * 3))

    # ---- edges

    def edges(self, role: str, width: float) -> dict[str, Any]:
        bucket = EDGE_WIDTHS.index(width)
        chosen = [
            (node.parent, index)
            for index, node in enumerate(self.round.tree.nodes)
            if self.role(index) == role and self._bucket(index) == bucket
        ]
        return self._edge_trace(role, width, chosen)

    def extra_edge(self, role: str) -> dict[str, Any]:
        extra = self.round.extra
        exists = extra is not None and role == self._extra_role()
        return self._edge_trace(role, EDGE_WIDTHS[1], [(extra.parent, EXTRA)] if exists else [])  # type: ignore[union-attr]

    def _edge_trace(self, role: str, width: float, pairs: list[tuple[int, int]]) -> dict[str, Any]:
        xs: list[float | None] = []
        ys: list[float | None] = []
        for parent, child in pairs:
            x, y = curve(self.places[parent], self.places[child])
            xs += [*x, None]
            ys += [*y, None]
        dash = "dot" if role == "unreached" else "solid"
        return {
            "type": "scatter",
            "mode": "lines",
            "x": xs,
            "y": ys,
            "line": {"color": LIGHT[role], "width": width, "dash": dash},
            "opacity": 0.55 if role == "unreached" else 1,
            "hoverinfo": "skip",
            "meta": {"role": role, "nodes": [child for _, child in pairs]},
        }

    # ---- nodes

    def markers(self, role: str) -> dict[str, Any]:
        chosen = [index for index in self.places if self.role(index) == role]
        look = LOOKS.get(role)
        symbol, size = (look.symbol, look.size) if look else ("circle", _ROOT_SIZE)
        line = {"width": 1.6} if symbol.endswith("open") else {"width": 0}
        return {
            "type": "scatter",
            "mode": "markers",
            "x": [self.places[index][0] for index in chosen],
            "y": [self.places[index][1] for index in chosen],
            "customdata": chosen,
            "hovertext": [self.hover(index) for index in chosen],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {
                "color": LIGHT[role],
                "symbol": symbol,
                "size": size * (0.7 if self.is_dense or self.columns > 20 else 1),
                "line": line,
                "opacity": 1,
            },
            "cliponaxis": False,
            "meta": {"role": role},
        }

    def hover(self, index: int) -> str:
        text = f"<b>{self.text(index, 40)}</b>"
        if index == ROOT:
            return f"{text}<br>root: the last committed token".removeprefix("<b></b><br>")
        if index == EXTRA:
            assert self.round.extra is not None
            return f"{text}<br>{extra_lines(self.round.extra, self.round.tree.kind)}"
        verdict, kind = self.round.verdicts[index], self.round.tree.kind
        return f"{text}<br>{verdict_lines(verdict, kind)}"

    # ---- labels

    def token_labels(self) -> dict[str, Any]:
        nodes = list(self.places)
        beside = [self.is_dense and self._is_leaf(index) for index in nodes]
        above = "top right" if self.is_crowded else "top center"
        size = 10 if self.is_dense or self.is_long else 12
        trace = _text_trace(
            [self._label_point(*each) for each in zip(nodes, beside, strict=True)],
            [self._label(*each) for each in zip(nodes, beside, strict=True)],
            ["middle right" if is_beside else above for is_beside in beside],
            {"family": MONOSPACE, "size": size, "color": LIGHT["ink"]},
            "ink",
        )
        trace["meta"]["nodes"] = nodes
        trace["meta"]["room"] = [self._room(*each) for each in zip(nodes, beside, strict=True)]
        return trace

    def _room(self, index: int, is_beside: bool) -> float:
        """How far a label may reach, in columns; the page cuts it to that at its own width."""
        if is_beside:  # nothing stands right of a leaf
            return self.end - self.places[index][0]
        return 1.85 if self.is_long and self._is_level(index) else 0.92

    def _is_level(self, index: int) -> bool:
        """Its neighbours stand on its row: a label above them meets nothing."""
        x, y = self.places[index]
        return all(row == y for column, row in self.places.values() if abs(column - x) <= 1)

    def _label_point(self, index: int, is_beside: bool) -> tuple[float, float]:
        x, y = self.places[index]
        if is_beside:
            return x, y  # its first character is a space
        lift = 4 if self.is_crowded else 22 if self.is_long and x % 2 else LIFT
        return x, y - lift / self.unit

    def _label(self, index: int, is_beside: bool) -> str:
        if not is_beside:
            return self.text(index)
        return f"{NO_BREAK}{self.text(index)}" + (
            f" {self._extra_role()}" if index == EXTRA else ""
        )

    def small_labels(self) -> dict[str, Any]:
        """q under each node and the kind of the extra token; dense trees keep q for the hover."""
        shown = [i for i in self.places if i != ROOT and not self.is_dense]
        drop = DROP / self.unit
        points = [(self.places[i][0], self.places[i][1] + drop) for i in shown]
        font = {"size": 10, "color": LIGHT["muted"]}
        texts = [self._small_text(i) for i in shown]
        trace = _text_trace(points, texts, ["bottom center"] * len(shown), font, "muted")
        trace["meta"]["nodes"] = shown
        return trace

    def _small_text(self, index: int) -> str:
        if index == EXTRA:
            return self._extra_role()
        known = self.shown_q(index)
        if known is None:
            return "—"
        q = probability(known)
        return f"q {q}" if self.columns <= 12 else q if self.columns <= 18 else ""

    def _is_leaf(self, index: int) -> bool:
        parents = {node.parent for node in self.round.tree.nodes}
        extra = self.round.extra
        return index not in parents and (extra is None or extra.parent != index)

    # ---- the whole

    def layout(self) -> dict[str, Any]:
        rows = max(2.0, self.rows)
        above = (rows - self.rows) / 2
        height = round(rows * self.row_pixels) + 24
        layout = base_layout(height)
        layout["margin"] = {"l": 8, "r": 8, "t": 12, "b": 12}
        column = LONG_COLUMN_PIXELS if self.is_long else COLUMN_PIXELS
        layout["meta"] = {
            "min_width": round((self.end + 0.5) * column) + 16,
            "places": {str(index): list(place) for index, place in self.places.items()},
        }
        layout["xaxis"] = hidden_axis(range=[-0.5, self.end])
        layout["yaxis"] = hidden_axis(range=[self.rows - 0.4 + above, -0.7 - above])
        return layout


def _text_trace(
    points: list[tuple[float, float]],
    texts: list[str],
    positions: list[str],
    font: dict[str, Any],
    role: str,
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "text",
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "text": texts,
        "textposition": positions,
        "textfont": font,
        "hoverinfo": "skip",
        "cliponaxis": False,
        "meta": {"role": role},
    }
