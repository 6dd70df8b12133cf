"""What drafting ahead is asked for: a setting per run, an order per round.

Knows neither who asks nor who drafts.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.decoding.ahead.outcomes import Outcomes, fan_outs, prepared_outcomes
from specviz.decoding.sampling import Sampler


@dataclass(frozen=True, slots=True)
class Setting:
    """One run: what both sides must agree on."""

    draft_length: int  # K
    fan_out: int
    sampler: Sampler
    seed: int
    vocab_size: int  # V
    capacity: int  # committed tokens, at most

    @property
    def most_outcomes(self) -> int:
        return sum(fan_outs(self.draft_length, self.fan_out))


@dataclass(frozen=True, slots=True)
class Order:
    """One round: its chain, and chains for the likely outcomes of its verification.

    `row` of the board holds the chain; the last row of all: it has still to be drafted.
    """

    round_index: int
    committed: int  # tokens, the root included
    room: int  # for the chain, >= 1
    accepted: int  # nodes of the last round's chain
    row: int

    def length(self, setting: Setting) -> int:
        """Nodes of the chain."""
        return min(setting.draft_length, self.room)

    def outcomes(self, setting: Setting) -> Outcomes:
        return prepared_outcomes(setting.draft_length, setting.fan_out, self.room)
