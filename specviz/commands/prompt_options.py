"""Which prompts a command line asks for: a task's held-out ones, a text, or a file's.

Knows nothing of what is done with them.
"""

from __future__ import annotations

from argparse import Namespace

from specviz.errors import InputError
from specviz.prompts import TASKS, held_out_prompt, held_out_rows
from specviz.text_file import read_text


def chosen_prompt(options: Namespace) -> tuple[str | None, str]:
    """The task, if there is one, and the prompt."""
    _check_one_source(options)
    if options.prompt is not None:
        return options.task, options.prompt
    if options.prompt_file is not None:
        return options.task, read_text(options.prompt_file, "prompt-file")
    task = options.task or TASKS[0]
    return task, held_out_prompt(task, options.prompt_number)


def chosen_prompts(options: Namespace, count: int) -> tuple[str | None, tuple[str, ...]]:
    """The task and `count` prompts, one per row of a batch.

    Held-out ones go on from the number that was asked for, the first ones again behind the last; of
    a file every line that has text is one; a text of one's own is in every row.
    """
    _check_one_source(options)
    if options.prompt is not None:
        return options.task, (options.prompt,) * count
    if options.prompt_file is not None:
        lines = [
            line
            for line in read_text(options.prompt_file, "prompt-file").split("\n")
            if line.strip()
        ]
        if len(lines) < count:
            raise InputError(
                f"prompt-file must have a line of text for each of {count} rows, got {len(lines)}"
            )
        return options.task, tuple(lines[:count])
    task = options.task or TASKS[0]
    return task, held_out_rows(task, count, options.prompt_number)


def _check_one_source(options: Namespace) -> None:
    if options.prompt is not None and options.prompt_file is not None:
        raise InputError("prompt and prompt-file must not be given together")
