"""The held-out prompts of each task, and the prompts in a user's file.

A held-out prompt is one that no bundled model has seen in training. There are two sets: texts to
continue, and messages to a chat model. The rules for a user's file are the same in all commands and
on all pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from specviz.errors import InputError, short
from specviz.folders import ASSETS
from specviz.records import ROLES, Conversation, Prompt, RawText, Turn, turns_of

TASKS = ("code", "story", "maths", "translate", "summarise")
CHAT_TASKS = ("chat", *TASKS)
# The first file has texts to continue, the second has messages for chat models.
PROMPT_FILES = tuple(ASSETS / name for name in ("prompts.json", "chat_prompts.json"))
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
_EMPTY_LINES = re.compile(r"\n[^\S\n]*\n")


def tasks(is_chat: bool = False) -> tuple[str, ...]:
    """Return the tasks that have texts to continue.

    If `is_chat`, return the tasks that have prompts for chat models instead.
    """
    return CHAT_TASKS if is_chat else TASKS


@cache
def held_out_prompts(task: str, is_chat: bool = False) -> tuple[str, ...]:
    """Return the held-out prompts of one task. Raises InputError for an unknown task."""
    check_task(task, is_chat)
    return tuple(json.loads(PROMPT_FILES[is_chat].read_text(encoding="utf-8"))[task])


def all_held_out(is_chat: bool) -> dict[str, tuple[str, ...]]:
    """Return the held-out prompts of every task."""
    return {task: held_out_prompts(task, is_chat) for task in tasks(is_chat)}


def held_out_prompt(task: str, number: int, is_chat: bool = False) -> str:
    """Return the held-out prompt of a task with this number. Numbers start at 1, as on the page."""
    prompts = held_out_prompts(task, is_chat)
    if not 1 <= number <= len(prompts):
        raise InputError(f"prompt-number must be from 1 to {len(prompts)}, got {number}")
    return prompts[number - 1]


def held_out_rows(task: str, count: int, number: int = 1, is_chat: bool = False) -> tuple[str, ...]:
    """Return `count` held-out prompts of a task, starting with prompt `number`.

    After the last prompt of the task, the first prompt follows again.
    """
    first, prompts = held_out_prompt(task, number, is_chat), held_out_prompts(task, is_chat)
    others = (prompts[(number - 1 + row) % len(prompts)] for row in range(1, count))
    return (first, *others)


def check_task(task: str, is_chat: bool = False) -> None:
    known = tasks(is_chat)
    if task not in known:
        raise InputError(f"task must be one of {', '.join(known)}, got {short(task)}")


@dataclass(frozen=True, slots=True)
class Framing:
    """The way in which a text becomes a prompt: with a system prompt, or raw (no chat template)."""

    system: str = ""
    is_raw: bool = False

    def __post_init__(self) -> None:
        if self.is_raw and self.system:
            raise InputError(f"raw must not be given with a system prompt, got {self.system!r}")

    def of(self, prompt: Prompt) -> Prompt:
        """Apply the framing to a prompt.

        A prompt that is already raw, or that has a system prompt of its own, is returned unchanged.
        """
        if isinstance(prompt, RawText):
            return prompt
        if self.is_raw:
            if not isinstance(prompt, str):
                raise InputError("raw must be used with plain texts only, got a prompt of messages")
            return RawText(prompt)
        turns = turns_of(prompt)
        if not self.system or turns[0].role == "system":
            return prompt
        return Conversation((Turn("system", self.system), *turns))


@contextmanager
def prompt_number(number: int) -> Iterator[None]:
    """Add the prompt's number to an InputError that is raised inside this context."""
    try:
        yield
    except InputError as error:
        raise InputError(f"prompt {number} is invalid: {error}") from None


def own_text(prompt: Prompt) -> str:
    """Return the text that the user wrote: the last turn of a conversation, or the whole prompt."""
    return prompt.text if isinstance(prompt, RawText) else turns_of(prompt)[-1].content


def with_own_text(prompt: Prompt, text: str) -> Prompt:
    """Return a copy of the prompt in which `text` replaces the text that the user wrote."""
    match prompt:
        case RawText():
            return RawText(text)
        case Conversation():
            *before, last = prompt.turns
            return Conversation((*before, replace(last, content=text)))
    return text


def read_prompts(name: str, parameter: str = "prompts") -> tuple[Prompt, ...]:
    """Read the prompts in a UTF-8 file, which must have at least one prompt.

    A JSON line is an object: {"prompt": text} or {"messages": [{"role", "content"}, …]}. It may
    also have "system": text, or "raw": true for a prompt without the chat template. A file has JSON
    lines if its name ends in .jsonl or .ndjson, or if its first line is such an object. In any
    other file, empty lines separate the prompts, each of which may have several lines. If there is
    no empty line, every line is a prompt. Raises InputError, which names the parameter of the file.
    """
    return prompts_of(read_text(name, parameter), name, parameter)


