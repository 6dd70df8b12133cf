"""Which outcomes of a verification are worth drafting for before it has ended.

An outcome is how many nodes of a chain pass, and the extra token behind them. Knows nothing of
models or processes. Letters: K nodes of the chain, M outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

DECAY = 0.7  # of the further outcomes, from one accepted count to the next
FULL_WEIGHT = 0.5  # of those behind a chain that passes whole: there the best one is likely enough


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Those of one round, row by row: ascending accepted counts, each with its best extra tokens.

    `counts` says how many there are for 0, 1, … accepted nodes; `depth` how far each is drafted.
    """

    counts: tuple[int, ...]
    depth: int

    @property
    def size(self) -> int:  # M
        return sum(self.counts)

    @property
    def accepted(self) -> tuple[int, ...]:
        """Accepted nodes of each row."""
        return tuple(a for a, count in enumerate(self.counts) for _ in range(count))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Which of the best extra tokens each row takes, from 0."""
        return tuple(rank for count in self.counts for rank in range(count))

    def find(self, extra_ids: Sequence[int], accepted: int, extra_id: int) -> int | None:
        """The row of what happened, None if nobody prepared for it. `extra_ids` has M entries.

        >>> Outcomes((1, 2), 3).find([7, 8, 9], 1, 9)
        2
        """
        first = sum(self.counts[:accepted])
        last = first + (self.counts[accepted] if accepted < len(self.counts) else 0)
        return next((row for row in range(first, last) if extra_ids[row] == extra_id), None)


@lru_cache(maxsize=256)
def prepared_outcomes(draft_length: int, fan_out: int, room: int) -> Outcomes:
    """The outcomes of a round whose chain has room for `room` >= 1 tokens.

    Only those that leave the next round room for a token: near the end of a run none.
    """
    possible = max(0, min(draft_length + 1, room - 1))
    return Outcomes(fan_outs(draft_length, fan_out)[:possible], min(draft_length, room - 1))


@lru_cache(maxsize=256)
def fan_outs(draft_length: int, fan_out: int) -> tuple[int, ...]:
    """Outcomes per accepted count 0 … K: `fan_out` on average, at least one, more for small counts.

    The first token to fail decides, so early positions are left more often than late ones; the
    further outcomes fall geometrically (2603.03251), with weights measured on the bundled pair.

    >>> fan_outs(5, 1), fan_outs(5, 2)
    ((1, 1, 1, 1, 1, 1), (3, 2, 2, 2, 1, 2))
    """
    weights = [DECAY**accepted for accepted in range(draft_length)] + [FULL_WEIGHT]
    further = (fan_out - 1) * len(weights)
    shares = [further * weight / sum(weights) for weight in weights]
    counts = [1 + int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda a: int(shares[a]) - shares[a])
    for accepted in by_remainder[: fan_out * len(weights) - sum(counts)]:
        counts[accepted] += 1
    return tuple(counts)
