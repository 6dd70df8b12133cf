"""docs/sixty_lines.py beside a run: its text, and the lines that each moment of a round executes.

The moments stand in docs/sixty_lines.toml, which names lines by their own text.
"""

from __future__ import annotations

import tomllib
from typing import Any

from specviz.errors import InputError
from specviz.folders import DOCS

SOURCE, MOMENTS = DOCS / "sixty_lines.py", DOCS / "sixty_lines.toml"


def code_lines(source: str, moments: str) -> dict[str, Any]:
    """The shown part of a source, and its moments with the places of their lines in it.

    {"first": number of the first line in the file, "lines": texts, "moments": [{"name", "lines":
    places from 0, "values"}]}. InputError for a line that the source does not have exactly once,
    or not in the shown part.
    """
    table = tomllib.loads(moments)
    lines = source.splitlines()
    start, end = (_place(lines, text) for text in table["shown"])
    shown = lines[start : end + 1]
    return {
        "first": start + 1,
        "lines": shown,
        "moments": [
            moment | {"lines": [_place(shown, text) for text in moment["lines"]]}
            for moment in table["moments"]
        ],
    }


def sixty_lines() -> dict[str, Any]:
    """Those of the file itself."""
    return code_lines(SOURCE.read_text(encoding="utf-8"), MOMENTS.read_text(encoding="utf-8"))


def _place(lines: list[str], text: str) -> int:
    found = lines.count(text)
    if found != 1:
        raise InputError(f"{SOURCE.name} must have this line once, got it {found} times: {text!r}")
    return lines.index(text)
