"""The command line: its commands, and how it prints a result or an error.

With `--json`, a command prints exactly one JSON value to stdout. Progress goes to stderr. The exit
codes are listed in docs/reference/commands.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specviz import __version__
from specviz.commands.command import Command
from specviz.commands.parser import CommandParser, Parser, did_you_mean
from specviz.errors import InputError, short

# This table maps the title of each group to its commands, and each command to its module and its
# summary. The program imports a module only when its command is used, so that it starts fast.
GROUPS = {
    "See it": {
        "serve": (
            "specviz.ui.serve_command",
            "Start the web app, or serve a pair of models with llama.cpp.",
        ),
        "report": ("specviz.ui.report_command", "Write a saved run as one HTML file."),
        "methods": ("specviz.commands.methods_command", "List the drafting methods."),
        "models": (
            "specviz.commands.models_command",
            "List, check or download models, or write a larger model with the same output.",
        ),
        "claims": (
            "specviz.commands.claims_command",
            "Judge popular claims about speculation by theory and by measurement.",
        ),
    },
    "Measure on this machine": {
        "race": (
            "specviz.commands.race_command",
            "Compare a method with plain decoding on one prompt or batch.",
        ),
        "sweep": ("specviz.commands.sweep_command", "Measure speculation over a grid of settings."),
        "advise": (
            "specviz.commands.advise_command",
            "Find out whether to speculate, and with which method.",
        ),
        "bench": (
            "specviz.commands.bench_command",
            "Compare methods with plain decoding and with Transformers, task by task.",
        ),
        "steps": (
            "specviz.commands.steps_command",
            "Compare the time of a decoding step with Transformers and with the memory bandwidth.",
        ),
        "profile": (
            "specviz.commands.profile_command",
            "Rank the causes of rejected tokens, over many prompts.",
        ),
        "lossless": (
            "specviz.commands.lossless_command",
            "Test whether the output follows the target's distribution.",
        ),
        "diff": ("specviz.commands.diff_command", "Find where two saved runs first differ."),
    },
    "Serving engines": {
        "size": (
            "specviz.commands.size_command",
            "Compute whether speculation pays on a planned deployment.",
        ),
        "translate": (
            "specviz.commands.translate_command",
            "Rewrite old flags or code for today's vLLM, SGLang, llama.cpp or TensorRT-LLM.",
        ),
        "watch": (
            "specviz.commands.watch_command",
            "Check whether a running engine speculates, and read its counters.",
        ),
        "load": (
            "specviz.commands.load_command",
            "Send more and more requests at once until speculation no longer pays.",
        ),
        "compare": (
            "specviz.commands.compare_command",
            "Decode the same prompts in an engine and in specviz, and compare tokens and drafts.",
        ),
    },
}
COMMANDS = {name: each for group in GROUPS.values() for name, each in group.items()}
# The exit code that shells report for a program that the signal SIGPIPE has ended.
_BROKEN_PIPE = 141


class _PrintCompletion(argparse.Action):
    """Print the script that a shell needs to complete commands, flags and values, then exit."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        try:
            # shtab is imported only here, so that all other commands work without this package.
            import shtab
        except ModuleNotFoundError:
            raise InputError(
                "print-completion needs the package shtab, which is not installed: "
                "pip install shtab"
            ) from None

        from specviz.commands.flags import known_values

        if values not in shtab.SUPPORTED_SHELLS:
            shells = ", ".join(shtab.SUPPORTED_SHELLS)
            raise InputError(f"print-completion must be one of {shells}, got {short(values)}")
        whole, commands = _parsers("specviz", argparse_lists=True)
        for command in commands:
            command.complete()
            for flag in command._actions:
                flag.choices = flag.choices or known_values(flag.option_strings)
        _print(shtab.complete(whole, shell=values))
        parser.exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and return the exit code."""
    try:
        words = _words(sys.argv[1:] if arguments is None else arguments)
        if not words:
            _progress(_parser().format_help().rstrip())
            return 2
        options = _parser().parse_args(words)
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
    except OSError as error:
        # The interpreter flushes stdout when it exits, and the broken output would fail again.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        # This error means that the program which reads the output has closed the pipe, as `| head`
        # does.
        if isinstance(error, BrokenPipeError):
            return _BROKEN_PIPE
        print(f"specviz: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    if shortfall is not None:
        _progress(f"specviz: {shortfall}")
    return 0 if shortfall is None else 1


def _words(words: Sequence[str]) -> list[str]:
    """Return the words that the parser gets: the words `help NAME` become `NAME --help`.

    Raises InputError for a command that does not exist.
    """
    if words and words[0] == "help":
        words = [*words[1:2], "--help"]
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise InputError(
            f"{short(words[0])} is not a command{did_you_mean(words[0], COMMANDS)} "
            "(specviz help lists them)"
        )
    return list(words)


def _print(text: str) -> None:
    """Print to stdout. Characters that its encoding lacks are written as escapes."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> Parser:
    is_installed = Path(sys.argv[0]).stem == "specviz"
    return _parsers("specviz" if is_installed else "python -m specviz")[0]


def _parsers(prog: str, argparse_lists: bool = False) -> tuple[Parser, list[CommandParser]]:
    """Return the parser of the whole command line, and the parser of each command.

    argparse cannot list commands in groups, so the description of the parser lists the commands,
    and argparse lists none. But the completions that shtab creates contain only commands that
    argparse lists. For them, set `argparse_lists` to True.
    """
    parser = Parser(
        prog=prog,
        usage="%(prog)s COMMAND [options]   or: %(prog)s help COMMAND",
        description=f"Speculative decoding, made visible.\n\n{_listed()}",
    )
    parser.add_argument("--version", action="version", version=f"specviz {__version__}")
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        metavar="SHELL",
        help="print a script that lets bash, zsh, fish, tcsh or powershell complete words with Tab",
    )
    subparsers = parser.add_subparsers(
        required=True,
        parser_class=CommandParser,
        prog=parser.prog,
        metavar="COMMAND",
        help=None if argparse_lists else argparse.SUPPRESS,
    )
    commands = []
    for name, (module, summary) in COMMANDS.items():
        listed: dict[str, Any] = {"help": summary} if argparse_lists else {}
        added = subparsers.add_parser(name, description=summary, **listed)
        added.module = module
        added.add_argument("--json", action="store_true", help="print one JSON value on stdout")
        commands.append(added)
    return parser, commands


def _listed() -> str:
    """Return a text that lists the commands under the titles of their groups."""
    lines = []
    for title, commands in GROUPS.items():
        lines += [
            f"{title}:",
            *(f"  {name:<10} {summary}" for name, (_, summary) in commands.items()),
            "",
        ]
    return "\n".join(lines)
