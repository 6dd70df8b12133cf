"""A lesson's measurement: how well an EAGLE head foretells.

Kinds of message: `progress`, `head` (the mean over texts), `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from specviz.experiments.run.foretold import foretold_text, mean_text
from specviz.models.pair_catalog import BUNDLED, Pair, pair_named
from specviz.prompts import held_out_prompt, tasks
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.settings_form import form_pair
from specviz.ui.turns import Work

PLACES = 24  # of each text, one of every task
DEPTH = 4  # guesses in a row


@dataclass(frozen=True, slots=True)
class HeadOrder(LabOrder):
    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    measured: Pair

    @property
    def pair(self) -> Pair:
        return self.measured

    def messages(self, stop: threading.Event) -> Generator[Message]:
        pair, found = self.measured, []
        prompts = [held_out_prompt(task, 1, pair.instruct) for task in tasks(pair.instruct)]
        texts = (foretold_text(pair, each, PLACES, DEPTH) for each in prompts)
        for text in until_stopped(texts, stop):
            found.append(text)
            yield {"kind": "progress", "done": len(found), "points": len(prompts)}
        if found:
            told = {"model": pair.model_name("target"), "places": PLACES * len(found)}
            yield {"kind": "head", **told, **asdict(mean_text(found))}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def head_order(question: Mapping[str, Any]) -> HeadOrder:
    """{"form": the pair}; the bundled pair in place of one that has no EAGLE head."""
    pair = form_pair(question["form"])
    return HeadOrder(pair if pair.eagle else pair_named(BUNDLED))
