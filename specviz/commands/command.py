"""The parts of a command: its flags, its work and the text that it prints."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Progress = Callable[[str], None]  # prints one line of progress for a user who waits


def _no_flags(parser: ArgumentParser) -> None:
    """Add nothing, because the command has no flags of its own."""


def _always_enough(result: Any) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Command:
    """A command, `specviz NAME …`. A new command is a file with a `COMMAND`, and a line in `cli`.

    `run` returns the value that `--json` prints, and `text` turns this value into text for a
    person. `example` is a typical call without the command's name, which `--help` shows.
    `shortfall` returns one line if the result fails a limit that the user has set; the exit status
    is then 1.
    """

    run: Callable[[Namespace, Progress], Any]
    text: Callable[[Any], str]
    add_flags: Callable[[ArgumentParser], None] = _no_flags
    shortfall: Callable[[Any], str | None] = _always_enough
    example: str = ""
