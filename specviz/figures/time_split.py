"""Where the time of a round goes: drafting, verifying, and the rest, which is Python's own work.

Pure: seconds to a Plotly dict.
"""

from __future__ import annotations

from typing import Any

from specviz.figures.labels import milliseconds
from specviz.figures.theme import LIGHT, Figure, base_layout, hidden_axis, note
from specviz.metrics import RoundTotals

_PARTS = (("draft", "draft_time"), ("verify", "verify_time"), ("rest", "host_time"))


def time_split_figure(totals: RoundTotals) -> Figure:
    """One bar of three shares with the mean milliseconds per round under each; works empty.

    `customdata` is the mean in seconds.
    """
    seconds = (totals.draft_seconds, totals.verify_seconds, totals.host_seconds)
    whole = sum(seconds)
    shares = [each / whole for each in seconds] if whole > 0 else []
    means = [each / totals.rounds for each in seconds] if totals.rounds else []
    empty = _bar("", "grid", [] if shares else [1.0], [])
    empty["hoverinfo"] = "skip"
    data = [empty] + [
        _bar(name, role, shares[i : i + 1], means[i : i + 1])
        for i, (name, role) in enumerate(_PARTS)
    ]
    layout = base_layout(84)
    layout["margin"] = {"l": 4, "r": 4, "t": 4, "b": 4}
    layout["barmode"] = "stack"
    layout["xaxis"] = hidden_axis(range=[0, 1])
    layout["yaxis"] = hidden_axis(range=[-1.6, 0.6])
    layout["annotations"] = _labels(shares, means)
    return {"data": data, "layout": layout}


def _bar(name: str, role: str, shares: list[float], means: list[float]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": shares,
        "y": [0 for _ in shares],
        "width": [0.8 for _ in shares],
        "customdata": means,
        "hovertemplate": f"{name} %{{x:.0%}}<extra></extra>" if name else "",
        "marker": {"color": LIGHT[role], "line": {"color": LIGHT["card"], "width": 2}},
        "meta": {"role": role},
    }


def _labels(shares: list[float], means: list[float]) -> list[dict[str, Any]]:
    """Draft from the left, verify in the middle, the rest from the right: they never collide."""
    anchors = ((0.0, "left"), (0.5, "center"), (1.0, "right"))
    labels = []
    for (name, _), (x, anchor), share, mean in zip(_PARTS, anchors, shares, means, strict=False):
        text = f"{name} {share:.0%}<br>{milliseconds(mean)}"
        labels.append(note(text, x=x, y=-0.55, xanchor=anchor, yanchor="top", align=anchor))
    return labels
