"""The help is complete, errors suggest corrections, and a closed output pipe is no error."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys

import pytest

from specviz import cli
from specviz.commands.parser import CommandParser


def commands() -> dict[str, CommandParser]:
    """Return the complete parser of every command."""
    _, found = cli._parsers("specviz")
    for parser in found:
        parser.complete()
    return dict(zip(cli.COMMANDS, found, strict=True))


PARSERS = commands()


@pytest.mark.parametrize("name", PARSERS)
def test_every_flag_has_a_help_text_with_its_default(name: str) -> None:
    silent = []
    for action in PARSERS[name]._actions:
        is_switch = action.nargs == 0 or isinstance(action, argparse._AppendAction)
        can_be_left_out = not action.required and not is_switch
        if not action.help or can_be_left_out and "default" not in action.help:
            silent.append(action.option_strings or action.metavar)
    assert not [each for each in silent if each not in WITHOUT_DEFAULT]


# Flags without a default: without them the command does not use the value.
WITHOUT_DEFAULT = [
    ["--target"], ["--draft"], ["--eagle"], ["--medusa"], ["--prompt"], ["--prompt-file"],
    ["--system"], ["--check"], ["--get"], ["--inflate"], 
]  # fmt: skip


@pytest.mark.parametrize("name", PARSERS)
def test_every_command_has_an_example_that_can_be_parsed(name: str) -> None:
    *_, example = (PARSERS[name].epilog or "").splitlines()
    words = shlex.split(example)
    options = cli._parser().parse_args(words[words.index(name) :])
    assert len(words) > words.index(name) + 1
    assert options.chosen is not None


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_and_the_name_of_a_command_show_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for words in (["help", name], [name, "--help"]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and "example:" in shown[0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rase"], "'rase' is not a command; did you mean race? (specviz help lists them)"),
        (
            ["help", "swep"],
            "'swep' is not a command; did you mean sweep? (specviz help lists them)",
        ),
        (
            ["race", "--draft-lenght", "3"],
            "--draft-lenght is not a flag of this command; did you mean --draft-length?",
        ),
        (["race", "--seed"], "seed must have a value, got none"),
        (["report", "-o", "x.html"], "TRACE must be given, got nothing"),
        (["diff", "a", "b", "c"], "'c' is one argument too many for this command"),
        (["steps", "--repeat", "x"], "repeat must be a whole number, got 'x'"),
        (["watch", "http://x", "--every", "x"], "every must be a number, got 'x'"),
        (["--print-completion", "perl"], "print-completion must be one of bash, zsh"),
    ],
)
def test_a_mistyped_word_gets_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"specviz: {sentence}") and error.count("\n") == 1


def test_a_call_without_a_command_prints_the_help_as_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([]) == 2
    shown = capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert shown.out == "" and shown.err == capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_offers_methods_pairs_and_gpus(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--print-completion", shell])
    script = capsys.readouterr().out
    assert all(word in script for word in ("prompt-lookup", "bundled", "h100-sxm", "bfloat16"))


def test_a_closed_output_pipe_ends_the_command_without_an_error() -> None:
    """`specviz methods | head -1` closes the pipe in the same way once head has its line."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "specviz", "methods"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_flag_name_has_one_meaning_in_all_commands() -> None:
    metavars: dict[str, set[str]] = {}
    for parser in PARSERS.values():
        for action in parser._actions:
            for flag in action.option_strings:
                metavars.setdefault(flag, set()).add(str(action.metavar))
    differing = {flag: found for flag, found in metavars.items() if len(found) > 1}
    assert differing.keys() <= SAME_MEANING


# Flags that differ between commands only in what they accept: `models --check TARGET` names the
# models to check, `size` also accepts presets, and `load` accepts several numbers.
SAME_MEANING = {"--check", "--target", "--draft", "--concurrency"}
