"""The command-line parser: one-sentence errors, suggestions for typing errors, help texts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from specviz.commands.command import Command
from specviz.errors import InputError, short

_WIDTH = 100  # number of columns that a help text may use
_RULES = {  # argparse's message -> the words that replace it
    "expected one argument": "must have a value, got none",
    "expected at least one argument": "must have a value, got none",
}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InputError with one sentence for bad input."""

    def __init__(self, **options: Any) -> None:
        formatter = argparse.RawDescriptionHelpFormatter
        super().__init__(
            **{"formatter_class": lambda prog: formatter(prog, width=_WIDTH)} | options
        )
        self.register("type", int, _whole)
        self.register("type", float, _number)

    def error(self, message: str) -> NoReturn:
        """Raise InputError with argparse's message, reworded as a sentence about the flag.

        >>> Parser().parse_args(["--bogus"])
        Traceback (most recent call last):
        specviz.errors.InputError: --bogus is not a flag of this command
        """
        if found := re.fullmatch(r"unrecognized arguments: (.*)", message, re.DOTALL):
            raise InputError(self._unknown(found[1].split(" ")[0]))
        if found := re.fullmatch(r"the following arguments are required: (.*)", message):
            raise InputError(f"{found[1]} must be given, got nothing")
        if found := re.fullmatch(r"argument (?:\S*/)?(\S+): (.*)", message, re.DOTALL):
            raise InputError(f"{found[1].lstrip('-')} {_RULES.get(found[2], found[2])}")
        raise InputError(message)

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"{short(word)} is one argument too many for this command"
        flag = word.partition("=")[0]
        known = self._option_string_actions
        return f"{flag} is not a flag of this command{did_you_mean(flag, known)}"


class CommandParser(Parser):
    """The parser of one command; it imports the command's module only when it parses.

    A command may import the libraries of models, which takes seconds. The list of commands does not
    wait for that.
    """

    module = ""

    def complete(self) -> None:
        """Import the command's module, then add its flags and its example to the parser.

        Raises InputError if a package that the command needs is missing.
        """
        try:
            command: Command = import_module(self.module).COMMAND
        except ModuleNotFoundError as error:
            package = (error.name or "specviz").partition(".")[0]
            if package == "specviz":
                raise
            name = self.prog.rpartition(" ")[2]
            raise InputError(
                f"command {name} needs the package {package}, which is not installed: "
                "install it with pip"
            ) from None
        command.add_flags(self)
        self.set_defaults(chosen=command)
        needed = [str(each.metavar) for each in self._actions if not each.option_strings]
        self.usage = " ".join([self.prog, "[options]", *needed])
        self.epilog = f"example:\n  {self.prog} {command.example}".rstrip()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; raise InputError for any that this command does not know."""
        self.complete()
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left


def did_you_mean(word: str, known: Sequence[str] | Any) -> str:
    """Return "; did you mean X?", with the known word X that is closest, or "" if none is close.

    >>> did_you_mean("rase", ["race", "sweep"]), did_you_mean("x", ["race"])
    ('; did you mean race?', '')
    """
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {short(text)}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {short(text)}") from None
