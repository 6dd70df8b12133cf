"""The library's own ways to decode beside ours, as the page asks for them.

Trusts nothing of a question. Kinds of message: `line`, `peers`, `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError
from specviz.models.catalog import BUNDLED, pair_named
from specviz.models.pair import Pair
from specviz.prompts import check_task
from specviz.records import MAX_DRAFT_LENGTH
from specviz.trace_fields import short
from specviz.ui.batches import Message
from specviz.ui.lab_order import LabOrder
from specviz.ui.told_work import told

OURS = ("draft-model", "prompt-lookup", "early-exit")  # what the library can do too
PROMPTS, REPEATS, NEW_TOKENS = 2, 3, 64


@dataclass(frozen=True, slots=True)
class PeersOrder(LabOrder):
    """Greedy, on the bundled pair: both sides with the same draft length and prompts."""

    task: str
    draft_length: int

    @property
    def pair(self) -> Pair:
        return pair_named(BUNDLED)

    def messages(self, stop: threading.Event) -> Iterator[Message]:
        result = yield from self._measured(stop)
        if result is not None:
            yield {"kind": "peers", "rows": result["rows"], "setting": self._setting}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}

    def _measured(self, stop: threading.Event) -> Generator[Message, None, dict[str, Any] | None]:
        from specviz.experiments.benchmark import Plan, benchmark

        plan = Plan(
            self.pair,
            (self.task,),
            OURS,
            (self.draft_length,),
            max_new_tokens=NEW_TOKENS,
            prompts=PROMPTS,
            repeats=REPEATS,
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
            f"{PROMPTS} prompts of {NEW_TOKENS} new tokens · {REPEATS} passes"
        )


def peers_order(question: Mapping[str, Any]) -> PeersOrder:
    task, length = str(question.get("task")), str(question.get("draft_length"))
    check_task(task)
    is_whole = length.isascii() and length.isdecimal() and len(length) < 4
    if not (is_whole and 1 <= int(length) <= MAX_DRAFT_LENGTH):
        raise InputError(
            f"draft_length must be an integer from 1 to {MAX_DRAFT_LENGTH}, got {short(length)}"
        )
    return PeersOrder(task, int(length))
