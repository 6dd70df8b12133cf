"""A finished trace with the face of a race: its header, its events on fair clocks, its texts.

Whatever follows a race can follow a recording, with no model loaded. Knows nothing of how the
trace came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from specviz.decoding.race import Event, LaneEvent, race
from specviz.records import FinishReason, Prefill, Trace


class Replay:
    """One recorded run. `header` is the trace as it was before anything had run."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._texts = dict(trace.token_texts)
        self.header = replace(
            trace,
            prefill=None,
            rounds=(),
            finish=None,
            baseline_prefill=None,
            baseline_steps=(),
            baseline_finish=None,
        )

    def __iter__(self) -> Iterator[LaneEvent]:
        """Every event once, in the order of the lanes' own clocks."""
        trace = self._trace
        baseline = _lane(trace.baseline_prefill, trace.baseline_steps, trace.baseline_finish)
        return race(baseline, _lane(trace.prefill, trace.rounds, trace.finish))

    def token_text(self, token_id: int) -> str:
        """One token's visible text; its number where the trace has no text of it."""
        return self._texts.get(token_id, f"#{token_id}")

    def close(self) -> None:
        """Nothing to free."""


def _lane(
    prefill: Prefill | None, events: Iterable[Event], finish: FinishReason | None
) -> Iterator[Event]:
    """A lane that has not ended ends as stopped, one without a prefill says nothing else."""
    if prefill is not None:
        yield prefill
    yield from events
    yield finish or FinishReason.STOPPED
