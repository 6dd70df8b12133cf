"""The speedup over two axes of a sweep, with one cell per point: blue is faster, orange is slower.

The functions turn the points of a sweep into a Plotly dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.figures.lab_axis import Value, value_axis
from specviz.figures.lab_speedup import hover
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout

Cell = tuple[int, int]  # the index of a cell's value on the first axis, and on the second axis
ROW_PIXELS = 38
STRENGTH = 0.55  # opacity of the colours, low enough that the numbers in the cells are readable


def lab_heatmap_figure(
    titles: tuple[str, str],
    values: tuple[Sequence[Value], Sequence[Value]],
    points: Mapping[Cell, Mapping[str, Any]],
    picked: Cell | None = None,
) -> Figure:
    """Return the heat map of `points`, keyed by cell; the cell `picked` has a frame.

    Cells without a measurement are empty. `customdata` of a cell is its two indices.
    """
    columns, rows = (list(range(len(each))) for each in values)
    cells = [[points.get((x, y)) for x in columns] for y in rows]
    highest = max([each["speedup"] for each in points.values()], default=2.0)
    reach = max(0.25, highest - 1, *(1 - each["speedup"] for each in points.values()))
    heat = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": [[each["speedup"] if each else None for each in row] for row in cells],
        "hovertext": [[hover(each) if each else "" for each in row] for row in cells],
        "hoverinfo": "text",
        "customdata": [[[x, y] for x in columns] for y in rows],
        "hoverongaps": False,
        "colorscale": [[0, LIGHT["rejected"]], [0.5, LIGHT["card"]], [1, LIGHT["accepted"]]],
        "zmin": 1 - reach,
        "zmax": 1 + reach,
        "showscale": False,
        "opacity": STRENGTH,
        "xgap": 2,
        "ygap": 2,
        "meta": {"role": "accepted"},
    }
    return {"data": [heat, _numbers(points)], "layout": _layout(titles, values, picked)}


def _numbers(points: Mapping[Cell, Mapping[str, Any]]) -> dict[str, Any]:
    cells = sorted(points)
    return {
        "type": "scatter",
        "mode": "text",
        "x": [x for x, _ in cells],
        "y": [y for _, y in cells],
        "text": [f"{points[cell]['speedup']:.2f}" for cell in cells],
        "textfont": {"size": SMALL, "color": LIGHT["ink"]},
        "hoverinfo": "skip",
        "meta": {"role": "ink"},
    }


def _layout(
    titles: tuple[str, str],
    values: tuple[Sequence[Value], Sequence[Value]],
    picked: Cell | None,
) -> dict[str, Any]:
    layout = base_layout(66 + ROW_PIXELS * len(values[1]))
    widest = max(len(f"{value}") for value in values[1])
    layout["margin"] = {"l": 44 + 6 * min(widest, 20), "r": 12, "t": 12, "b": 42}
    layout["xaxis"] = value_axis(titles[0], values[0])
    layout["yaxis"] = value_axis(titles[1], values[1])
    layout["yaxis"]["title"]["standoff"] = 10
    layout["shapes"] = [_frame(*picked)] if picked else []
    return layout


def _frame(x: int, y: int) -> dict[str, Any]:
    """Return the frame around the selected cell, which the other charts show in detail."""
    ends = {"x0": x - 0.48, "x1": x + 0.48, "y0": y - 0.47, "y1": y + 0.47}
    return {"type": "rect", **ends, "line": {"color": LIGHT["ink"], "width": 2}}
