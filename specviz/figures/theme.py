"""Colours by role, and the layout that every figure shares.

A figure is built in the light palette. The browser swaps it to the dark one by value: two roles
with one light colour also share the dark one.
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
    "select": "#3451d1",  # the linked cursor
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
    "select": "#8fa2ff",  # the linked cursor
}
PALETTES = {"light": LIGHT, "dark": DARK}

FONT = "Inter, system-ui, -apple-system, 'Segoe UI', sans-serif"
SMALL = 12  # pixels, of labels and numbers
MONOSPACE = "ui-monospace, 'JetBrains Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def base_layout(height: int) -> dict[str, Any]:
    """A quiet card: no frame, no legend, no dragging, hover in the page's own colours."""
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
    """An axis with a faint grid and nothing else; `options` override."""
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
    """An axis that only gives a range."""
    return {"visible": False, "fixedrange": True, "zeroline": False, "showgrid": False} | options


LEGEND_PIXELS = 30


def legend_above() -> dict[str, Any]:
    """A legend in one line above the bars, that does not answer clicks.

    It hangs from the figure's upper edge and needs a margin of LEGEND_PIXELS: placed by its lower
    edge it would come to lie on the first bar where Plotly takes its height before it has one.
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
    """What charts with a row of bars for each token have in common.

    Tokens stand left of the bars, numbers right of them: on a phone, too, the longest, "99.98 %".
    """
    return {
        "margin": {"l": 118, "r": 26, "t": LEGEND_PIXELS, "b": 4},
        "barmode": "overlay",
        "xaxis": hidden_axis(range=[0, 1.16]),
    }


def note(text: str, **options: Any) -> dict[str, Any]:
    """A direct label: small muted text without an arrow."""
    plain = {"text": text, "showarrow": False, "font": {"size": SMALL, "color": LIGHT["muted"]}}
    return plain | options
