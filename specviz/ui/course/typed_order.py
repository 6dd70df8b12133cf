"""A round of a lesson in which the user writes the draft. Its messages are `typed` and `end`."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError, short
from specviz.experiments.run.typed_round import TypedRequest, typed_round
from specviz.models.pair_catalog import Pair
from specviz.trace_file import encode
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.settings_form import race_request
from specviz.ui.turns import Work

# Every request must name a drafting method, although the lesson does not use it. Prompt lookup is
# chosen because it needs no model except the target.
PLAIN = {"method": "prompt-lookup"}


@dataclass(frozen=True, slots=True)
class TypedOrder(LabOrder):
    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    request: TypedRequest

    @property
    def pair(self) -> Pair:
        return self.request.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        if not stop.is_set():
            found = typed_round(self.request)
            yield {
                "kind": "typed",
                "begun": list(found.begun),
                "round": encode(found.round) if found.round else None,
                "rival": encode(found.rival) if found.rival else None,
                "rival_title": method_named(found.rival_method).title,
                "texts": found.texts,
                "has_ended": found.has_ended,
            }
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def typed_order(question: Mapping[str, Any]) -> TypedOrder:
    """Return the job for a round with the user's draft.

    The question is {"form": prompt, pair, …, "written": ids of the tokens after the prompt so far,
    "typed": the user's draft as text}.
    """
    asked = race_request({**question["form"], **PLAIN})
    request = TypedRequest(
        asked.pair,
        asked.prompt,
        _written(question["written"]),
        _typed(question["typed"]),
        replace(asked.config, draft_length=1),
        asked.device,
        asked.dtype,
    )
    return TypedOrder(request)


def _written(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise InputError(f"'written' must be a list of token ids, got {short(value)}")
    return tuple(value)


def _typed(value: object) -> str:
    if not isinstance(value, str) or any("\ud800" <= each <= "\udfff" for each in value):
        raise InputError(f"guess must be Unicode text, got {short(value)}")
    return value
