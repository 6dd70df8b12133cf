"""Lines and points without hover texts, for all charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.theme import LIGHT


def plain_line(
    role: str, x: Sequence[float], y: Sequence[float | None], width: float, dash: str = "solid"
) -> dict[str, Any]:
    """Return a line in the colour of `role`; None in `y` is a gap."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "line": {"color": LIGHT[role], "width": width, "dash": dash},
        "hoverinfo": "skip",
        "meta": {"role": role},
    }


def plain_marks(
    role: str, points: Sequence[tuple[float, float]], size: int, symbol: str = "circle"
) -> dict[str, Any]:
    """Return points (x, y) in the colour of `role`, which are also visible on the chart's edge."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "marker": {"color": LIGHT[role], "size": size, "symbol": symbol, "line": {"width": 2.5}},
        "cliponaxis": False,
        "hoverinfo": "skip",
        "meta": {"role": role},
    }
