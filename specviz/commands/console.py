"""Plain-text tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as aligned columns; the keys of the first row are the titles.

    >>> print(table([{"name": "a", "speedup": 1.234}, {"name": "long", "speedup": None}]))
    name  speedup
    a        1.23
    long        -
    """
    names = list(rows[0])
    cells = [[_cell(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    left = [isinstance(rows[0][name], str) for name in names]
    lines = [
        "  ".join(
            text.ljust(width) if is_left else text.rjust(width)
            for text, width, is_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in (names, *cells)
    ]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"
        case [float() as low, float() as high]:
            return f"{low:.2f} to {high:.2f}"
        case list():
            return ", ".join(map(_cell, value)) or "-"
    return str(value)


def acceptance_columns(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the three numbers about acceptance, under the titles that all tables use."""
    return {
        "acceptance rate": numbers["acceptance_rate"],
        "draft utilization": numbers["draft_utilization"],
        "tokens/forward": numbers["block_efficiency"],
    }


def facts(result: dict[str, Any]) -> str:
    """Return a table of facts: each line has a name and its value."""
    return table([{"name": name, "value": _cell(value)} for name, value in result.items()])
