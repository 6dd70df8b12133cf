"""Lessons' measurements of a pair's models: times of forwards, what a head foretells, rounding.

Each order ends with `end`; its own kinds of message stand at its class.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from specviz.decoding.forward_times import forward_passes
from specviz.errors import InputError, short
from specviz.experiments.run.foretold import foretold_text, mean_text
from specviz.experiments.run.rounding import rounded_places
from specviz.models.pair_catalog import BUNDLED, Pair, pair_named
from specviz.models.pair_loading import load_pair
from specviz.prompts import held_out_prompt, tasks
from specviz.slices import until_stopped
from specviz.trace_file import encode
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.settings_form import form_pair
from specviz.ui.turns import Work


@dataclass(frozen=True, slots=True)
class PairOrder(LabOrder):
    """A short question of a lesson about the models of a pair."""

    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    measured: Pair

    @property
    def pair(self) -> Pair:
        return self.measured


def _end(stop: threading.Event) -> Message:
    return {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


# ---- times of forwards

COUNTS = (1, 2, 4, 6, 8, 16, 32, 64)
REPEATS = 7


@dataclass(frozen=True, slots=True)
class ForwardsOrder(PairOrder):
    """How long forwards of the target take, by their number of tokens: `forwards`, one a pass."""

    def messages(self, stop: threading.Event) -> Generator[Message]:
        target = load_pair(self.measured, needs=frozenset()).target
        for seconds in until_stopped(forward_passes(target, COUNTS, REPEATS), stop):
            yield {
                "kind": "forwards",
                "counts": list(COUNTS),
                "seconds": seconds,
                "passes": REPEATS,
                "model": encode(target.info),
                "weight_bytes": target.info.parameters * target.dtype.itemsize,
            }
        yield _end(stop)


def forwards_order(question: Mapping[str, Any]) -> ForwardsOrder:
    """{"form": the pair}."""
    return ForwardsOrder(form_pair(question["form"]))


# ---- a head

HEAD_PLACES = 24  # of each text, one of every task
DEPTH = 4  # guesses in a row


@dataclass(frozen=True, slots=True)
class HeadOrder(PairOrder):
    """How well an EAGLE head foretells: `progress`, then `head`, the mean over texts."""

    def messages(self, stop: threading.Event) -> Generator[Message]:
        pair, found = self.measured, []
        prompts = [held_out_prompt(task, 1, pair.instruct) for task in tasks(pair.instruct)]
        texts = (foretold_text(pair, each, HEAD_PLACES, DEPTH) for each in prompts)
        for text in until_stopped(texts, stop):
            found.append(text)
            yield {"kind": "progress", "done": len(found), "points": len(prompts)}
        if found:
            told = {"model": pair.model_name("target"), "places": HEAD_PLACES * len(found)}
            yield {"kind": "head", **told, **asdict(mean_text(found))}
        yield _end(stop)


def head_order(question: Mapping[str, Any]) -> HeadOrder:
    """{"form": the pair}; the bundled pair in place of one that has no EAGLE head."""
    pair = form_pair(question["form"])
    return HeadOrder(pair if pair.eagle else pair_named(BUNDLED))


# ---- rounding

PLACES = 64  # of the text
TOGETHER = 6  # tokens of the forward that is set beside one of a single token
NUMBERS = ("float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class RoundingOrder(PairOrder):
    """How far rounding moves the logits of a text: `progress`, then `rounding`, all places.

    When stopped, it tells the places that it has looked at.
    """

    numbers: str  # one of NUMBERS

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
        yield _end(stop)


def rounding_order(question: Mapping[str, Any]) -> RoundingOrder:
    """{"form": the pair, "numbers": one of NUMBERS}."""
    numbers = str(question["numbers"])
    if numbers not in NUMBERS:
        raise InputError(f"numbers must be one of {', '.join(NUMBERS)}, got {short(numbers)}")
    return RoundingOrder(form_pair(question["form"]), numbers)
