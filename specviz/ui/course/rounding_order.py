"""A lesson's measurement: how far rounding moves the logits of a text.

Kinds of message: `progress`, `rounding` (all places), `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from specviz.errors import InputError, short
from specviz.experiments.run.rounding import rounded_places
from specviz.models.pair_catalog import Pair
from specviz.prompts import held_out_prompt, tasks
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.settings_form import form_pair
from specviz.ui.turns import Work

PLACES = 64  # of the text
TOGETHER = 6  # tokens of the forward that is set beside one of a single token
NUMBERS = ("float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class RoundingOrder(LabOrder):
    """When stopped, it tells the places that it has looked at."""

    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    measured: Pair
    numbers: str  # one of NUMBERS

    @property
    def pair(self) -> Pair:
        return self.measured

    def messages(self, stop: threading.Event) -> Generator[Message]:
        pair, found = self.measured, []
        prompt = held_out_prompt(tasks(pair.instruct)[0], 1, pair.instruct)
        places = rounded_places(pair, prompt, self.numbers, PLACES, TOGETHER)
        for place in until_stopped(places, stop):
            found.append(asdict(place))
            yield {"kind": "progress", "done": len(found), "points": PLACES}
        model = pair.model_name("target")
        told = {"model": model, "prompt": prompt, "together": TOGETHER, "places": found}
        yield {"kind": "rounding", "numbers": self.numbers, **told}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def rounding_order(question: Mapping[str, Any]) -> RoundingOrder:
    """{"form": the pair, "numbers": one of NUMBERS}."""
    numbers = str(question["numbers"])
    if numbers not in NUMBERS:
        raise InputError(f"numbers must be one of {', '.join(NUMBERS)}, got {short(numbers)}")
    return RoundingOrder(form_pair(question["form"]), numbers)
