"""The parts of the time of a round: drafting, verifying, and the rest, which is Python's own work.

The functions turn seconds into a Plotly dict.
"""

from __future__ import annotations

from typing import Any

from specviz.figures.labels import milliseconds
from specviz.figures.theme import LIGHT, Figure, base_layout, hidden_axis, note
from specviz.metrics import RoundTotals

_PARTS = (("draft", "draft_time"), ("verify", "verify_time"), ("rest", "host_time"))


def time_split_figure(totals: RoundTotals) -> Figure:
    """Return one bar that is divided into the shares of the three parts.

    The label below each part has its mean milliseconds per round. `customdata` is the same mean in
    seconds. The figure is empty without rounds.
    """
    seconds = (totals.draft_seconds, totals.verify_seconds, totals.host_seconds)
    whole = sum(seconds)
    shares = [each / whole for each in seconds] if whole > 0 else []
    means = [each / totals.rounds for each in seconds] if totals.rounds else []
    percents = _whole_percents(shares)
    empty = _bar("", "grid", [] if shares else [1.0], [], [])
    empty["hoverinfo"] = "skip"
    data = [empty] + [
        _bar(name, role, shares[i : i + 1], means[i : i + 1], percents[i : i + 1])
        for i, (name, role) in enumerate(_PARTS)
    ]
    layout = base_layout(84)
    layout["margin"] = {"l": 4, "r": 4, "t": 4, "b": 4}
    layout["barmode"] = "stack"
    layout["xaxis"] = hidden_axis(range=[0, 1])
    layout["yaxis"] = hidden_axis(range=[-1.6, 0.6])
    layout["annotations"] = _labels(percents, means)
    return {"data": data, "layout": layout}


def _whole_percents(shares: list[float]) -> list[str]:
    """Return whole percentages that add up to 100; the largest remainders are rounded up.

    >>> _whole_percents([0.6124, 0.3828, 0.0048]), _whole_percents([0.614, 0.384, 0.002])
    (['61%', '38%', '1%'], ['62%', '38%', '<1%'])
    """
    whole = [int(100 * share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: whole[i] - 100 * shares[i])
    for i in by_remainder[: 100 - sum(whole)]:
        whole[i] += 1
    parts = zip(whole, shares, strict=True)
    return ["<1%" if each == 0 < share else f"{each}%" for each, share in parts]


def _bar(
    name: str, role: str, shares: list[float], means: list[float], percents: list[str]
) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": shares,
        "y": [0 for _ in shares],
        "width": [0.8 for _ in shares],
        "customdata": means,
        "hovertext": percents,
        "hovertemplate": f"{name} %{{hovertext}}<extra></extra>" if name else "",
        "marker": {"color": LIGHT[role], "line": {"color": LIGHT["card"], "width": 2}},
        "meta": {"role": role},
    }


def _labels(percents: list[str], means: list[float]) -> list[dict[str, Any]]:
    """Return the labels below the bar; their alignment (left, centre, right) prevents overlaps."""
    anchors = ((0.0, "left"), (0.5, "center"), (1.0, "right"))
    labels = []
    for (name, _), (x, anchor), share, mean in zip(_PARTS, anchors, percents, means, strict=False):
        text = f"{name} {share}<br>{milliseconds(mean)}"
        labels.append(note(text, x=x, y=-0.55, xanchor=anchor, yanchor="top", align=anchor))
    return labels
