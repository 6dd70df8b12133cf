"""The files that a command writes in addition to its result.

If a file cannot be written, the command still prints its result and names the missing file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specviz.errors import InputError

# key in a command's result: one sentence for each file that could not be written
UNWRITTEN = "unwritten"


def unwritten(what: str, name: str, write: Callable[[], None]) -> list[str]:
    """Write a file; return an empty list, or a list with the sentence that says why it failed."""
    try:
        write()
    except InputError as error:
        return [str(error)]
    except OSError as error:
        return [f"{what} {name!r} cannot be written: {error.strerror}"]
    return []


def missing_files(result: Mapping[str, Any]) -> str | None:
    """Return the sentences about files that could not be written, or None if all were written."""
    return "; ".join(result[UNWRITTEN]) or None
