"""The counters of a serving engine that a user watches: over time, and by draft position.

The functions turn numbers into a Plotly dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.figures.plain_line import plain_line, plain_marks
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, quiet_axis

LEAST_SECONDS = 60.0  # smallest length of the time axis in seconds
_HEIGHT = 200


def over_time_figure(
    times: Sequence[float], lines: Mapping[str, Sequence[float | None]], *, is_share: bool = False
) -> Figure:
    """Return a chart with one line for each item of `lines`; the x-axis shows seconds.

    `times` are increasing seconds, and `lines` maps the role of a line's colour to the values of
    the line at these times. A value of None makes a gap in the line. If `is_share`, the y-axis goes
    from 0 to 100 %.
    """
    points = {
        role: [(x, y) for x, y in zip(times, values, strict=True) if y is not None]
        for role, values in lines.items()
    }
    layout = _layout()
    title = {"text": "seconds", "font": {"size": SMALL}}
    most = max(LEAST_SECONDS, *times) if times else LEAST_SECONDS
    layout["xaxis"] = quiet_axis(range=[-most / 50, most], title=title, nticks=7, showgrid=False)
    highest = max((y for each in points.values() for _, y in each), default=0.0)
    layout["yaxis"] = (
        quiet_axis(range=[0, 1.04], tickformat=".0%", nticks=6)
        if is_share
        else quiet_axis(range=[0, 1.12 * highest or 1.0], nticks=6)
    )
    data = [plain_line(role, times, values, 2.2) for role, values in lines.items()]
    data += [plain_marks(role, each, 5, "circle-open") for role, each in points.items()]
    return {"data": data, "layout": layout}


def positions_figure(shares: Sequence[float]) -> Figure:
    """Return a chart with one bar per draft position.

    The bar is the share of drafts whose tokens were all accepted up to and including this position.
    """
    layout = _layout()
    places = list(range(1, len(shares) + 1))
    title = {"text": "guess of a draft", "font": {"size": SMALL}}
    layout["xaxis"] = quiet_axis(
        title=title, range=[0.5, (len(shares) or 4) + 0.5], dtick=1, showgrid=False
    )
    layout["yaxis"] = quiet_axis(range=[0, 1.04], tickformat=".0%", nticks=6)
    bar = {
        "type": "bar",
        "x": places,
        "y": list(shares),
        "width": [0.6] * len(places),
        "marker": {"color": LIGHT["accepted"]},
        "hovertemplate": "guess %{x}: %{y:.1%} of all drafts<extra></extra>",
        "meta": {"role": "accepted"},
    }
    return {"data": [bar], "layout": layout}


def _layout() -> dict[str, Any]:
    layout = base_layout(_HEIGHT)
    layout["margin"] = {"l": 48, "r": 16, "t": 12, "b": 42}
    return layout
