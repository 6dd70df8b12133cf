"""Recognise programs that serve language models, but have flags that this package cannot read.

Their flags look like the flags of known engines, but mean other things.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

_INTERPRETER = re.compile(r"(?:.*/)?(?:python[\d.]*|torchrun|accelerate)(?:\.exe)?")


def other_program(words: Sequence[str]) -> tuple[str, str]:
    """Find a program, module or image whose flags cannot be read among the words of a command.

    Return the word that names it, and its name for users. Both are "" if there is none.

    >>> other_program(["docker", "run", "ghcr.io/huggingface/text-generation-inference:3.0"])
    ('text-generation-inference', 'TGI')
    """
    for place, word in enumerate(words):
        name = re.split(r"[/\\]", word)[-1].removesuffix(".exe").partition(":")[0]
        is_first = place == 0 or words[place - 1] == "-m" or "/" in word
        if is_first and not word.startswith("-") and "=" not in word:
            for beginning, title in _programs().items():
                if re.match(
                    rf"{re.escape(beginning)}(?![a-z\d])|{re.escape(beginning)}(?<=-)", name
                ):
                    return name, title
    return "", ""


def other_module(names: Iterable[str]) -> tuple[str, str]:
    """Find a program whose flags cannot be read among the modules that Python code imports.

    Return the word in the code and the program's name for users.
    """
    found = (other_program([name.partition(".")[0]]) for name in names)
    return next((each for each in found if each[0]), ("", ""))


def without_interpreter(words: Sequence[str]) -> list[str]:
    """Remove the words before the module if a command runs one with `python -m`.

    >>> without_interpreter(["python3", "-m", "other.server", "--port", "1"])
    ['other.server', '--port', '1']
    """
    if words and _INTERPRETER.fullmatch(words[0]) and "-m" in words[:-1]:
        return list(words[words.index("-m") + 1 :])
    return list(words)


@cache
def _programs() -> Mapping[str, str]:
    """Return the programs: how the name in a command begins -> the program's name for users."""
    file = Path(__file__).with_suffix(".toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))
