"""Collects the events of all lanes into a trace, and every token id that it mentions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from specviz.records import (
    EngineToken,
    Event,
    FinishReason,
    Lane,
    Prefill,
    Round,
    TokenStep,
    ToldOrigins,
    Trace,
)


class Recorder:
    """Grows with the run."""

    def __init__(self) -> None:
        self.token_ids: set[int] = set()
        self._events: defaultdict[str, list[Event]] = defaultdict(list)

    def add(self, lane: str, event: Event) -> None:
        self.token_ids.update(mentioned_ids(event))
        self._events[lane].append(event)

    def fill(self, header: Trace) -> Trace:
        """`header` with all that was added."""
        return replace(header, lanes=tuple(self._filled(lane) for lane in header.lanes))

    def _filled(self, lane: Lane) -> Lane:
        events = self._events[lane.name]
        return replace(
            lane,
            prefill=next((each for each in events if isinstance(each, Prefill)), None),
            rounds=tuple(each for each in events if isinstance(each, Round)),
            steps=tuple(each for each in events if isinstance(each, TokenStep)),
            arrivals=_arrivals(events),
            finish=next((each for each in events if isinstance(each, FinishReason)), None),
        )


def _arrivals(events: Sequence[Event]) -> tuple[EngineToken, ...]:
    """An engine's tokens, with where each came from if it told that in the end."""
    arrivals = tuple(each for each in events if isinstance(each, EngineToken))
    told = next((each.origins for each in events if isinstance(each, ToldOrigins)), None)
    if told is None:
        return arrivals
    return tuple(replace(each, origin=origin) for each, origin in zip(arrivals, told, strict=True))


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
        case TokenStep() | EngineToken():
            yield event.token_id
