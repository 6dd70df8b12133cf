"""The seconds of a forward over its number of tokens: measurements, and a roofline fitted to them.

The functions turn numbers into a Plotly dict. Both axes are logarithmic, so that the part that is
bound by arithmetic is a straight line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specviz.figures.plain_line import plain_line, plain_marks
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, note, quiet_axis
from specviz.theory import Roofline

FURTHER = 4  # end of the x-axis divided by the largest measured number of tokens


def roofline_figure(
    measured: Sequence[tuple[int, float]], fit: Roofline, chosen: float | None = None
) -> Figure:
    """Return the figure of a forward's seconds over its number of tokens.

    `measured` has pairs of a number of tokens and seconds; `chosen` is a number of tokens to mark.
    """
    largest = FURTHER * max(count for count, _ in measured)
    ridge = min(max(1.0, fit.ridge), largest)
    dots = [(count, 1000 * seconds) for count, seconds in measured]
    bound = [(count, 1000 * fit.at(count)) for count in (1.0, ridge, largest)]
    marked = [] if chosen is None else [(chosen, 1000 * fit.at(chosen))]
    return {
        "data": [
            plain_line("expected", [x for x, _ in bound], [y for _, y in bound], 2.2),
            plain_marks("accepted", dots, 8),
            plain_marks("ink", marked, 14, "circle-open"),
        ],
        "layout": _layout([y for _, y in (*dots, *bound)], ridge, largest),
    }


def _layout(milliseconds: Sequence[float], ridge: float, largest: float) -> dict[str, Any]:
    layout = base_layout(260)
    layout["margin"] = {"l": 52, "r": 16, "t": 24, "b": 42}
    title = {"text": "tokens in one forward", "font": {"size": SMALL}}
    ticks = [1 << power for power in range(0, 11, 2) if 1 << power <= largest]
    # The axis starts a little left of 1 token, so that a mark at 1 covers no label of the y-axis.
    across = [-0.05, math.log10(largest)]
    layout["xaxis"] = quiet_axis(
        type="log", range=across, title=title, tickvals=ticks, showgrid=False
    )
    low, high = min(milliseconds) / 1.4, max(milliseconds) * 1.2
    span = [math.log10(low), math.log10(high)]
    times = [digit * 10.0**power for power in range(-4, 6) for digit in (1, 2, 5)]
    shown = [each for each in times if low <= each <= high]
    layout["yaxis"] = quiet_axis(
        type="log",
        range=span,
        tickvals=shown,
        ticktext=[f"{each:g} ms" for each in shown],
    )
    line = {"color": LIGHT["muted"], "width": 1.2, "dash": "dot"}
    upright = {"x0": ridge, "x1": ridge, "y0": 0, "y1": 1, "yref": "paper"}
    layout["shapes"] = [{"type": "line", **upright, "line": line, "layer": "below"}]
    above = {"y": 1, "yref": "paper", "yanchor": "bottom"}
    place = math.log10(ridge)
    layout["annotations"] = [
        note("reading the weights ", x=place, xanchor="right", **above),
        note(" arithmetic", x=place, xanchor="left", **above),
    ]
    return layout
