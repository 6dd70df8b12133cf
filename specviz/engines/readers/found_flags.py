"""The flags that a reader finds in a pasted text, and its notes about the text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from specviz.engines.engine_facts import SPECULATIVE, EngineFacts, spelling
from specviz.errors import InputError, short

MAX_TEXT = 20_000  # largest number of characters in a pasted text
# Largest nesting depth of brackets, and largest number of parts in a dotted name such as
# --flag.key.key.
MAX_DEPTH = 100
_JSON_FLAGS = {"--speculative-config": SPECULATIVE, "-sc": SPECULATIVE}
_JSON_RULE = (
    'with names and texts in double quotes and no comma after the last: {"method": "ngram"}'
)


class SourceText(str):
    """The source text of a Python expression whose value is not known."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PastedFlag:
    """One flag in the pasted text.

    `name` is spelled as in the tables of engines, `typed` as in the text. `value` is True for a
    flag without a value, and a tuple if several words follow the flag.
    """

    name: str
    value: Any
    typed: str


class FoundFlags:
    """The flags and the notes that were found so far in the text that is being read.

    Each reader of a form, such as a shell script or YAML, adds its findings.
    """

    def __init__(self) -> None:
        self.engine: str | None = None
        self.flags: list[PastedFlag] = []
        self.commands: list[str] = []  # the engines whose commands were found in the text
        self.passed_over: list[str] = []
        self.put_in: set[str] = set()  # names of variables whose values were put into the text
        # A program whose flags no reader can read: its word in the text, and its name for users.
        self.other = "", ""
        self.client = ""  # a command that sends requests to a server, if one was found
        # Environment variables that are set for the commands after them.
        self.exported: list[str] = []
        self.variables: set[str] = set()
        self.files: dict[str, str] = {}  # files that the script writes: name -> contents
        self.named_files: list[str] = []  # files that a flag names as configuration
        self.is_shell = False
        self.is_manifest = False  # the text is a file of Kubernetes or Docker compose

    def add(self, name: str, value: Any, typed: str | None = None) -> None:
        """Add one flag.

        If the value is an object, each of its parts becomes a flag. If the value is a list, it
        becomes several words.
        """
        key = spelling(name)
        flag, _, inner = key.partition(".")
        if inner.count(".") > MAX_DEPTH:
            raise InputError(
                f"{flag} must have at most {MAX_DEPTH} names after it, separated by dots, got more"
            )
        prefix = _JSON_FLAGS.get(flag)
        if prefix is not None and self._is_left_out(flag, prefix, bool(inner)):
            return
        if prefix is not None and not inner:
            for each, its in self.object_of(key, value).items():
                plain = str(each).replace("-", "_")
                self.flags.append(PastedFlag(f"{prefix}{plain}", its, str(each)))
            return
        if flag.startswith("-") and inner:
            value = literal(value)
            key = prefix + inner.replace("-", "_") if prefix else key
        elif isinstance(value, list) and value:
            value = tuple(value)
        self.flags.append(PastedFlag(key, value, typed or name))

    def add_setting(self, name: str, value: Any, typed: str, facts: EngineFacts | None) -> None:
        """Add one setting of a file or of code.

        If a part of an object has a flag of its own, the part becomes that flag.
        """
        current = facts.current if facts is not None else {}
        if isinstance(value, dict) and value:
            parts = {key: f"{spelling(name)}.{key}" for key in value}
            own = {key: part for key, part in parts.items() if part in current}
            for key, part in own.items():
                self.add(part, value[key], str(key))
            value = {key: each for key, each in value.items() if key not in own}
            if not value:
                return
        self.add(name, value, typed)

    def _is_left_out(self, flag: str, prefix: str, is_part: bool) -> bool:
        """Return whether a repeated object, or a part of it, is ignored.

        Normally the last object counts. If parts of the object are given as flags (--flag.key),
        only the parts count.
        """
        before = [each for each in self.flags if each.name.startswith(prefix)]
        has_parts = any(each.typed.startswith("-") for each in before)
        if not before or is_part and has_parts:
            return False
        if is_part or has_parts:
            why = f"left out, because its parts ({flag}.…) are given as well"
            self.passed_over.append(f"{flag} as a whole is {why}")
        else:
            self.again([flag])
        if not has_parts:
            self.flags = [each for each in self.flags if each not in before]
        return has_parts

    def leave_out(self, settings: Iterable[str]) -> None:
        """Add a note about environment variables (NAME=value) that set no flag.

        The note does not show their values, which may be secrets.
        """
        names = [each.partition("=")[0] for each in settings]
        note = "a variable of the environment, left out"
        self.passed_over += [f"{each}: {note}" for each in names if each not in self.put_in]

    def object_of(self, name: str, value: Any) -> dict[str, Any]:
        """Return the object in a JSON text. Return a mapping unchanged.

        Raises InputError for anything else.
        """
        if isinstance(value, str):
            try:
                value = json.loads(value, object_pairs_hook=self._object)
            except ValueError:
                pass
        if not isinstance(value, dict):
            got = "no value" if value is True else short(value)
            raise InputError(f"{name} must be one JSON object, {_JSON_RULE}, got {got}")
        return value

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        self.again(sorted({key for key in keys if keys.count(key) > 1}))
        return dict(pairs)

    def again(self, keys: Iterable[str]) -> None:
        """Add a note about each key that occurs more than once in a file."""
        self.passed_over += [f"{key} is given again, and the last one counts" for key in keys]


def literal(value: Any) -> Any:
    """Return the value in a JSON text. Return any other value unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
