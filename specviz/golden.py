"""The recorded runs that come with the app, so that it can teach without loading a model.

This module knows the folder and the names of the runs; `trace_file` reads the files. The name of a
run of the bundled pair is `method.task`. For any other pair it is `method.task.pair`. The run that
the page plays first has the task "opening". If another rule than token by token judged the drafts,
the name has the rule instead of the task.
"""

from __future__ import annotations

from pathlib import Path

from specviz.errors import InputError
from specviz.folders import ASSETS
from specviz.records import Trace
from specviz.trace_file import load

FOLDER = ASSETS / "traces"
SUFFIX = ".json.gz"
# The run that the page plays before a visitor has chosen another one.
OPENING = "quantised-self.opening.smollm2"
# The run that shows chance: it drafts chains at a temperature above 0, so random draws decide which
# guesses are accepted.
SAMPLED = "draft-model.chat.smollm2"
# The round of SAMPLED that the app shows first, counted from 1. In this round, the target accepts
# one guess and rejects the next guess.
SAMPLED_ROUND = 6


def golden_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """Return the names of all recorded runs, sorted by file name."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")))


def golden_parts(name: str) -> tuple[str, str, str]:
    """Divide a recorded run's name into method, task and pair; the bundled pair is "".

    >>> golden_parts("eagle.code"), golden_parts("eagle.chat.smollm2")
    (('eagle', 'code', ''), ('eagle', 'chat', 'smollm2'))
    """
    method, task, pair = [*name.split("."), ""][:3]
    return method, task, pair


def golden_trace(name: str, folder: Path = FOLDER) -> Trace:
    """Return the recorded run with this name. Raises InputError if it does not exist."""
    if name not in golden_names(folder):
        raise InputError(
            f"trace must be the name of a recording, such as {OPENING}, got {name[:80]!r}"
        )
    return load(folder / f"{name}{SUFFIX}")
