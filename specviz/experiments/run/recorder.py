"""Collects the events of both lanes into a trace, and every token id that it mentions.

Knows nothing of models or text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specviz.decoding.race import Event, Lane
from specviz.records import BaselineStep, FinishReason, Prefill, Round, Trace


class Recorder:
    """Grows with the run."""

    def __init__(self) -> None:
        self.token_ids: set[int] = set()
        self._prefills: dict[Lane, Prefill] = {}
        self._finishes: dict[Lane, FinishReason] = {}
        self._rounds: list[Round] = []
        self._steps: list[BaselineStep] = []

    def add(self, lane: Lane, event: Event) -> None:
        self.token_ids.update(mentioned_ids(event))
        match event:
            case Prefill():
                self._prefills[lane] = event
            case Round():
                self._rounds.append(event)
            case BaselineStep():
                self._steps.append(event)
            case FinishReason():
                self._finishes[lane] = event

    def fill(self, header: Trace) -> Trace:
        """`header` with all that was added."""
        return replace(
            header,
            prefill=self._prefills.get(Lane.SPECULATIVE),
            rounds=tuple(self._rounds),
            finish=self._finishes.get(Lane.SPECULATIVE),
            baseline_prefill=self._prefills.get(Lane.BASELINE),
            baseline_steps=tuple(self._steps),
            baseline_finish=self._finishes.get(Lane.BASELINE),
        )


def mentioned_ids(event: Event) -> Iterator[int]:
    """Every token id that a record of this event would need the text of."""
    match event:
        case Prefill():
            yield event.extra.token_id
            yield from event.position.token_ids
        case Round():
            yield from (node.token_id for node in event.tree.nodes)
            yield from event.emitted_ids
            yield from event.extra_ids
            for position in event.positions:
                yield from position.token_ids
            for note in event.notes:
                yield from getattr(note, "token_ids", ())
        case BaselineStep():
            yield event.token_id
