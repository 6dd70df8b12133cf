"""What a serving engine counts while one watches: over time, and by position of the draft.

Pure: numbers to a Plotly dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.figures.plain_line import plain_line, plain_marks
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, quiet_axis

LEAST_SECONDS = 60.0  # that the axis of time shows
_HEIGHT = 200


def over_time_figure(
    times: Sequence[float], lines: Mapping[str, Sequence[float | None]], *, is_share: bool = False
) -> Figure:
    """A line for each role, its values at `times` (seconds, rising); None is a gap: nothing was
    counted then.

    A share has an axis from 0 to 1, in percent.
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
    """A bar for each place of a draft: of all drafts, how many were accepted up to there."""
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
