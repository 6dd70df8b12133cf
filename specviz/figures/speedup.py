"""The cumulative speedup of a race, next to the speedup that theory expects.

The functions turn points into a Plotly dict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.plain_line import plain_line
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, note, quiet_axis
from specviz.metrics import SpeedupPoint, TheoryBand


def speedup_figure(points: Sequence[SpeedupPoint], theory_band: TheoryBand | None = None) -> Figure:
    """Return a chart of the speedup; it is empty without points.

    The x-axis shows the seconds of the lanes' own clocks.

    `customdata` of the line holds the number of tokens of the speculative lane. `hovertext` is ""
    for most points. If other work on the machine slowed a lane, the measured speedup can be larger
    than the target forwards allow. `hovertext` then holds the largest possible speedup.
    """
    last = max((point.seconds for point in points), default=1.0)
    line = plain_line("ink", [p.seconds for p in points], [p.speedup for p in points], 2.4)
    line["customdata"] = [point.tokens for point in points]
    line["hovertext"] = [_limit(point) for point in points]
    line["hovertemplate"] = "%{y:.2f}× after %{x:.2f} s<br>%{customdata} tokens<extra></extra>"
    return {
        "data": [
            *_theory(theory_band, last),
            plain_line("baseline", [0, last], [1, 1], 1.2, "dash"),
            line,
            _end_point(points),
        ],
        "layout": _layout(points, theory_band, last),
    }


def _limit(point: SpeedupPoint) -> str:
    return f"{point.limit:.2f}" if point.is_disturbed else ""


def _theory(band: TheoryBand | None, last: float) -> list[dict[str, Any]]:
    """Return the band of speedups that theory expects: two edges, and a thin line at the mean."""
    x = [0.0, last] if band else []
    low, high, middle = (
        plain_line("grid", x, [band.low] * 2 if band else [], 0),
        plain_line("grid", x, [band.high] * 2 if band else [], 0),
        plain_line("theory", x, [band.expected] * 2 if band else [], 1.2),
    )
    high |= {"fill": "tonexty", "fillcolor": LIGHT["grid"]}
    return [low, high, middle]


def _end_point(points: Sequence[SpeedupPoint]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [point.seconds for point in points[-1:]],
        "y": [point.speedup for point in points[-1:]],
        "marker": {"color": LIGHT["ink"], "size": 10},
        "cliponaxis": False,
        "hoverinfo": "skip",
        "meta": {"role": "ink"},
    }


def _layout(points: Sequence[SpeedupPoint], band: TheoryBand | None, last: float) -> dict[str, Any]:
    layout = base_layout(240)
    layout["margin"] = {"l": 44, "r": 62, "t": 28 if band else 12, "b": 40}
    # The speedups in the first tenth of a run vary strongly, and a very high one would flatten the
    # rest of the curve. So a high one lengthens the axis at most to double length.
    speedups = [point.speedup for point in points]
    settled = [point.speedup for point in points if point.seconds >= last / 10]
    edges = [band.high, band.low] if band else []
    low = min([0.8, *speedups, *edges])
    high = max([2.0, *settled, *edges])
    high = max(high, min(2 * high, max(speedups, default=0.0)))
    layout["xaxis"] = quiet_axis(
        range=[0, last],
        showgrid=False,
        rangemode="tozero",
        title=_axis_title("own time (s)"),
    )
    layout["yaxis"] = quiet_axis(range=[low - 0.1, high * 1.1], ticksuffix="×", nticks=5)
    layout["annotations"] = [
        note(
            "grey: explained by this run’s α and costs" if band else "",
            xref="paper",
            x=1,
            yref="paper",
            y=1,
            xanchor="right",
            yanchor="bottom",
            yshift=4,
        ),
        note("baseline", x=last, y=1, xanchor="left", yanchor="middle", xshift=10),
    ]
    return layout


def _axis_title(text: str) -> dict[str, Any]:
    return {"text": text, "font": {"size": SMALL, "color": LIGHT["muted"]}, "standoff": 6}
