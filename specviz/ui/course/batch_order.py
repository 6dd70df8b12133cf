"""A lesson's batch: a few texts that are not equally lucky with their guesses."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.batch_race import BatchRequest
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import BUNDLED, Pair, pair_named
from specviz.prompts import held_out_rows
from specviz.ui.lab.lab_batch import batch_messages
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.turns import Work

ROWS = 4
TOKENS = 28  # of each row
LENGTH = 4  # guesses of each row in a round
TEMPERATURE = 0.7  # so that rows are not equally lucky


@dataclass(frozen=True, slots=True)
class BatchOrder(LabOrder):
    """Its messages are those of `batch_messages`."""

    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    request: BatchRequest

    @property
    def pair(self) -> Pair:
        return self.request.first.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        yield from batch_messages(self.request, stop)


def batch_order(_: Mapping[str, Any]) -> BatchOrder:
    """Of the pair that comes with the app: its draft is lucky often enough, and not always."""
    config = method_named("draft-model").usual(
        LENGTH, max_new_tokens=TOKENS, temperature=TEMPERATURE
    )
    prompts = held_out_rows("story", ROWS)
    first = RaceRequest(pair_named(BUNDLED), prompts[0], config, "story")
    return BatchOrder(BatchRequest(first, prompts))
