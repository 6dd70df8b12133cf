"""A lesson's batch: a few prompts, decoded together, with different acceptance rates."""

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
TOKENS = 28  # tokens to decode per prompt
LENGTH = 4  # drafted tokens per prompt and round
TEMPERATURE = 0.7  # high enough that the acceptance differs between the prompts


@dataclass(frozen=True, slots=True)
class BatchOrder(LabOrder):
    """A job that decodes the batch of a lesson; it sends the messages of `batch_messages`."""

    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    request: BatchRequest

    @property
    def pair(self) -> Pair:
        return self.request.first.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        yield from batch_messages(self.request, stop)


def batch_order(_: Mapping[str, Any]) -> BatchOrder:
    """Return the job for the bundled pair, whose target accepts many of the drafts, but not all."""
    config = method_named("draft-model").usual(
        LENGTH, max_new_tokens=TOKENS, temperature=TEMPERATURE
    )
    prompts = held_out_rows("story", ROWS)
    first = RaceRequest(pair_named(BUNDLED), prompts[0], config, "story")
    return BatchOrder(BatchRequest(first, prompts))
