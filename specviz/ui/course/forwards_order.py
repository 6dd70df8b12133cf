"""A lesson's measurement: how long forwards of the target take, by their number of tokens.

Kinds of message: `forwards` (one pass over all counts), `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.decoding.forward_times import forward_passes
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.slices import until_stopped
from specviz.trace_file import encode
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.settings_form import form_pair
from specviz.ui.turns import Work

COUNTS = (1, 2, 4, 6, 8, 16, 32, 64)
REPEATS = 7


@dataclass(frozen=True, slots=True)
class ForwardsOrder(LabOrder):
    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    measured: Pair

    @property
    def pair(self) -> Pair:
        return self.measured

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
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def forwards_order(question: Mapping[str, Any]) -> ForwardsOrder:
    """{"form": the pair}."""
    return ForwardsOrder(form_pair(question["form"]))
