"""The attention mask of the target forward that verified one round's tree, with position ids.

The functions turn records into a Plotly dict. A row is a query token, and a column is a key token:
some of the committed context, then the root and the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.figures.labels import visible_text
from specviz.figures.theme import LIGHT, MONOSPACE, SMALL, Figure, base_layout, note, quiet_axis
from specviz.figures.tree_layout import ROOT
from specviz.records import Round

CONTEXT_COLUMNS = 6  # columns for the whole committed context, which every row sees
GAP_COLUMNS = 1
# Numbers that stand for the kinds of visible cells; 0 is a hidden cell.
_CONTEXT, _TREE, _SELF = 1.0, 2.0, 3.0
# The roles of the colours of a hidden cell and of the three kinds of visible cells.
_ROLES = ("grid", "draft", "accepted", "ink")
NARROW_ROWS = 4  # largest number of rows with which the columns are too narrow for the heading
LABELLED_ROWS = 24  # largest number of rows that have a text next to them


def mask_figure(round_: Round, texts: Mapping[int, str], root_id: int | None = None) -> Figure:
    """Return the mask as a heat map; `customdata` is the node of each row (-1 is the root).

    A node sees the context, the root, its ancestors and itself, but no other branch. Position ids
    count from 0. The root is at context_length - 1, and a node of depth d is d positions after
    the root.
    """
    rows = [ROOT, *range(len(round_.tree.nodes))]
    pixels = 17 if len(rows) <= LABELLED_ROWS else max(4.0, 400 / len(rows))
    layout = base_layout(round(len(rows) * pixels) + 44)
    layout["margin"] = {"l": 132 if len(rows) <= LABELLED_ROWS else 44, "r": 8, "t": 28, "b": 16}
    layout["xaxis"] = quiet_axis(showgrid=False, showticklabels=False, range=_span(rows))
    layout["yaxis"] = _row_axis(round_, rows, texts, root_id)
    layout["annotations"] = _headings(len(rows))
    return {"data": [_cells(round_, rows)], "layout": layout}


def _span(rows: list[int]) -> list[float]:
    return [-0.5, CONTEXT_COLUMNS + GAP_COLUMNS + len(rows) - 0.5]


def _cells(round_: Round, rows: list[int]) -> dict[str, Any]:
    last = len(_ROLES)
    steps = [[share / last, LIGHT[_ROLES[i]]] for i in range(last) for share in (i, i + 1)]
    return {
        "type": "heatmap",
        "z": [_row(round_, row, rows) for row in rows],
        "customdata": [[row] * round(_span(rows)[1] + 0.5) for row in rows],
        "zmin": -0.5,
        "zmax": last - 0.5,
        "colorscale": steps,
        "showscale": False,
        "xgap": 1.5,
        "ygap": 1.5,
        "hoverongaps": False,
        "hovertemplate": "%{text}<extra></extra>",
        "text": [_hovers(round_, row, rows) for row in rows],
        "meta": {"role": "accepted"},
    }


def _row(round_: Round, row: int, rows: list[int]) -> list[float | None]:
    seen = set(round_.tree.path(row))
    tree = [_SELF if col == row else _TREE if col in seen or col == ROOT else 0.0 for col in rows]
    return [_CONTEXT] * CONTEXT_COLUMNS + [None] * GAP_COLUMNS + tree


def _hovers(round_: Round, row: int, rows: list[int]) -> list[str]:
    seen = {ROOT, *round_.tree.path(row)}
    context = ["sees the committed context"] * CONTEXT_COLUMNS + [""] * GAP_COLUMNS
    tree = ["itself" if col == row else "sees it" if col in seen else "hidden" for col in rows]
    return context + tree


def _row_axis(
    round_: Round, rows: list[int], texts: Mapping[int, str], root_id: int | None
) -> dict[str, Any]:
    named = rows if len(rows) <= LABELLED_ROWS else []
    return quiet_axis(
        showgrid=False,
        range=[len(rows) - 0.5, -0.5],
        tickvals=[row + 1 for row in named],
        ticktext=[_label(round_, row, texts, root_id) for row in named],
        tickfont={"family": MONOSPACE, "size": SMALL, "color": LIGHT["ink"]},
        ticklabelstandoff=4,
    )


def _label(round_: Round, row: int, texts: Mapping[int, str], root_id: int | None) -> str:
    """Return the label of a row of the mask: its token and its position id."""
    token_id = root_id if row == ROOT else round_.tree.nodes[row].token_id
    text = "root" if token_id is None else visible_text(texts.get(token_id, f"#{token_id}"), 9)
    return f"{text} {position_id(round_, row)}"


def position_id(round_: Round, node: int) -> int:
    """Return the position of a node in the text, counted from 0; the node -1 is the root."""
    depth = 0 if node == ROOT else round_.tree.nodes[node].depth
    return round_.context_length - 1 + depth


def _headings(rows: int) -> list[dict[str, Any]]:
    """Return the headings above the columns: "context", and "root and tree".

    If there are few columns for the tree, their heading is wider than they are. It then extends to
    the left.
    """
    start = CONTEXT_COLUMNS + GAP_COLUMNS - 0.5
    above = {"y": 1, "yref": "paper", "yanchor": "bottom"}
    is_narrow = rows <= NARROW_ROWS
    side = {"x": start + rows, "xanchor": "right"} if is_narrow else {"x": start, "xanchor": "left"}
    title = "root and tree" if rows > 1 else "root"
    return [note("context", x=-0.5, xanchor="left", **above), note(title, **side, **above)]
