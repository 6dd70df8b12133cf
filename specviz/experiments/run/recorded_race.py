"""A finished trace with the face of a race: its header, its events on fair clocks, its texts.

Whatever follows a race can follow a recording, with no model loaded.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.decoding.race import LaneEvent, race
from specviz.records import Trace


class Replay:
    """One recorded run. `header` is the trace as it was before anything had run."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._texts = dict(trace.token_texts)
        self.header = trace.unstarted

    def __iter__(self) -> Iterator[LaneEvent]:
        """Every event once, in the order of the lanes' own clocks."""
        return race({lane.name: lane.events for lane in self._trace.lanes})

    def token_text(self, token_id: int) -> str:
        """One token's visible text; its number where the trace has no text of it."""
        return self._texts.get(token_id, f"#{token_id}")

    def close(self) -> None:
        """Nothing to free."""
