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
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import shtab

from specviz import __version__
from specviz.commands.command import Command
from specviz.errors import InputError

COMMANDS = {  # in the order of `--help`; a module is imported when its command is chosen
    "serve": ("specviz.ui.serve_command", "Serve the web app, or a pair by llama.cpp."),
    "race": ("specviz.commands.race_command", "Measure a method against its baseline."),
    "methods": ("specviz.commands.methods_command", "List the drafting methods."),
    "models": ("specviz.commands.models_command", "List the models and pairs."),
    "lossless": (
        "specviz.commands.lossless_command",
        "Compare the output's distribution with the target's.",
    ),
    "diff": ("specviz.commands.diff_command", "Compare two traces."),
    "report": ("specviz.ui.report_command", "A trace as one HTML file."),
    "profile": (
        "specviz.commands.profile_command",
        "Rank where acceptance is lost, over many prompts.",
    ),
    "bench": (
        "specviz.commands.bench_command",
        "Methods x tasks, beside the library's own decoding.",
    ),
    "steps": (
        "specviz.commands.steps_command",
        "What one token costs, beside the library's forward and the memory's speed.",
    ),
    "sweep": ("specviz.commands.sweep_command", "Measure over a grid of settings."),
    "advise": (
        "specviz.commands.advise_command",
        "Whether to speculate, with what, and what to expect: measured.",
    ),
    "size": (
        "specviz.commands.size_command",
        "Whether speculation pays on a planned deployment, and what it takes.",
    ),
    "watch": (
        "specviz.commands.watch_command",
        "Whether a serving engine speculates, and what of its drafts is accepted.",
    ),
    "load": (
        "specviz.commands.load_command",
        "Several requests at once to a serving engine, until speculation no longer pays.",
    ),
    "compare": (
        "specviz.commands.compare_command",
        "The same drafts by an engine and here, counted the same way.",
    ),
    "translate": (
        "specviz.commands.translate_command",
        "Old flags, or an article's snippet, as vLLM, SGLang or llama.cpp reads them today.",
    ),
    "claims": (
        "specviz.commands.claims_command",
        "Popular claims beside theory and measurement.",
    ),
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


class _CommandParser(_Parser):
    """The parser of one command, which is imported as soon as there is something to parse.

    The models' libraries take seconds to import: a list of the commands does without them.
    """

    module = ""

    def complete(self) -> None:
        """With the command's own flags."""
        command: Command = import_module(self.module).COMMAND
        command.add_flags(self)
        self.set_defaults(chosen=command)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.complete()
        return super().parse_known_args(args, namespace)


class _PrintCompletion(argparse.Action):
    """Prints what a shell needs to complete commands and flags, and ends."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        for action in parser._actions:
            for command in getattr(action, "_name_parser_map", {}).values():
                command.complete()
        parser.prog = "specviz"  # what is completed, however it was asked for
        _print(shtab.complete(parser, shell=values))
        parser.exit(0)


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
    is_installed = Path(sys.argv[0]).stem == "specviz"
    parser = _Parser(
        prog="specviz" if is_installed else "python -m specviz",
        description="Speculative decoding, made visible.",
    )
    parser.add_argument("--version", action="version", version=f"specviz {__version__}")
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=shtab.SUPPORTED_SHELLS,
        help="what a shell needs for completing with the Tab key",
    )
    subparsers = parser.add_subparsers(
        required=True, parser_class=_CommandParser, metavar="COMMAND"
    )
    for name, (module, summary) in COMMANDS.items():
        added = subparsers.add_parser(name, help=summary, description=summary)
        added.module = module
        added.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser
