"""The library's own ways to decode beside ours, as the page asks for them.

Trusts nothing of a question. Kinds of message: `line`, `peers`, `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError
from specviz.models.catalog import BUNDLED, pair_named
from specviz.models.pair import Pair
from specviz.prompts import check_task
from specviz.records import MAX_DRAFT_LENGTH
from specviz.trace_file.fields import short
from specviz.ui.batches import Message
from specviz.ui.lab_order import LabOrder
from specviz.ui.told_work import told

# what both sides can do: our method, the library's call
SAME = {
    "Plain decoding": ("baseline", "generate()"),
    "A draft model": ("draft-model", "generate(assistant_model)"),
    "Prompt lookup": ("prompt-lookup", "generate(prompt_lookup_num_tokens)"),
    "Early exit": ("early-exit", "generate(assistant_early_exit)"),
}
OURS = tuple(ours for ours, _ in list(SAME.values())[1:])


@dataclass(frozen=True, slots=True)
class PeersOrder(LabOrder):
    """Greedy, on the bundled pair: both sides with the same draft length and prompts."""

    task: str
    draft_length: int
    prompts: int = 2
    repeats: int = 3
    new_tokens: int = 64

    @property
    def pair(self) -> Pair:
        return pair_named(BUNDLED)

    def messages(self, stop: threading.Event) -> Iterator[Message]:
        result = yield from self._measured(stop)
        if result is not None:
            yield {"kind": "peers", "pairs": _pairs(result["rows"]), "setting": self._setting}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}

    def _measured(self, stop: threading.Event) -> Generator[Message, None, dict[str, Any] | None]:
        from specviz.experiments.benchmark import Plan, benchmark

        plan = Plan(
            self.pair,
            (self.task,),
            OURS,
            (self.draft_length,),
            max_new_tokens=self.new_tokens,
            prompts=self.prompts,
            repeats=self.repeats,
        )
        lines = told(lambda tell: benchmark(plan, tell), stop)
        while True:
            try:
                line = next(lines)
            except StopIteration as end:
                found: dict[str, Any] | None = end.value
                return found
            if line is not None:
                yield {"kind": "line", "text": line}

    @property
    def _setting(self) -> str:
        return (
            f"{self.pair.title} · {self.task} · K {self.draft_length} · temperature 0 · "
            f"{self.prompts} prompts of {self.new_tokens} new tokens · {self.repeats} passes"
        )


def _pairs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each way to decode, ours beside the library's, and how many times as fast ours is."""
    found = {row["method"]: row for row in rows}
    return [
        {
            "title": title,
            "call": theirs,
            "ours": found[ours],
            "theirs": found[theirs],
            "ratio": found[ours]["tokens_per_second"] / found[theirs]["tokens_per_second"],
        }
        for title, (ours, theirs) in SAME.items()
    ]


def peers_order(question: Mapping[str, Any]) -> PeersOrder:
    task, length = str(question.get("task")), str(question.get("draft_length"))
    check_task(task)
    is_whole = length.isascii() and length.isdecimal() and len(length) < 4
    if not (is_whole and 1 <= int(length) <= MAX_DRAFT_LENGTH):
        raise InputError(
            f"draft_length must be an integer from 1 to {MAX_DRAFT_LENGTH}, got {short(length)}"
        )
    return PeersOrder(task, int(length))
