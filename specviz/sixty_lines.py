"""The text of docs/sixty_lines.py, and the lines of it that run at each moment of a round.

docs/sixty_lines.toml lists the moments. That file identifies each line by the text of the line.
"""

from __future__ import annotations

import tomllib
from typing import Any

from specviz.errors import InputError
from specviz.folders import DOCS

SOURCE, MOMENTS = DOCS / "sixty_lines.py", DOCS / "sixty_lines.toml"


def code_lines(source: str, moments: str) -> dict[str, Any]:
    """Return the part of a source file that the page shows, and the lines of each moment.

    The result is {"first": number of the first shown line in the file, "lines": texts, "moments":
    [{"name", "lines": indices into "lines", "values": names of the values to show}]}. Raises
    InputError if a line is missing, occurs twice, or is not in the shown part.
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
    """Return the result of `code_lines` for docs/sixty_lines.py."""
    return code_lines(SOURCE.read_text(encoding="utf-8"), MOMENTS.read_text(encoding="utf-8"))


def _place(lines: list[str], text: str) -> int:
    found = lines.count(text)
    if found != 1:
        raise InputError(f"{SOURCE.name} must have this line once, got it {found} times: {text!r}")
    return lines.index(text)
