"""The command line: its list of commands, and how each one's result or error is printed.

With `--json` exactly one JSON object stands on stdout; progress goes to stderr. Exit status 2 for
input that breaks a rule, 1 for a result that a gate of the user's own does not let pass.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from specviz.commands.advise_command import ADVISE
from specviz.commands.bench_command import BENCH
from specviz.commands.claims_command import CLAIMS_COMMAND
from specviz.commands.command import Command
from specviz.commands.diff_command import DIFF
from specviz.commands.lossless_command import LOSSLESS
from specviz.commands.methods_command import METHODS
from specviz.commands.models_command import MODELS
from specviz.commands.profile_command import PROFILE
from specviz.commands.race_command import RACE
from specviz.commands.steps_command import STEPS
from specviz.commands.sweep_command import SWEEP
from specviz.errors import InputError
from specviz.ui.report_command import REPORT

COMMANDS = (
    *(RACE, METHODS, MODELS, LOSSLESS, DIFF, REPORT),
    *(PROFILE, BENCH, STEPS, SWEEP, ADVISE, CLAIMS_COMMAND),
)  # in the order of `--help`


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    try:
        options = _parser().parse_args(arguments)
        command: Command = options.chosen
        result = command.run(options, _progress)
        _print(json.dumps(result, allow_nan=False) if options.json else command.text(result))
        shortfall = command.shortfall(result)
    except InputError as error:
        print("specviz:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("specviz: stopped", file=sys.stderr)
        return 130
    except OSError as error:  # the reader of our output left, or the disk is full
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at exit
        print(f"specviz: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    if shortfall is not None:
        _progress(f"specviz: {shortfall}")
    return 0 if shortfall is None else 1


def _print(text: str) -> None:
    """On stdout, with escapes where its encoding lacks a character."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m specviz", description="Speculative decoding, made visible.")
    subparsers = parser.add_subparsers(required=True, parser_class=_Parser, metavar="COMMAND")
    for command in COMMANDS:
        added = subparsers.add_parser(
            command.name, help=command.summary, description=command.summary
        )
        added.add_argument("--json", action="store_true", help="one JSON object on stdout")
        command.add_flags(added)
        added.set_defaults(chosen=command)
    return parser
