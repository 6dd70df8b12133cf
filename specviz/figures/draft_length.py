"""A chart of the speedup by draft length: theory's curve, the chosen length, and measurements.

The functions turn numbers into a Plotly dict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz import theory
from specviz.figures.plain_line import plain_line, plain_marks
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, quiet_axis

LONGEST = 16


def draft_length_figure(
    a: float, c: float, v: float, length: int, measured: Sequence[tuple[int, float]] = ()
) -> Figure:
    """Return the figure of the speedup by draft length.

    `measured` has pairs of length and speedup. a is the acceptance rate, c the cost ratio and v the
    verification overhead, as in `theory`.
    """
    lengths = range(1, LONGEST + 1)
    curve = [theory.speedup(a, each, c, v) for each in lengths]
    at = theory.speedup(a, length, c, v)
    return {
        "data": [
            plain_line("expected", list(lengths), curve, 2.2),
            plain_marks("ink", [(length, at)], 13, "circle-open"),
            plain_marks("accepted", measured, 9),
        ],
        "layout": _layout([*curve, at, *(speedup for _, speedup in measured)]),
    }


def _layout(values: Sequence[float]) -> dict[str, Any]:
    layout = base_layout(280)
    layout["margin"] = {"l": 44, "r": 16, "t": 14, "b": 42}
    title = {"text": "draft length K", "font": {"size": SMALL}}
    ends = [0.5, LONGEST + 0.5]
    layout["xaxis"] = quiet_axis(range=ends, title=title, dtick=2, tick0=2, showgrid=False)
    span = [min(0.0, *values), 1.1 * max(1.6, *values)]
    layout["yaxis"] = quiet_axis(range=span, ticksuffix="×", nticks=6)
    line = {"color": LIGHT["baseline"], "width": 1.2, "dash": "dash"}
    across = {"x0": 0, "x1": 1, "y0": 1, "y1": 1}
    layout["shapes"] = [{"type": "line", "xref": "paper", **across, "line": line, "layer": "below"}]
    return layout
