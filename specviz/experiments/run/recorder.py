"""A recorder for the events of all lanes: it builds a trace and collects the token ids in it."""

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
    """The events of a run that were recorded so far."""

    def __init__(self) -> None:
        self.token_ids: set[int] = set()
        self._events: defaultdict[str, list[Event]] = defaultdict(list)

    def add(self, lane: str, event: Event) -> None:
        self.token_ids.update(mentioned_ids(event))
        self._events[lane].append(event)

    def fill(self, header: Trace) -> Trace:
        """Return `header`, a trace without events, with all recorded events."""
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
    """Return an engine's tokens.

    Each has its origin if the engine reported the origins after the last token.
    """
    arrivals = tuple(each for each in events if isinstance(each, EngineToken))
    origins = next((each.origins for each in events if isinstance(each, ToldOrigins)), None)
    if origins is None:
        return arrivals
    return tuple(
        replace(each, origin=origin) for each, origin in zip(arrivals, origins, strict=True)
    )


def mentioned_ids(event: Event) -> Iterator[int]:
    """Yield the id of every token whose text is needed to show this event."""
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
