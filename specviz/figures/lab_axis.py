"""The x-axis of a chart of a sweep: the swept values, evenly spaced.

Even spacing keeps values such as 10, 50, 200 and 500 apart. It works for names as well as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.labels import plain_text
from specviz.figures.theme import LIGHT, SMALL, quiet_axis

MOST_LETTERS = 14  # a name with more letters is written on several lines
Value = int | float | str


def value_axis(title: str, values: Sequence[Value]) -> dict[str, Any]:
    """Return an axis with one tick per value, and space for half a step at both ends."""
    return quiet_axis(
        range=[-0.5, len(values) - 0.5],
        showgrid=False,
        tickvals=list(range(len(values))),
        ticktext=list(map(named, values)),
        title={
            "text": plain_text(title),
            "font": {"size": SMALL, "color": LIGHT["muted"]},
            "standoff": 6,
        },
    )


def named(value: Value) -> str:
    """Return a value as the label below the axis; a long name is broken at its hyphens.

    >>> named(0.3), named("draft-model"), named("cross-vocabulary")
    ('0.3', 'draft-model', 'cross-<br>vocabulary')
    """
    if not isinstance(value, str):
        return f"{value:g}"
    shown = plain_text(value)
    return shown if len(value) <= MOST_LETTERS else shown.replace("-", "-<br>")
