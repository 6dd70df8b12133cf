"""Prompts: the held-out ones of each task, which no bundled model has seen in training, and those
of a user's file, which all commands and pages read by the same rules.

There are two sets of held-out prompts: texts to be continued, and messages to a chat model.
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
PROMPT_FILES = tuple(  # to be continued, for chat
    ASSETS / name for name in ("prompts.json", "chat_prompts.json")
)
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
_EMPTY_LINES = re.compile(r"\n[^\S\n]*\n")


def tasks(is_chat: bool = False) -> tuple[str, ...]:
    """Those of the prompts for chat models, or of the others."""
    return CHAT_TASKS if is_chat else TASKS


@cache
def held_out_prompts(task: str, is_chat: bool = False) -> tuple[str, ...]:
    """The prompts of one task; InputError for a task that there is not."""
    check_task(task, is_chat)
    return tuple(json.loads(PROMPT_FILES[is_chat].read_text(encoding="utf-8"))[task])


def all_held_out(is_chat: bool) -> dict[str, tuple[str, ...]]:
    """Task -> its prompts."""
    return {task: held_out_prompts(task, is_chat) for task in tasks(is_chat)}


def held_out_prompt(task: str, number: int, is_chat: bool = False) -> str:
    """Prompt `number` of a task, counted from 1 as on the page."""
    prompts = held_out_prompts(task, is_chat)
    if not 1 <= number <= len(prompts):
        raise InputError(f"prompt-number must be from 1 to {len(prompts)}, got {number}")
    return prompts[number - 1]


def held_out_rows(task: str, count: int, number: int = 1, is_chat: bool = False) -> tuple[str, ...]:
    """`count` prompts of a task from `number` on; behind the last the first ones again."""
    first, prompts = held_out_prompt(task, number, is_chat), held_out_prompts(task, is_chat)
    others = (prompts[(number - 1 + row) % len(prompts)] for row in range(1, count))
    return (first, *others)


def check_task(task: str, is_chat: bool = False) -> None:
    known = tasks(is_chat)
    if task not in known:
        raise InputError(f"task must be one of {', '.join(known)}, got {task!r}")


@dataclass(frozen=True, slots=True)
class Framing:
    """How texts are put to a model: behind a system prompt, or raw, without any chat template."""

    system: str = ""
    is_raw: bool = False

    def __post_init__(self) -> None:
        if self.is_raw and self.system:
            raise InputError(f"raw must not be given with a system prompt, got {self.system!r}")

    def of(self, prompt: Prompt) -> Prompt:
        """The prompt so framed; one that has a system prompt, or is raw, stays as it is."""
        if isinstance(prompt, RawText):
            return prompt
        if self.is_raw:
            if not isinstance(prompt, str):
                raise InputError("raw must be given for texts alone, got a prompt of messages")
            return RawText(prompt)
        turns = turns_of(prompt)
        if not self.system or turns[0].role == "system":
            return prompt
        return Conversation((Turn("system", self.system), *turns))


@contextmanager
def prompt_number(number: int) -> Iterator[None]:
    """An InputError inside says which of several prompts it is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"prompts are refused at number {number}: {error}") from None


def own_text(prompt: Prompt) -> str:
    """What is asked: a conversation's last turn, any other prompt as a whole."""
    return prompt.text if isinstance(prompt, RawText) else turns_of(prompt)[-1].content


def with_own_text(prompt: Prompt, text: str) -> Prompt:
    """Another text asked in the same way."""
    match prompt:
        case RawText():
            return RawText(text)
        case Conversation():
            *before, last = prompt.turns
            return Conversation((*before, replace(last, content=text)))
    return text


def read_prompts(name: str, parameter: str = "prompts") -> tuple[Prompt, ...]:
    """The prompts of a UTF-8 file, at least one; errors name the parameter.

    JSON lines hold an object each: {"prompt": text} or {"messages": [{"role", "content"}, …]}, and
    perhaps "system": text, or "raw": true for a prompt that gets no chat template. They are told by
    the name (.jsonl, .ndjson) or by the first line. In any other file, empty lines separate prompts
    that may have many lines; where there is no empty line between texts, every line is a prompt.
    """
    return prompts_of(read_text(name, parameter), name, parameter)


def prompts_of(text: str, name: str, parameter: str = "prompts") -> tuple[Prompt, ...]:
    """The prompts of a file's text, or of a text that was typed; see `read_prompts`."""
    is_json = Path(name).suffix.lower() in _JSON_LINES or _is_json_lines(text)
    prompts = _of_json_lines(text, parameter) if is_json else split_prompts(text)
    if not prompts:
        raise InputError(f"{parameter} must have at least one text, got none in {name!r}")
    return prompts


def prompt_json(prompt: Prompt) -> str | dict[str, Any]:
    """A plain text as it is, any other prompt as the object of its JSON line."""
    match prompt:
        case Conversation():
            turns = [{"role": turn.role, "content": turn.content} for turn in prompt.turns]
            return {"messages": turns}
        case RawText():
            return {"prompt": prompt.text, "raw": True}
    return prompt


def prompt_from_json(value: object) -> Prompt:
    """What `prompt_json` wrote; ValueError for anything else."""
    return value if isinstance(value, str) else _of_object(value)


def split_prompts(text: str) -> tuple[str, ...]:
    """Blocks between empty lines, or lines where there is no empty one.

    >>> split_prompts("one\\ntwo\\n"), split_prompts("one\\ntwo\\n\\nthree\\n")
    (('one', 'two'), ('one\\ntwo', 'three'))
    """
    text = text.replace("\r\n", "\n").strip("\n")
    parts = _EMPTY_LINES.split(text) if _EMPTY_LINES.search(text) else text.split("\n")
    return tuple(part.strip("\n") for part in parts if part.strip())


def _is_json_lines(text: str) -> bool:
    """Whether the first line is an object that holds a prompt."""
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
        raise InputError(f"{parameter} line {number} is refused: {error}") from None
    except (ValueError, RecursionError):
        raise InputError(
            f'{parameter} line {number} must be a JSON object with a text under "prompt" or turns '
            f'under "messages", got {line[:40]!r}'
        ) from None


def _of_object(value: object) -> Prompt:
    """Of one line's object; ValueError where it is none, InputError for a field that breaks a
    rule.
    """
    if not isinstance(value, dict) or ("prompt" in value) == ("messages" in value):
        raise ValueError("no prompt, or two")
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
        raise ValueError("no text")
    return prompt


def _conversation(messages: object) -> Conversation:
    if not isinstance(messages, list) or not messages:
        raise InputError(f"messages must be a list of turns, got {short(messages)}")
    turns = tuple(map(_turn, messages))
    if turns[-1].role != "user":
        raise InputError(f"messages must end with a turn of the user, got {turns[-1].role!r}")
    return Conversation(turns)


def _turn(message: object) -> Turn:
    if not isinstance(message, dict):
        raise InputError(f"messages must be objects with role and content, got {short(message)}")
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise InputError(f"role must be one of {', '.join(ROLES)}, got {short(role)}")
    if not isinstance(content, str) or not content.strip():
        raise InputError(f"content must have some text, got {short(content)}")
    return Turn(role, content)


def read_text(name: str, parameter: str) -> str:
    """The UTF-8 text of a file; a byte order mark is no part of it."""
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{parameter} {name!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{parameter} {name!r} must be UTF-8 text") from None
    except ValueError:  # a name with a NUL
        raise InputError(f"{parameter} must be the name of a file, got {name!r}") from None
