"""What makes a command of the command line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Progress = Callable[[str], None]  # takes one line for a person who waits


def _no_flags(parser: ArgumentParser) -> None:
    """The command takes none of its own."""


def _always_enough(result: Any) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Command:
    """`python -m specviz NAME …`; a new one is a file with a `COMMAND` and an entry in `cli`.

    `run` returns what `--json` prints, and `text` makes of that what a person reads. Where the
    result does not pass a gate that the user has set, `shortfall` says why in one line, and the
    exit status is 1.
    """

    run: Callable[[Namespace, Progress], Any]
    text: Callable[[Any], str]
    add_flags: Callable[[ArgumentParser], None] = _no_flags
    shortfall: Callable[[Any], str | None] = _always_enough
