"""Acceptance at each depth of the draft, compared with the constant rate that theory assumes.

The functions turn counts into a Plotly dict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, note, quiet_axis
from specviz.metrics import DepthAcceptance

MOST_LABELS = 6  # number of labels that fit next to each other on a small screen


def depth_figure(by_depth: Sequence[DepthAcceptance], rate: float | None) -> Figure:
    """Return the chart of the acceptance at each depth.

    A line shows `rate`, the acceptance rate over all depths. The acceptance at a depth is the share
    of rounds in which a token at this depth was accepted, among the rounds whose verification
    reached this depth. `customdata` has both numbers of rounds. Without counts the chart has no
    points.
    """
    deepest = max((each.depth for each in by_depth), default=5)
    ends = _range(deepest) if rate is not None else []
    constant = {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": [rate for _ in ends],
        "line": {"color": LIGHT["theory"], "width": 1.2, "dash": "dash"},
        "hoverinfo": "skip",
        "meta": {"role": "theory"},
    }
    return {"data": [constant, _measured(by_depth, rate or 0.0)], "layout": _layout(deepest, rate)}


def _measured(by_depth: Sequence[DepthAcceptance], rate: float) -> dict[str, Any]:
    most = max((each.reached for each in by_depth), default=1)
    step = _step(len(by_depth))
    passed = "depth %{x}: %{customdata[0]} of %{customdata[1]} passed, %{y:.2f}"
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "x": [each.depth for each in by_depth],
        "y": [each.rate for each in by_depth],
        "text": ["" if i % step else f"{each.rate:.2f}" for i, each in enumerate(by_depth)],
        "textposition": [f"{_side(each.rate, rate)} center" for each in by_depth],
        "textfont": {"size": SMALL, "color": LIGHT["muted"]},
        "customdata": [[each.passed, each.reached] for each in by_depth],
        "hovertemplate": f"{passed}<extra></extra>",
        "line": {"color": LIGHT["accepted"], "width": 2},
        "marker": {
            "color": LIGHT["accepted"],
            "opacity": 1,
            "size": [6 + 8 * (each.reached / most) ** 0.5 for each in by_depth],
        },
        "cliponaxis": False,
        "meta": {"role": "accepted"},
    }


def _side(value: float, rate: float) -> str:
    """Return on which side of a point its label is, "top" or "bottom".

    The label must not overlap the line of the constant rate.
    """
    return "bottom" if 0.15 < value < rate else "top"


def _range(deepest: int) -> list[float]:
    """Return the x-range, with space for half a label at both ends."""
    room = max(0.5, 0.08 * deepest)
    return [1 - room, deepest + room]


def _step(depths: int) -> int:
    """Return the distance between ticks: 1 for a tick at every depth, 2 at every second depth."""
    return max(1, math.ceil(depths / MOST_LABELS))


def _layout(deepest: int, rate: float | None) -> dict[str, Any]:
    layout = base_layout(220)
    layout["margin"] = {"l": 40, "r": 52, "t": 12, "b": 40}
    font = {"size": SMALL, "color": LIGHT["muted"]}
    layout["xaxis"] = quiet_axis(
        range=_range(deepest),
        showgrid=False,
        tick0=1,
        dtick=_step(deepest),
        title={"text": "depth", "font": font, "standoff": 6},
    )
    layout["yaxis"] = quiet_axis(range=[0, 1.1], tickvals=[0, 0.5, 1])
    label = "" if rate is None else f"α {rate:.2f}"
    layout["annotations"] = [
        note(label, x=_range(deepest)[1], y=rate or 0, xanchor="left", yanchor="middle", xshift=4)
    ]
    return layout
