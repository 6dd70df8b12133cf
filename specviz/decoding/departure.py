"""Where in a text a run begins when it does not begin behind the prompt.

Knows nothing of models or of how the text came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specviz.decoding.forced_draws import ForcedDraws
from specviz.records import Trace


@dataclass(frozen=True, slots=True)
class Departure:
    """The new tokens that stand behind the prompt already, and which round comes next.

    Uniform draws are keyed by text position and draft draws by the round's index, so a run that
    departs in the middle draws the numbers of a run that came all the way. `seconds` is the lane's
    own clock at that moment, `forced` changes draws of the first round.
    """

    written: tuple[int, ...]
    index: int
    seconds: float
    forced: ForcedDraws | None = None

    @classmethod
    def of(cls, trace: Trace, index: int, forced: Mapping[int, float]) -> Departure:
        """Before round `index` of a trace that has a prefill; at its end nothing can be forced."""
        assert trace.prefill is not None
        before = trace.rounds[:index]
        ids = (token_id for each in before for token_id in each.emitted_ids)
        record = trace.rounds[index] if index < len(trace.rounds) else None
        return cls(
            written=(trace.prefill.extra.token_id, *ids),
            index=index,
            seconds=sum((each.seconds for each in before), trace.prefill.seconds),
            forced=None if record is None else ForcedDraws.of(record, forced),
        )
