"""The time per token along one axis of a sweep, split by the parts of the work.

The functions turn the points of a sweep into a Plotly dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.figures.lab_axis import Value, value_axis
from specviz.figures.theme import LIGHT, Figure, base_layout

# Each part of the work has the key of its seconds in a point, and the role of its colour.
_PARTS = {
    "prefill": ("prefill_seconds", "card"),
    "draft prefill": ("draft_prefill_seconds", "draft_time"),
    "draft": ("draft_seconds", "draft_time"),
    "verify": ("verify_seconds", "verify_time"),
    "rest": ("host_seconds", "host_time"),
}
_HATCHING = {"shape": "/", "fgcolor": LIGHT["muted"], "bgcolor": LIGHT["card"], "size": 5}


def lab_times_figure(
    title: str,
    values: Sequence[Value],
    points: Mapping[int, Mapping[str, Any]],
    picked: int | None = None,
) -> Figure:
    """Return stacked milliseconds per emitted token, with a mark at the baseline's time.

    The keys of `points` are indices into `values`. `customdata` of a bar is the same index.
    """
    places = sorted(points)
    data = [_bar(part, places, points) for part in _PARTS]
    return {
        "data": [*data, _halo(places, points), _baseline(places, points)],
        "layout": _layout(title, values, picked),
    }


def _milliseconds(point: Mapping[str, Any], part: str) -> float:
    """Return the milliseconds per token that one part of the work takes.

    The result is the part's share of the sum of all parts, multiplied by the time per token. The
    seconds of the parts cannot be used directly: in files of older versions they are sums over all
    repeats, but the tokens per second are those of the median repeat.
    """
    whole = sum(point[key] for key, _ in _PARTS.values())
    share = point[part] / whole if whole else 0.0
    return float(1000 * share / point["tokens_per_second"])


def _bar(
    part: str, places: Sequence[int], points: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    key, role = _PARTS[part]
    costs = [_milliseconds(points[each], key) for each in places]
    return {
        "type": "bar",
        "name": part,
        "x": list(places),
        "y": costs,
        "width": [0.62 for _ in places],
        "customdata": list(places),
        "hovertemplate": f"{part} %{{y:.2f}} ms a token<extra></extra>",
        "marker": {"color": LIGHT[role], "line": {"color": LIGHT["card"], "width": 1}}
        | ({"pattern": _HATCHING} if part.endswith("prefill") else {}),
        "meta": {"role": role},
    }


def _baseline(places: Sequence[int], points: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "baseline",
        "x": list(places),
        "y": [1000 / points[each]["baseline_tokens_per_second"] for each in places],
        "marker": {
            "symbol": "line-ew",
            "size": 22,
            "color": LIGHT["ink"],
            "opacity": 1,
            "line": {"color": LIGHT["ink"], "width": 2.4},
        },
        "customdata": list(places),
        "hovertemplate": "baseline %{y:.2f} ms a token<extra></extra>",
        "meta": {"role": "ink"},
    }


def _halo(places: Sequence[int], points: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a light outline for the baseline's mark, because a bar behind it may have the same
    colour.
    """
    mark = _baseline(places, points)
    line = {"color": LIGHT["card"], "width": 6}
    marker = mark["marker"] | {"color": LIGHT["card"], "size": 25, "line": line}
    return mark | {"marker": marker, "hoverinfo": "skip", "meta": {"role": "card"}}


def _layout(title: str, values: Sequence[Value], picked: int | None) -> dict[str, Any]:
    layout = base_layout(220)
    layout["margin"] = {"l": 44, "r": 12, "t": 10, "b": 42}
    layout["barmode"] = "stack"
    layout["xaxis"] = value_axis(title, values)
    layout["yaxis"] |= {"rangemode": "tozero", "ticksuffix": " ms", "nticks": 5}
    layout["shapes"] = [] if picked is None else [_ground(picked)]
    return layout


def _ground(place: int) -> dict[str, Any]:
    """Return the shading behind the bar of the selected point, which the other charts show in
    detail.
    """
    ends = {"x0": place - 0.46, "x1": place + 0.46, "y0": 0, "y1": 1}
    line = {"width": 0, "color": LIGHT["grid"]}
    return {
        "type": "rect",
        "yref": "paper",
        **ends,
        "line": line,
        "fillcolor": LIGHT["muted"],
        "opacity": 0.14,
        "layer": "below",
    }
