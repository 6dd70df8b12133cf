"""The speedup along one axis of a sweep: measured with its spread, next to theory and noise.

The functions turn the points of a sweep into a Plotly dict. Measurements are points with error
bars, theory is a dashed tinted line, and noise is a hatched band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.figures.lab_axis import Value, value_axis
from specviz.figures.plain_line import plain_line
from specviz.figures.theme import LIGHT, Figure, base_layout

CLEAR = "rgba(0,0,0,0)"


def lab_speedup_figure(
    title: str,
    values: Sequence[Value],
    points: Mapping[int, Mapping[str, Any]],
    noise: Sequence[float] = (),
    picked: int | None = None,
) -> Figure:
    """Return the figure of `points`, keyed by their index among `values`.

    Values without a measurement keep their space. If the values are names, they have no order, so
    no line joins them, and theory is a mark with an error bar. `noise` holds ratios of baseline
    runs to each other. `customdata` of the measured points is their index.
    """
    places = sorted(points)
    theory = [place for place in places if points[place]["theory_band"]]
    bands = [] if _are_names(values) else [points[place]["theory_band"] for place in theory]
    return {
        "data": [
            _noise_band(len(values), noise),
            _theory_band(theory[: len(bands)], bands),
            _theory_marks(theory, points)
            if _are_names(values)
            else plain_line(
                "expected", theory, [points[p]["theory_speedup"] for p in theory], 1.8, "dash"
            ),
            _joined([] if _are_names(values) else places, points),
            _ring([each for each in places if each == picked], points),
            _measured(places, points),
        ],
        "layout": _layout(title, values, points, noise),
    }


def _are_names(values: Sequence[Value]) -> bool:
    return isinstance(values[0], str)


def noise_range(noise: Sequence[float]) -> tuple[float, float]:
    """Return the smallest and the largest ratio of the speeds of two equal runs.

    `noise` has measured ratios. Either of the two runs could have been the first, so the inverse of
    each ratio counts as well. Without measurements the result is (1, 1).

    >>> noise_range([0.8, 1.1])
    (0.8, 1.25)
    """
    most = max([1.0, *noise, *(1 / each for each in noise)])
    return 1 / most, most


def _noise_band(count: int, noise: Sequence[float]) -> dict[str, Any]:
    """Return the band that shows the noise, as wide as an axis of `count` values."""
    ends = noise_range(noise) if noise else ()
    left, right = -0.5, count - 0.5
    pattern = {"shape": "/", "fgcolor": LIGHT["muted"], "bgcolor": CLEAR, "size": 7}
    return plain_line(
        "muted", [left, right, right, left, left][: 5 * len(ends)], _rectangle(ends), 0.8
    ) | {"fill": "toself", "fillcolor": CLEAR, "fillpattern": pattern | {"solidity": 0.12}}


def _rectangle(ends: Sequence[float]) -> list[float | None]:
    if not ends:
        return []
    low, high = ends
    return [low, low, high, high, low]


def _theory_band(places: Sequence[int], bands: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return the band of theory's speedups as a closed line around its area."""
    lows, highs = [low for low, _ in bands], [high for _, high in bands]
    outline = plain_line("expected", [*places, *places[::-1]], [*lows, *highs[::-1]], 0)
    return outline | {"fill": "toself", "fillcolor": LIGHT["expected"], "opacity": 0.18}


def _theory_marks(places: Sequence[int], points: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return marks for theory, a little to the right of the measured points."""
    found = [points[place] for place in places]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [place + 0.09 for place in places],
        "y": [each["theory_speedup"] for each in found],
        "error_y": _error_bars(found, "theory_speedup", "theory_band")
        | {"color": LIGHT["expected"], "thickness": 1, "width": 0},
        "marker": {
            "symbol": "line-ew",
            "size": 12,
            "color": LIGHT["expected"],
            "opacity": 1,
            "line": {"color": LIGHT["expected"], "width": 2},
        },
        "hoverinfo": "skip",
        "meta": {"role": "expected"},
    }


def _error_bars(points: Sequence[Mapping[str, Any]], middle: str, ends: str) -> dict[str, Any]:
    """Return the error bars of points.

    `middle` is the key of a point's value, and `ends` the key of the two ends of its error bar.
    """
    return {
        "type": "data",
        "symmetric": False,
        "array": [each[ends][1] - each[middle] for each in points],
        "arrayminus": [each[middle] - each[ends][0] for each in points],
    }


def _joined(places: Sequence[int], points: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a line through neighbouring points, with gaps where a value was not measured."""
    x: list[float] = []
    y: list[float | None] = []
    for place in places:
        if place - 1 not in points and x:
            x, y = [*x, place - 0.5], [*y, None]
        x, y = [*x, place], [*y, points[place]["speedup"]]
    return plain_line("accepted", x, y, 2.2)


def _measured(places: Sequence[int], points: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    found = [points[place] for place in places]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(places),
        "y": [each["speedup"] for each in found],
        "error_y": _error_bars(found, "speedup", "speedup_spread")
        | {"color": LIGHT["accepted"], "thickness": 1.4, "width": 4},
        "marker": {"color": LIGHT["accepted"], "size": 9, "opacity": 1},
        "customdata": list(places),
        "hovertext": [hover(each) for each in found],
        "hoverinfo": "text",
        "cliponaxis": False,
        "meta": {"role": "accepted"},
    }


def _ring(places: Sequence[int], points: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a ring around the selected point, which the other charts show in detail."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(places),
        "y": [points[place]["speedup"] for place in places],
        "marker": {
            "color": LIGHT["card"],
            "size": 19,
            "opacity": 1,
            "line": {"color": LIGHT["ink"], "width": 1.6},
        },
        "cliponaxis": False,
        "hoverinfo": "skip",
        "meta": {"role": "card"},
    }


def hover(point: Mapping[str, Any]) -> str:
    """Return the numbers of a point for the hover text, one per line."""
    low, high = point["speedup_spread"]
    lines = [f"{point['speedup']:.2f}× measured ({low:.2f} to {high:.2f})"]
    if point["theory_band"]:
        low, high = point["theory_band"]
        lines.append(f"{point['theory_speedup']:.2f}× explained ({low:.2f} to {high:.2f})")
    if point["acceptance_rate"] is not None:
        lines.append(f"acceptance rate {point['acceptance_rate']:.2f}")
    return "<br>".join(lines)


def _layout(
    title: str,
    values: Sequence[Value],
    points: Mapping[int, Mapping[str, Any]],
    noise: Sequence[float],
) -> dict[str, Any]:
    layout = base_layout(280)
    layout["margin"] = {"l": 44, "r": 16, "t": 14, "b": 42}
    ends = [end for each in points.values() for end in each["speedup_spread"]]
    ends += [end for each in points.values() for end in each["theory_band"] or ()]
    ends += noise_range(noise)
    low, high = min([0.85, *ends]), max([1.4, *ends])
    room = 0.06 * (high - low)
    layout["xaxis"] = value_axis(title, values)
    layout["yaxis"] |= {"range": [low - room, high + room], "ticksuffix": "×", "nticks": 6}
    layout["shapes"] = [_baseline()]
    return layout


def _baseline() -> dict[str, Any]:
    line = {"color": LIGHT["baseline"], "width": 1.2, "dash": "dash"}
    ends = {"x0": 0, "x1": 1, "y0": 1, "y1": 1}
    return {"type": "line", "xref": "paper", **ends, "line": line, "layer": "below"}
