"""Lessons that measure a pair's models: forward times, an EAGLE head's predictions, rounding.

Each job ends with the message `end`. The docstring of the job's class lists its other messages.
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
from specviz.models.matrix_kernels.choice import MOST_ALIKE
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
    """A short measurement that a lesson asks for, about the models of a pair."""

    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    measured: Pair

    @property
    def pair(self) -> Pair:
        return self.measured


def _end(stop: threading.Event) -> Message:
    return {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


COUNTS = (1, 2, 4, 6, 8, 16, 32, 64)
REPEATS = 7


@dataclass(frozen=True, slots=True)
class ForwardsOrder(PairOrder):
    """A job that times forwards of the target over 1, 2, … tokens, as listed in COUNTS.

    It sends one message `forwards` per pass.
    """

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
    """Return a job that times forwards of the target in {"form": the pair}."""
    return ForwardsOrder(form_pair(question["form"]))


HEAD_PLACES = 24  # positions per text at which the head guesses; each task gives one text
DEPTH = 4  # number of consecutive tokens that the head guesses at a position


@dataclass(frozen=True, slots=True)
class HeadOrder(PairOrder):
    """A job that measures how well an EAGLE head predicts.

    Its messages are `progress`, then `head` with the quality of the predictions, averaged over
    several texts.
    """

    def messages(self, stop: threading.Event) -> Generator[Message]:
        pair, found = self.measured, []
        prompts = [held_out_prompt(task, 1, pair.instruct) for task in tasks(pair.instruct)]
        texts = (foretold_text(pair, each, HEAD_PLACES, DEPTH) for each in prompts)
        for text in until_stopped(texts, stop):
            found.append(text)
            yield {"kind": "progress", "done": len(found), "points": len(prompts)}
        if found:
            facts = {"model": pair.model_name("target"), "places": HEAD_PLACES * len(found)}
            yield {"kind": "head", **facts, **asdict(mean_text(found))}
        yield _end(stop)


def head_order(question: Mapping[str, Any]) -> HeadOrder:
    """Return a job that measures the EAGLE head of the pair in {"form": the pair}.

    If the pair has no EAGLE head, the job uses the bundled pair.
    """
    pair = form_pair(question["form"])
    return HeadOrder(pair if pair.eagle else pair_named(BUNDLED))


PLACES = 64  # number of positions in the text whose logits are compared
# The number of tokens of a long forward that is compared with forwards of one token. The compiled
# kernels add numbers in the same order for up to MOST_ALIKE tokens, so a shorter forward would
# round like forwards of one token.
TOGETHER = MOST_ALIKE + 8
NUMBERS = ("float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class RoundingOrder(PairOrder):
    """A job that measures how much rounding changes the logits of a text.

    Its messages are `progress`, then `rounding` with the results for all positions. If stopped, it
    reports the positions measured so far.
    """

    numbers: str  # number format, one of NUMBERS

    def messages(self, stop: threading.Event) -> Generator[Message]:
        pair, found = self.measured, []
        prompt = held_out_prompt(tasks(pair.instruct)[0], 1, pair.instruct)
        places = rounded_places(pair, prompt, self.numbers, PLACES, TOGETHER)
        for place in until_stopped(places, stop):
            found.append(asdict(place))
            yield {"kind": "progress", "done": len(found), "points": PLACES}
        model = pair.model_name("target")
        facts = {"model": model, "prompt": prompt, "together": TOGETHER, "places": found}
        yield {"kind": "rounding", "numbers": self.numbers, **facts}
        yield _end(stop)


def rounding_order(question: Mapping[str, Any]) -> RoundingOrder:
    """Return a job that measures rounding in the target of a pair.

    The question is {"form": the pair, "numbers": one of NUMBERS}.
    """
    numbers = str(question["numbers"])
    if numbers not in NUMBERS:
        raise InputError(f"numbers must be one of {', '.join(NUMBERS)}, got {short(numbers)}")
    return RoundingOrder(form_pair(question["form"]), numbers)
