"""Recognise an engine by a word of a command, by a container image, or by the flags it knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from specviz.engines.engine_facts import EngineFacts, EngineFlag
from specviz.engines.engine_registry import engines

CONTAINERS = frozenset({"docker", "podman", "kubectl", "nerdctl"})
_USUAL = ("target", "port")  # fields that flags of many other programs set as well
_IMAGE = re.compile(r"(?:[\w.${}-]+(?::\d+)?/)+[\w.-]+(?:[:@][^\s/]+)?")


def engine_word(words: Sequence[str]) -> tuple[int, str | None]:
    """Return the index of the word that names a program, module or image, and its engine."""
    is_full = any(_IMAGE.fullmatch(word) and _engine_in(word) for word in words)
    image = _IMAGE if is_full else _plain_image()
    for place, word in enumerate(words):
        # A word with = or : sets an environment variable or mounts a folder. It names no program.
        is_setting = "=" in word or ":" in word[2:]
        name = "" if is_setting else program_name(word)
        for facts in engines().values():
            starts = tuple(f"{each}." for each in facts.words)
            if name in facts.words or name.startswith(starts) and words[place - 1] == "-m":
                return place, facts.name
        if image.fullmatch(word) and (place == 0 or words[0].lstrip("!") in CONTAINERS):
            found = _engine_in(word)
            if found is not None:
                # The words after an image may name the engine's program as well, perhaps after an
                # interpreter, as in `python3 -m PROGRAM`. Its flags begin after that word.
                inside, own = engine_word(words[place + 1 : place + 4])
                return (place + 1 + inside if own == found else place), found
    return 0, None


def _engine_in(image: str) -> str | None:
    """Return the engine that a container image starts, found by a part of the image's name."""
    found = (each.name for each in engines().values() if any(mark in image for mark in each.images))
    return next(found, None)


@cache
def _plain_image() -> re.Pattern[str]:
    """Return the pattern of an image without a registry: its name begins with an engine's mark."""
    marks = "|".join(re.escape(mark) for each in engines().values() for mark in each.images)
    return re.compile(rf"(?:{marks})[\w.-]*(?:[:@][^\s/]+)?")


def program_name(word: str) -> str:
    """Return the name of a program without its folder."""
    return re.split(r"[/\\]", word.lstrip("!"))[-1].removesuffix(".exe")


def engine_of_flags(names: Iterable[str], is_shell: bool = False) -> str | None:
    """Return the engine that knows most of the flags, old or new, or None if none does.

    In a shell script, flags that many programs have, such as --model and -m, do not count.
    """
    spelled = list(names)

    def known(facts: EngineFacts) -> float:
        table = facts.current.keys() | facts.older.keys()
        fields = _USUAL if is_shell else ()
        usual = {name for flag in facts.flags if flag.field in fields for name in _names(flag)}
        usual |= {facts.long_name(name) for name in usual}
        count = sum(name in table and facts.long_name(name) not in usual for name in spelled)
        return count + sum(facts.knows(facts.long_name(name)) for name in spelled) / 1000

    best = max(engines().values(), key=known)
    return best.name if known(best) >= 1 else None


def _names(flag: EngineFlag) -> tuple[str, ...]:
    return (flag.name, *flag.aliases)
