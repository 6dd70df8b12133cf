"""A chart of the speedup by the number of sequences in a batch, with a mark at the planned number.

The functions turn numbers into a Plotly dict. The x-axis is logarithmic, and the region below 1 is
shaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specviz.figures.plain_line import plain_line, plain_marks
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, note, quiet_axis


def batch_speedup_figure(
    gains: Sequence[tuple[int, float]], chosen: tuple[int, float], largest: int | None = None
) -> Figure:
    """Return the curve of the speedup over the batch size, with a mark at `chosen`.

    `gains` has pairs of (batch size, speedup), sorted by batch size. `chosen` is such a pair.
    `largest` is the largest batch that fits into memory. Beyond it the line is dotted.
    """
    most = gains[-1][0] if largest is None else largest
    inside = [gain for gain in gains if gain[0] <= most]
    beyond = gains[max(0, len(inside) - 1) :] if len(inside) < len(gains) else []
    layout = _layout([*(gain for _, gain in gains), chosen[1]], gains[-1][0])
    if beyond:
        place = {"x": math.log10(max(1, most)), "y": 1, "yref": "paper", "yanchor": "bottom"}
        # True if the largest batch is in the right half of the logarithmic axis.
        is_late = most * most > gains[-1][0]
        side = "right" if is_late else "left"
        layout["annotations"].append(note(" no more fit ", xanchor=side, **place))
    return {
        "data": [
            plain_line("expected", *_columns(inside), 2.2),
            plain_line("expected", *_columns(beyond), 2.2, "dot"),
            plain_marks("ink", [chosen], 13, "circle-open"),
        ],
        "layout": layout,
    }


def _columns(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _layout(gains: Sequence[float], most_rows: int) -> dict[str, Any]:
    layout = base_layout(240)
    layout["margin"] = {"l": 44, "r": 16, "t": 22, "b": 42}
    title = {"text": "requests at once", "font": {"size": SMALL}}
    ticks = [1 << power for power in range(0, 11, 2)]
    ends = [-0.05, math.log10(most_rows) + 0.05]
    layout["xaxis"] = quiet_axis(
        type="log", range=ends, title=title, tickvals=ticks, showgrid=False
    )
    layout["yaxis"] = quiet_axis(range=[0, 1.1 * max(1.4, *gains)], ticksuffix="×", nticks=6)
    line = {"color": LIGHT["baseline"], "width": 1.2, "dash": "dash"}
    across = {"x0": 0, "x1": 1, "xref": "paper", "layer": "below"}
    loses = {"fillcolor": LIGHT["rejected"], "opacity": 0.1, "line": {"width": 0}}
    layout["shapes"] = [
        {"type": "rect", **across, "y0": 0, "y1": 1, **loses},
        {"type": "line", **across, "y0": 1, "y1": 1, "line": line},
    ]
    layout["annotations"] = [note("loses", x=1, xref="paper", y=0.08, xanchor="right")]
    return layout
