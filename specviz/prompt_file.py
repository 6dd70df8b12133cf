"""Many prompts from one file: a line each, a block each, or JSON lines.

Knows nothing of what is done with them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from specviz.errors import InputError
from specviz.text_file import read_text

_JSON_LINES = frozenset({".jsonl", ".ndjson"})
_EMPTY_LINES = re.compile(r"\n[^\S\n]*\n")


def read_prompts(name: str) -> tuple[str, ...]:
    """The prompts of a UTF-8 file, at least one.

    A name that ends in .jsonl or .ndjson has one JSON object a line, its text under "prompt". In
    any other file, empty lines separate prompts that may have many lines; where there is no empty
    line between texts, every line is a prompt.
    """
    return prompts_of(read_text(name, "prompts"), name)


def prompts_of(text: str, name: str) -> tuple[str, ...]:
    """The prompts of a file's text; its name tells how it is written, see `read_prompts`."""
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
