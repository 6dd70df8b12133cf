"""The residual distribution from which a recovered token is drawn, next to p.

The functions turn records into a Plotly dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.figures.distribution_rows import SHOWN_TOKENS
from specviz.figures.labels import percent, visible_text
from specviz.figures.theme import (
    LIGHT,
    MONOSPACE,
    SMALL,
    Figure,
    base_layout,
    legend_above,
    probability_bars,
    quiet_axis,
)
from specviz.records import TOP_TOKENS, Position

ROW_PIXELS = 30
_Row = tuple[int, float, float]  # token id, p, residual


def residual_figure(
    position: Position | None, texts: Mapping[int, str], drawn: int | None = None
) -> Figure:
    """Return the bars of p and of the residual after the rejections at `position`.

    The rows are sorted by decreasing residual. Both distributions are processed. The figure is
    empty if nothing was rejected. `customdata` is the token id. `layout.meta` has the bars for the
    moment after the target drew the token `drawn`. They include this token, if necessary in place
    of the least probable one.
    """
    rows = _rows(position)
    data = _both_bars(rows)
    layout = base_layout(round((SHOWN_TOKENS + 0.5) * ROW_PIXELS) + 30)
    layout |= probability_bars()
    layout["yaxis"] = quiet_axis(
        range=[SHOWN_TOKENS, -0.5],
        showgrid=False,
        ticklabelstandoff=6,
        tickvals=list(range(len(rows))),
        ticktext=_names(rows, texts),
        tickfont={"family": MONOSPACE, "size": 12, "color": LIGHT["ink"]},
    )
    layout["showlegend"] = bool(rows)
    layout["legend"] = legend_above()
    layout["meta"] = {"drawn": None if drawn is None else _after_the_draw(position, texts, drawn)}
    return {"data": data, "layout": layout}


def _both_bars(rows: Sequence[_Row]) -> list[dict[str, Any]]:
    return [
        _bars("target", "target p", [(token, p) for token, p, _ in rows], -0.19),
        _bars("recovered", "residual", [(token, left) for token, _, left in rows], 0.19),
    ]


def _names(rows: Sequence[_Row], texts: Mapping[int, str], drawn: int | None = None) -> list[str]:
    named = [(token, visible_text(texts.get(token, f"#{token}"))) for token, _, _ in rows]
    return [f"<b>{name}</b>" if token == drawn else name for token, name in named]


def _after_the_draw(
    position: Position | None, texts: Mapping[int, str], drawn: int
) -> dict[str, Any]:
    rows = _rows(position, drawn)
    parts = ("x", "y", "width", "text", "customdata")
    bars = [{part: bar[part] for part in parts} for bar in _both_bars(rows)]
    return {"bars": bars, "names": _names(rows, texts, drawn)}


def _rows(position: Position | None, drawn: int | None = None) -> list[_Row]:
    """Return the rows of the chart: the most probable tokens of p and of the residual, and `drawn`.

    If the record lacks the token `drawn`, it gets no row.
    """
    if position is None or not position.residual_probs:
        return []
    distributions = zip(
        position.token_ids, position.target_probs, position.residual_probs, strict=True
    )
    kept = list(distributions)
    own = [row for row in kept if row[0] == drawn]
    rows = [row for row in kept[:TOP_TOKENS] if (row[1] or row[2]) and row not in own]
    rows.sort(key=_by_residual)
    return sorted([*rows[: SHOWN_TOKENS - len(own)], *own], key=_by_residual)


def _by_residual(row: _Row) -> tuple[float, float]:
    _, p, left = row
    return -left, -p


def _bars(role: str, name: str, values: list[tuple[int, float]], offset: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": [value for _, value in values],
        "y": [index + offset for index in range(len(values))],
        "width": [0.34 for _ in values],
        "text": [percent(value) for _, value in values],
        "textposition": "outside",
        "textangle": 0,
        "constraintext": "none",
        "cliponaxis": False,
        "textfont": {"size": SMALL, "color": LIGHT["muted"]},
        "customdata": [token for token, _ in values],
        "hoverinfo": "skip",
        "marker": {"color": LIGHT[role], "line": {"width": 0}},
        "meta": {"role": role},
    }
