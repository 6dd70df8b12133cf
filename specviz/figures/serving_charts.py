"""The memory of a planned deployment, and how long requests wait as the load grows.

The functions turn numbers into a Plotly dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.figures.plain_line import plain_line, plain_marks
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, note, quiet_axis

GIGA = 1e9
# Key of a kind of content in a GPU's memory -> its name in the chart, and the role of its colour.
_PARTS = {
    "target": ("target", "verify_time"),
    "draft": ("draft", "draft_time"),
    "target_cache": ("cache", "accepted"),
    "draft_cache": ("draft’s cache", "recovered"),
    "activations": ("activations", "host_time"),
}
# Each way of decoding has the role of its colour, and a line style. The page has the legend.
_WAYS = {
    "plain": ("baseline", "solid"),
    "speculative": ("expected", "solid"),
    "switched": ("accepted", "dot"),
}
# a limit is drawn only if it is at most four times as high as everything else in the chart
FAR = 4.0


def memory_figure(groups: Sequence[Mapping[str, float]]) -> Figure:
    """Return a chart of the memory of one GPU of each group of GPUs, with a line at the limit.

    A GPU's bar shows the parts of the memory in GB. Each item of `groups` maps names to bytes: each
    key of `_PARTS` to the size of that part, `used` to the bytes in use, and `limit` to the memory
    of the GPU.
    """
    names = ["a card"] if len(groups) == 1 else ["target’s card", "draft’s card"]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "x": [group[part] / GIGA for group in groups],
            "y": names,
            "width": [0.55] * len(groups),
            "hovertemplate": f"{title} %{{x:.1f}} GB<extra></extra>",
            "marker": {"color": LIGHT[role], "line": {"color": LIGHT["card"], "width": 1}},
            "meta": {"role": role},
        }
        for part, (title, role) in _PARTS.items()
        if any(group[part] > 0 for group in groups)
    ]
    layout = base_layout(240)
    layout["margin"] = {"l": 84, "r": 16, "t": 26, "b": 42}
    layout["barmode"] = "stack"
    limit = max(group["limit"] for group in groups) / GIGA
    most = max(limit, *(group["used"] / GIGA for group in groups))
    layout["xaxis"] = quiet_axis(range=[0, 1.06 * most], ticksuffix=" GB", nticks=6)
    layout["yaxis"] = quiet_axis(showgrid=False, autorange="reversed")
    line = {"color": LIGHT["rejected"], "width": 1.6, "dash": "dash"}
    upright = {"x0": limit, "x1": limit, "y0": 0, "y1": 1, "yref": "paper"}
    layout["shapes"] = [{"type": "line", **upright, "line": line}]
    place = {"x": limit, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": "right"}
    layout["annotations"] = [note(f"may be used: {limit:.0f} GB", **place)]
    return {"data": data, "layout": layout}


def load_figure(results: Sequence[Mapping[str, Any]], name: str, limit: float) -> Figure:
    """Return a chart of `name`, a time of the simulated load, in milliseconds.

    The x-axis shows requests per second. The chart has a line at `limit`. A load that the
    deployment cannot keep up with has no point, because its times grow without end.
    """
    data = []
    shown = [0.01]
    for way, (role, dash) in _WAYS.items():
        points = [
            (each["load"], 1000 * each[name] if each["keeps_up"] else None)
            for each in results
            if each["policy"] == way
        ]
        known = [(x, y) for x, y in points if y is not None]
        shown += [y for _, y in known]
        data.append(plain_line(role, [x for x, _ in points], [y for _, y in points], 2.2, dash))
        data.append(plain_marks(role, known, 5, "circle-open"))
    layout = base_layout(230)
    layout["margin"] = {"l": 64, "r": 16, "t": 14, "b": 42}
    loads = sorted({each["load"] for each in results}) or [1.0]
    title = {"text": "requests per second", "font": {"size": SMALL}}
    layout["xaxis"] = quiet_axis(
        range=[0, 1.05 * loads[-1]], title=title, nticks=8, rangemode="tozero", showgrid=False
    )
    # A limit far above all points is not drawn, because the axis up to it would flatten the curves.
    is_far = limit > FAR * max(shown)
    most = 1.12 * (max(shown) if is_far else max(limit, min(max(shown), FAR * limit)))
    layout["yaxis"] = quiet_axis(range=[0, most], ticksuffix=" ms", nticks=6)
    dashed = {"color": LIGHT["rejected"], "width": 1.4, "dash": "dash"}
    across = {"x0": 0, "x1": 1, "xref": "paper", "y0": limit, "y1": limit}
    line = {"type": "line", **across, "line": dashed}
    layout["shapes"] = [] if is_far else [line]
    words = note(
        f"your limit, {limit:,.0f} ms, is far above" if is_far else "",
        **{"x": 1, "xref": "paper", "xanchor": "right"},
        **{"y": 0.06, "yref": "paper", "yanchor": "bottom"},
    )
    layout["annotations"] = [words]
    return {"data": data, "layout": layout}
