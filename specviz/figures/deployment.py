"""Speedup over the rows of a batch, with a mark at the rows that are planned.

Pure: numbers to a Plotly dict. The axis of the rows is logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specviz.figures.plain_line import plain_line, plain_marks
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, quiet_axis


def deployment_figure(gains: Sequence[tuple[int, float]], chosen: tuple[int, float]) -> Figure:
    """`gains` pairs rising numbers of rows with speedups; `chosen` is such a pair."""
    rows, speedups = zip(*gains, strict=True)
    return {
        "data": [
            plain_line("expected", rows, speedups, 2.2),
            plain_marks("ink", [chosen], 13, "circle-open"),
        ],
        "layout": _layout([*speedups, chosen[1]], rows[-1]),
    }


def _layout(gains: Sequence[float], most_rows: int) -> dict[str, Any]:
    layout = base_layout(240)
    layout["margin"] = {"l": 44, "r": 16, "t": 14, "b": 42}
    title = {"text": "rows in the batch", "font": {"size": SMALL}}
    ticks = [1 << power for power in range(0, 10, 2)]
    ends = [-0.05, math.log10(most_rows) + 0.05]
    layout["xaxis"] = quiet_axis(
        type="log", range=ends, title=title, tickvals=ticks, showgrid=False
    )
    layout["yaxis"] = quiet_axis(range=[0, 1.1 * max(1.4, *gains)], ticksuffix="×", nticks=6)
    line = {"color": LIGHT["baseline"], "width": 1.2, "dash": "dash"}
    across = {"x0": 0, "x1": 1, "y0": 1, "y1": 1}
    layout["shapes"] = [{"type": "line", "xref": "paper", **across, "line": line, "layer": "below"}]
    return layout
