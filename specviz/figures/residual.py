"""The residual distribution from which a recovered token is drawn, beside the target's
distribution.

Pure: records to a Plotly dict. Knows neither the run nor the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.figures.distribution_rows import SHOWN_TOKENS
from specviz.figures.labels import probability, visible_text
from specviz.figures.theme import (
    LEGEND_PIXELS,
    LIGHT,
    MONOSPACE,
    SMALL,
    Figure,
    base_layout,
    hidden_axis,
    legend_above,
    quiet_axis,
)
from specviz.records import TOP_TOKENS, Position

ROW_PIXELS = 30


def residual_figure(position: Position | None, texts: Mapping[int, str]) -> Figure:
    """p and the residual after the rejections at `position`, both processed, by falling residual.

    Works, empty, where nothing was rejected. `customdata` is the token id.
    """
    rows = _rows(position)
    data = [
        _bars("target", "target p", [(token, p) for token, p, _ in rows], -0.19),
        _bars("recovered", "residual", [(token, left) for token, _, left in rows], 0.19),
    ]
    layout = base_layout(round((SHOWN_TOKENS + 0.5) * ROW_PIXELS) + 30)
    layout["margin"] = {"l": 118, "r": 8, "t": LEGEND_PIXELS, "b": 4}
    layout["barmode"] = "overlay"
    layout["xaxis"] = hidden_axis(range=[0, 1.16])
    layout["yaxis"] = quiet_axis(
        range=[SHOWN_TOKENS, -0.5],
        showgrid=False,
        ticklabelstandoff=6,
        tickvals=list(range(len(rows))),
        ticktext=[visible_text(texts.get(token, f"#{token}")) for token, _, _ in rows],
        tickfont={"family": MONOSPACE, "size": 12, "color": LIGHT["ink"]},
    )
    layout["showlegend"] = bool(rows)
    layout["legend"] = legend_above()
    return {"data": data, "layout": layout}


def _rows(position: Position | None) -> list[tuple[int, float, float]]:
    """(token id, p, residual) of the tokens that have either; it shows before one is drawn."""
    if position is None or not position.residual_probs:
        return []
    distributions = zip(
        position.token_ids, position.target_probs, position.residual_probs, strict=True
    )
    rows = [row for row in list(distributions)[:TOP_TOKENS] if row[1] or row[2]]
    return sorted(rows, key=lambda row: (-row[2], -row[1]))[:SHOWN_TOKENS]


def _bars(role: str, name: str, values: list[tuple[int, float]], offset: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": [value for _, value in values],
        "y": [index + offset for index in range(len(values))],
        "width": [0.34 for _ in values],
        "text": [probability(value) for _, value in values],
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
