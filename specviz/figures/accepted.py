"""What became of the drafted tokens, round by round.

Pure: rounds to a Plotly dict. Knows nothing of the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.theme import LIGHT, Figure, base_layout, quiet_axis
from specviz.records import Outcome, Round

_BOTTOM_UP = (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.UNREACHED)


def accepted_figure(rounds: Sequence[Round]) -> Figure:
    """Stacked bars of accepted, rejected and unreached nodes; works without rounds.

    `customdata` is the round's index.
    """
    layout = base_layout(150)
    layout["margin"] = {"l": 30, "r": 8, "t": 8, "b": 36}
    layout["barmode"] = "stack"
    layout["bargap"] = 0.25
    most = max((len(each.verdicts) for each in rounds), default=5)
    font = {"size": 11, "color": LIGHT["muted"]}
    layout["xaxis"] = quiet_axis(
        range=[-0.6, max(9.5, len(rounds) - 0.4)],
        showgrid=False,
        title={"text": "round", "font": font, "standoff": 6},
    )
    layout["yaxis"] = quiet_axis(range=[0, max(1, most)], nticks=4, tickformat="d")
    return {"data": [_bars(rounds, outcome) for outcome in _BOTTOM_UP], "layout": layout}


def _bars(rounds: Sequence[Round], outcome: Outcome) -> dict[str, Any]:
    counts = [sum(v.outcome is outcome for v in each.verdicts) for each in rounds]
    hollow = outcome is Outcome.UNREACHED
    return {
        "type": "bar",
        "name": outcome.value,
        "x": [each.index for each in rounds],
        "y": counts,
        "customdata": [each.index for each in rounds],
        "hovertemplate": f"round %{{x}}: %{{y}} {outcome.value}<extra></extra>",
        "marker": {
            "color": LIGHT[outcome.value],
            "opacity": 0.3 if hollow else 1,
            "line": {"width": 0},
        },
        "meta": {"role": outcome.value},
    }
