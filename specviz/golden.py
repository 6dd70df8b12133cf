"""The recorded runs that come with the app, so that it teaches with no model loaded.

Knows where they are and what they are called, `method.task` of the bundled pair and
`method.task.pair` of any other; for its task the first one has the word "opening". `trace_file`
reads them.
"""

from __future__ import annotations

from pathlib import Path

from specviz.errors import InputError
from specviz.folders import ASSETS
from specviz.records import Trace
from specviz.trace_file import load

FOLDER = ASSETS / "traces"
SUFFIX = ".json.gz"
OPENING = "quantised-self.opening.smollm2"  # plays for a visitor who has asked for nothing yet
SAMPLED = "draft-model.chat.smollm2"  # a chain above temperature 0: guesses pass and fail by chance
SAMPLED_ROUND = 6  # from 1, which the app shows first: a guess that passes, one that fails, and why


def golden_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """By method, in the order of the file names."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")))


def golden_parts(name: str) -> tuple[str, str, str]:
    """Method, task and pair of a recording's name; the pair is "" where it is the bundled one.

    >>> golden_parts("eagle.code"), golden_parts("eagle.chat.smollm2")
    (('eagle', 'code', ''), ('eagle', 'chat', 'smollm2'))
    """
    method, task, pair = [*name.split("."), ""][:3]
    return method, task, pair


def golden_trace(name: str, folder: Path = FOLDER) -> Trace:
    """The recorded run of that name; InputError for any other name."""
    if name not in golden_names(folder):
        raise InputError(f"trace must be a recording such as {OPENING}, got {name[:80]!r}")
    return load(folder / f"{name}{SUFFIX}")
