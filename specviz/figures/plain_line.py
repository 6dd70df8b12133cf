"""One line of a chart: no markers, nothing to hover.

Pure: columns to a Plotly dict; knows nothing of what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.theme import LIGHT


def plain_line(
    role: str, x: Sequence[float], y: Sequence[float | None], width: float, dash: str = "solid"
) -> dict[str, Any]:
    """In the colour of `role`; None in `y` is a gap."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "line": {"color": LIGHT[role], "width": width, "dash": dash},
        "hoverinfo": "skip",
        "meta": {"role": role},
    }
