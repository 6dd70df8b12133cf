"""Colours by role, and the layout that all figures share.

A figure is built with the light palette. In the dark theme, the browser replaces each light colour
by a dark colour. Two roles with the same light colour therefore have the same dark colour.
"""

from __future__ import annotations

from typing import Any

from specviz.figures.outcomes import LOOKS

Figure = dict[str, Any]

LIGHT = {
    "ink": "#1c2430",
    "muted": "#667080",
    "grid": "#e4e7eb",
    "paper": "#f7f8f4",
    "card": "#ffffff",
    **{name: look.light for name, look in LOOKS.items()},
    "root": "#1c2430",
    "target": "#1c2430",
    "draft": "#8b95a3",
    "theory": "#667080",
    "expected": "#8a4fa3",
    "baseline": "#667080",
    "draft_time": "#8b95a3",
    "verify_time": "#1c2430",
    "host_time": "#c3cad3",
    "select": "#3451d1",  # marks the selected position in all views
}
DARK = {
    "ink": "#e8ebf0",
    "muted": "#a0a9b6",
    "grid": "#2f3843",
    "paper": "#10141b",
    "card": "#1a2028",
    **{name: look.dark for name, look in LOOKS.items()},
    "root": "#e8ebf0",
    "target": "#e8ebf0",
    "draft": "#7f8a99",
    "theory": "#a0a9b6",
    "expected": "#c79be3",
    "baseline": "#a0a9b6",
    "draft_time": "#7f8a99",
    "verify_time": "#e8ebf0",
    "host_time": "#69737f",
    "select": "#8fa2ff",  # marks the selected position in all views
}
PALETTES = {"light": LIGHT, "dark": DARK}

FONT = "Inter, system-ui, -apple-system, 'Segoe UI', sans-serif"
SMALL = 12  # font size of labels and numbers in pixels
MONOSPACE = "ui-monospace, 'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def base_layout(height: int) -> dict[str, Any]:
    """Return a layout without frame, legend and dragging; hover texts have the page's colours."""
    return {
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": LIGHT["muted"]},
        "margin": {"l": 12, "r": 12, "t": 12, "b": 12},
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": LIGHT["card"],
            "bordercolor": LIGHT["grid"],
            "align": "left",
            "font": {"family": MONOSPACE, "size": 12, "color": LIGHT["ink"]},
        },
        "xaxis": quiet_axis(),
        "yaxis": quiet_axis(),
    }


def quiet_axis(**options: Any) -> dict[str, Any]:
    """Return an axis that shows only a faint grid; `options` add or replace values of the axis."""
    quiet = {
        "gridcolor": LIGHT["grid"],
        "zeroline": False,
        "fixedrange": True,
        "ticks": "",
        "tickfont": {"size": SMALL, "color": LIGHT["muted"]},
        "automargin": False,
    }
    return quiet | options


def hidden_axis(**options: Any) -> dict[str, Any]:
    """Return an invisible axis, which only sets a range."""
    return {"visible": False, "fixedrange": True, "zeroline": False, "showgrid": False} | options


LEGEND_PIXELS = 30


def legend_above() -> dict[str, Any]:
    """Return a legend in one line above the bars, which ignores clicks.

    The figure needs an upper margin of LEGEND_PIXELS for it. The position of the legend's upper
    edge is fixed, not that of its lower edge. Plotly sometimes computes the legend's height late,
    and a legend with a fixed lower edge would then cover the first bar.
    """
    return {
        "orientation": "h",
        "x": 0,
        "yref": "container",
        "y": 1,
        "yanchor": "top",
        "itemclick": False,
        "itemdoubleclick": False,
        "font": {"size": SMALL, "color": LIGHT["muted"]},
    }


def probability_bars() -> dict[str, Any]:
    """Return the layout of charts with one row of bars per token.

    Token texts are left of the bars and numbers right of them. Even "99.98 %" fits on a phone.
    """
    return {
        "margin": {"l": 118, "r": 26, "t": LEGEND_PIXELS, "b": 4},
        "barmode": "overlay",
        "xaxis": hidden_axis(range=[0, 1.16]),
    }


def note(text: str, **options: Any) -> dict[str, Any]:
    """Return small muted text inside a chart, without an arrow."""
    plain = {"text": text, "showarrow": False, "font": {"size": SMALL, "color": LIGHT["muted"]}}
    return plain | options
