"""The held-out prompts of the five tasks, which no bundled model has seen in training.

Knows nothing of models; reads one file of the repository.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from specviz.errors import InputError

TASKS = ("code", "story", "maths", "translate", "summarise")
_FILE = Path(__file__).resolve().parents[1] / "assets" / "prompts.json"


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
