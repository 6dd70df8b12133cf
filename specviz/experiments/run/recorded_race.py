"""A recorded run with the interface of a race: a header, events of all lanes, token texts.

Code that shows a race can therefore show a recording, without loading a model.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.decoding.race import LaneEvent, race
from specviz.records import Trace


class Replay:
    """One recorded run; `header` is the trace as it was before anything had run."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._texts = dict(trace.token_texts)
        self.header = trace.unstarted

    def __iter__(self) -> Iterator[LaneEvent]:
        """Yield every event once, ordered by the lanes' own clocks."""
        return race({lane.name: lane.events for lane in self._trace.lanes})

    def token_text(self, token_id: int) -> str:
        """Return the visible text of a token, or its number if the trace has no text for it."""
        return self._texts.get(token_id, f"#{token_id}")

    def close(self) -> None:
        """Do nothing: a recording holds no resources."""
