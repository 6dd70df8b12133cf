"""The values of a sweep's axis along a chart: one place each, evenly spaced, named below.

Pure. Even spacing keeps 10, 50, 200 and 500 apart, and takes names as well as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.labels import plain_text
from specviz.figures.theme import LIGHT, SMALL, quiet_axis

MOST_LETTERS = 14  # of a name below its place
Value = int | float | str


def value_axis(title: str, values: Sequence[Value]) -> dict[str, Any]:
    """An axis with room for half a step at either end."""
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
    """As it stands below the axis: a long name is broken where its words meet.

    >>> named(0.3), named("draft-model"), named("cross-vocabulary")
    ('0.3', 'draft-model', 'cross-<br>vocabulary')
    """
    if not isinstance(value, str):
        return f"{value:g}"
    shown = plain_text(value)
    return shown if len(value) <= MOST_LETTERS else shown.replace("-", "-<br>")
