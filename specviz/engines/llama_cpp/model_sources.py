"""Flags of llama.cpp that choose a model together: a repository, and a file in it.

If a command names a repository and a path, the server loads from the repository. The path is then
the name of the file there, unless --hf-file names it.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.engines.engine_adapter import RepositoryFile
from specviz.engines.engine_facts import EngineFacts
from specviz.engines.readers.found_flags import PastedFlag

_REPOSITORY_FILE = ("--hf-file", "-hff")
# For the target and for the draft: the flag that names a repository, the flag that names a path,
# and the flag that names a file in the repository ("" if llama.cpp has none).
_SOURCES = (
    ("--hf-repo", "--model", "--hf-file"),
    ("--spec-draft-hf", "--spec-draft-model", ""),
)


def repository_files(flags: Sequence[PastedFlag], engine: EngineFacts) -> list[RepositoryFile]:
    """Return each flag that gives a model's path although another flag gives its repository."""
    names = [_current(flag, engine) for flag in flags]
    found = []
    for repository, path, file in _SOURCES:
        if repository not in names:
            continue
        is_named = bool(file) and any(flag.name in _REPOSITORY_FILE for flag in flags)
        last = max((at for at, name in enumerate(names) if name == path), default=-1)
        for at, name in enumerate(names):
            if name == path and is_named:
                why = f"the server loads the file that --hf-file names in {repository}"
                found.append(RepositoryFile(flags[at], "", why))
            elif name == path and at == last:
                why = f"it names a file in the repository of {repository}"
                found.append(RepositoryFile(flags[at], file or path, why))
    return found


def _current(flag: PastedFlag, engine: EngineFacts) -> str:
    known = engine.current.get(flag.name)
    return known.name if known else flag.name