def prompts_of(text: str, name: str, parameter: str = "prompts") -> tuple[Prompt, ...]:
    """Return the prompts in the text of a file, or in a text that a user typed.

    See `read_prompts`.
    """
    is_json = Path(name).suffix.lower() in _JSON_LINES or _is_json_lines(text)
    prompts = _of_json_lines(text, parameter) if is_json else split_prompts(text)
    if not prompts:
        where = f" in {name!r}" if name else ""
        raise InputError(f"{parameter} must have at least one text, got none{where}")
    return prompts


def prompt_json(prompt: Prompt) -> str | dict[str, Any]:
    """Convert a prompt to JSON: a plain text stays a text, any other prompt becomes an object."""
    match prompt:
        case Conversation():
            turns = [{"role": turn.role, "content": turn.content} for turn in prompt.turns]
            return {"messages": turns}
        case RawText():
            return {"prompt": prompt.text, "raw": True}
    return prompt


def prompt_from_json(value: object) -> Prompt:
    """Convert a value that `prompt_json` returned to a prompt.

    Raise ValueError for any other value.
    """
    return value if isinstance(value, str) else _of_object(value)


def split_prompts(text: str) -> tuple[str, ...]:
    """Divide a text into prompts at its empty lines.

    If the text has no empty line, every line is a prompt.

    >>> split_prompts("one\\ntwo\\n"), split_prompts("one\\ntwo\\n\\nthree\\n")
    (('one', 'two'), ('one\\ntwo', 'three'))
    """
    text = text.replace("\r\n", "\n").strip("\n")
    parts = _EMPTY_LINES.split(text) if _EMPTY_LINES.search(text) else text.split("\n")
    return tuple(part.strip("\n") for part in parts if part.strip())


def _is_json_lines(text: str) -> bool:
    try:
        first = json.loads(text.strip().split("\n", 1)[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and ("prompt" in first or "messages" in first)


def _of_json_lines(text: str, parameter: str) -> tuple[Prompt, ...]:
    lines = enumerate(text.split("\n"), start=1)
    return tuple(_of_json(line, number, parameter) for number, line in lines if line.strip())


def _of_json(line: str, number: int, parameter: str) -> Prompt:
    try:
        return _of_object(json.loads(line))
    except InputError as error:
        raise InputError(f"{parameter} line {number} is invalid: {error}") from None
    except (ValueError, RecursionError):
        raise InputError(
            f'{parameter} line {number} must be a JSON object with a text under "prompt" or turns '
            f'under "messages", got {line[:40]!r}'
        ) from None


def _of_object(value: object) -> Prompt:
    """Convert the object in a JSON line to a prompt.

    Raises ValueError if the object is not a prompt, and InputError for a field that is not allowed.
    """
    if not isinstance(value, dict) or not {"prompt", "messages"} & value.keys():
        raise ValueError("a prompt must be an object with prompt or messages")
    if {"prompt", "messages"} <= value.keys():
        raise InputError("'prompt' and 'messages' must not be given together")
    system, is_raw = value.get("system", ""), value.get("raw", False)
    if not isinstance(system, str):
        raise InputError(f"system must be text, got {short(system)}")
    if not isinstance(is_raw, bool):
        raise InputError(f"raw must be true or false, got {short(is_raw)}")
    return Framing(system, is_raw).of(_unframed(value))


def _unframed(value: dict[str, Any]) -> Prompt:
    if "messages" in value:
        return _conversation(value["messages"])
    prompt = value["prompt"]
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError(f"prompt must have some text, got {short(prompt)}")
    return prompt


def _conversation(messages: object) -> Conversation:
    if not isinstance(messages, list) or not messages:
        raise InputError(f"messages must be a list of turns, got {short(messages)}")
    turns = tuple(map(_turn, messages))
    if turns[-1].role != "user":
        raise InputError(f"messages must end with a turn of role user, got {turns[-1].role!r}")
    return Conversation(turns)


def _turn(message: object) -> Turn:
    if not isinstance(message, dict):
        raise InputError(
            f"messages must be objects with 'role' and 'content', got {short(message)}"
        )
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise InputError(f"role must be one of {', '.join(ROLES)}, got {short(role)}")
    if not isinstance(content, str) or not content.strip():
        raise InputError(f"content must have some text, got {short(content)}")
    return Turn(role, content)


def read_text(name: str, parameter: str) -> str:
    """Read a UTF-8 text file, without its byte order mark.

    Raises InputError if the file cannot be read.
    """
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{parameter} {name!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{parameter} {name!r} must be UTF-8 text") from None
    except ValueError:  # The name of the file contains a NUL character.
        raise InputError(f"{parameter} must be the name of a file, got {name!r}") from None
