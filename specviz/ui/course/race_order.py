"""The race of an exercise, with its times and outcomes. Its messages are `race` and `end`."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError, short
from specviz.experiments.run.blocks import measure
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import BUNDLED, Pair, pair_named
from specviz.prompts import held_out_prompt
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message

LENGTH = 5
REPEATS = 3  # the speedup of one repeat alone may be noise
# Name of a race -> its task and number of tokens.
RACES = {"pair": ("code", 64), "hundred": ("story", 100)}


@dataclass(frozen=True, slots=True)
class RaceOrder(LabOrder):
    title: ClassVar[str] = "an exercise"

    request: RaceRequest

    @property
    def pair(self) -> Pair:
        return self.request.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        for measured in until_stopped(map(measure, [self.request], [REPEATS]), stop):
            run = measured.typical
            rounds = measured.trace.rounds
            yield {
                "kind": "race",
                "task": self.request.task,
                "length": self.request.config.draft_length,
                "plain": {"tokens": run.baseline.tokens, "seconds": run.baseline.seconds},
                "drafted": {"tokens": run.speculative.tokens, "seconds": run.speculative.seconds},
                "speedups": list(measured.speedups),
                "rounds": [[each.outcome.value for each in one.verdicts] for one in rounds],
            }
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def race_order(question: Mapping[str, Any]) -> RaceOrder:
    """Return the job for {"race": one of RACES}, which runs this race on the bundled pair."""
    name = str(question["race"])
    if name not in RACES:
        raise InputError(f"race must be one of {', '.join(RACES)}, got {short(name)}")
    task, tokens = RACES[name]
    config = method_named("draft-model").usual(LENGTH, max_new_tokens=tokens)
    request = RaceRequest(pair_named(BUNDLED), held_out_prompt(task, 1), config, task)
    return RaceOrder(request)
