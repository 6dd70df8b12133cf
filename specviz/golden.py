"""The recorded runs that come with the app, so that it teaches with no model loaded.

Knows where they are and what they are called; `trace_file` reads them.
"""

from __future__ import annotations

from pathlib import Path

from specviz.errors import InputError
from specviz.records import Trace
from specviz.trace_file import load

FOLDER = Path(__file__).resolve().parents[1] / "assets" / "traces"
SUFFIX = ".json.gz"


def golden_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """By method, in the order of the file names."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")))


def golden_trace(name: str, folder: Path = FOLDER) -> Trace:
    """The recorded run of that name; InputError for any other name."""
    known = golden_names(folder)
    if name not in known:
        raise InputError(f"trace must be one of {', '.join(known) or 'none'}, got {name[:80]!r}")
    return load(folder / f"{name}{SUFFIX}")
