"""Prompts: the held-out ones of the five tasks, which no bundled model has seen in training, and
those of a user's file.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from specviz.errors import InputError

TASKS = ("code", "story", "maths", "translate", "summarise")
_FILE = Path(__file__).resolve().parents[1] / "assets" / "prompts.json"
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
_EMPTY_LINES = re.compile(r"\n[^\S\n]*\n")


@cache
def held_out_prompts(task: str) -> tuple[str, ...]:
    """The prompts of one task; InputError for a task that there is not."""
    check_task(task)
    return tuple(json.loads(_FILE.read_text(encoding="utf-8"))[task])


def held_out_prompt(task: str, number: int) -> str:
    """Prompt `number` of a task, counted from 1 as on the page."""
    prompts = held_out_prompts(task)
    if not 1 <= number <= len(prompts):
        raise InputError(f"prompt-number must be from 1 to {len(prompts)}, got {number}")
    return prompts[number - 1]


def held_out_rows(task: str, count: int, number: int = 1) -> tuple[str, ...]:
    """`count` prompts of a task from `number` on; behind the last the first ones again."""
    first, prompts = held_out_prompt(task, number), held_out_prompts(task)
    others = (prompts[(number - 1 + row) % len(prompts)] for row in range(1, count))
    return (first, *others)


def check_task(task: str) -> None:
    if task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, got {task!r}")


def read_prompts(name: str) -> tuple[str, ...]:
    """The prompts of a UTF-8 file, at least one.

    A name that ends in .jsonl or .ndjson has one JSON object a line, its text under "prompt". In
    any other file, empty lines separate prompts that may have many lines; where there is no empty
    line between texts, every line is a prompt.
    """
    return prompts_of(read_text(name, "prompts"), name)


def prompts_of(text: str, name: str) -> tuple[str, ...]:
    """The prompts of a file's text; the name decides the format, see `read_prompts`."""
    is_json = Path(name).suffix.lower() in _JSON_LINES
    prompts = _of_json_lines(text) if is_json else split_prompts(text)
    if not prompts:
        raise InputError(f"prompts must have at least one text, got none in {name!r}")
    return prompts


def split_prompts(text: str) -> tuple[str, ...]:
    """Blocks between empty lines, or lines where there is no empty one.

    >>> split_prompts("one\\ntwo\\n"), split_prompts("one\\ntwo\\n\\nthree\\n")
    (('one', 'two'), ('one\\ntwo', 'three'))
    """
    text = text.replace("\r\n", "\n").strip("\n")
    parts = _EMPTY_LINES.split(text) if _EMPTY_LINES.search(text) else text.split("\n")
    return tuple(part.strip("\n") for part in parts if part.strip())


def _of_json_lines(text: str) -> tuple[str, ...]:
    lines = enumerate(text.split("\n"), start=1)
    return tuple(_of_json(line, number) for number, line in lines if line.strip())


def _of_json(line: str, number: int) -> str:
    rule = f'prompts line {number} must be a JSON object with a text under "prompt"'
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{rule}, got {line[:40]!r}") from None
    prompt = value.get("prompt") if isinstance(value, dict) else None
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError(f"{rule}, got {line[:40]!r}")
    return prompt


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
