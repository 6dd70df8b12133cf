"""The seconds of a forward over its number of tokens: measurements, and a line fitted to them.

The functions turn numbers into a Plotly dict. Both axes are logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specviz.figures.plain_line import plain_line, plain_marks
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, note, quiet_axis
from specviz.theory import ForwardLine

STEPS = 40  # points of the drawn line


def forward_line_figure(
    measured: Sequence[tuple[int, float]],
    fit: ForwardLine,
    limit: float,
    chosen: float | None = None,
) -> Figure:
    """Return the figure of a forward's seconds over its number of tokens.

    `measured` has pairs of a number of tokens and seconds, and `limit` is the largest number of
    tokens that is drawn. The line is dashed where nothing was measured. `chosen` is a number of
    tokens to mark.
    """
    largest = max(count for count, _ in measured)
    dots = [(count, 1000 * seconds) for count, seconds in measured]
    known, beyond = _line(fit, 1.0, largest), _line(fit, largest, max(limit, largest))
    marked = [] if chosen is None else [(chosen, 1000 * fit.at(chosen))]
    ridge = None if fit.ridge is None or not 1 <= fit.ridge <= limit else fit.ridge
    return {
        "data": [
            plain_line("expected", [x for x, _ in known], [y for _, y in known], 2.2),
            plain_line("expected", [x for x, _ in beyond], [y for _, y in beyond], 2.2, "dash"),
            plain_marks("accepted", dots, 8),
            plain_marks("ink", marked, 14, "circle-open"),
        ],
        "layout": _layout([y for _, y in (*dots, *known, *beyond)], ridge, max(limit, largest)),
    }


def _line(fit: ForwardLine, low: float, high: float) -> list[tuple[float, float]]:
    counts = [low * (high / low) ** (step / STEPS) for step in range(STEPS + 1)]
    return [(count, 1000 * fit.at(count)) for count in counts]


def _layout(milliseconds: Sequence[float], ridge: float | None, largest: float) -> dict[str, Any]:
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
    if ridge is None:
        return layout
    line = {"color": LIGHT["muted"], "width": 1.2, "dash": "dot"}
    upright = {"x0": ridge, "x1": ridge, "y0": 0, "y1": 1, "yref": "paper"}
    layout["shapes"] = [{"type": "line", **upright, "line": line, "layer": "below"}]
    above = {"y": 1, "yref": "paper", "yanchor": "bottom"}
    place = math.log10(ridge)
    layout["annotations"] = [
        note("reading takes longer ", x=place, xanchor="right", **above),
        note(" arithmetic takes longer", x=place, xanchor="left", **above),
    ]
    return layout
