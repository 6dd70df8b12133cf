"""What drafting ahead is asked for: a setting per run, an order per round, and the outcomes of it.

An outcome of a verification is how many nodes of a chain are accepted, and the extra token after
them. Letters: K nodes of the chain, M outcomes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from specviz.decoding.sampling import Sampler

DECAY = 0.7  # of further outcomes, from one accepted count to the next
FULL_WEIGHT = 0.5  # of those after a whole chain: there the best token is often enough


@dataclass(frozen=True, slots=True)
class Setting:
    """One run: what both processes must agree on."""

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

    `row` is the board's row that holds the chain; if it is the last row, the chain is yet to draft.
    """

    round_index: int
    committed: int  # tokens, the root included
    room: int  # for the chain; 0: only read the text
    accepted: int  # nodes of the last round's chain
    row: int

    def length(self, setting: Setting) -> int:
        """Nodes of the chain."""
        return min(setting.draft_length, self.room)

    def outcomes(self, setting: Setting) -> Outcomes:
        return prepared_outcomes(setting.draft_length, setting.fan_out, self.room)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The prepared outcomes of a round, one a row: by accepted count, the best extra token first.

    `counts` is their number for 0, 1, … accepted nodes, `depth` how many tokens each gets.
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
        """The rank of each row's extra token among the best, from 0."""
        return tuple(rank for count in self.counts for rank in range(count))

    def find(self, extra_ids: Sequence[int], accepted: int, extra_id: int) -> int | None:
        """The row of an outcome, None if it was not prepared. `extra_ids` has M entries.

        >>> Outcomes((1, 2), 3).find([7, 8, 9], 1, 9)
        2
        """
        first = sum(self.counts[:accepted])
        last = first + (self.counts[accepted] if accepted < len(self.counts) else 0)
        return next((row for row in range(first, last) if extra_ids[row] == extra_id), None)


@lru_cache(maxsize=256)
def prepared_outcomes(draft_length: int, fan_out: int, room: int) -> Outcomes:
    """The outcomes of a round whose chain has room for `room` tokens.

    Only those after which the next round has room for a token: none near the end of a run.
    """
    possible = max(0, min(draft_length + 1, room - 1))
    return Outcomes(fan_outs(draft_length, fan_out)[:possible], min(draft_length, room - 1))


@lru_cache(maxsize=256)
def fan_outs(draft_length: int, fan_out: int) -> tuple[int, ...]:
    """Outcomes per accepted count 0 … K: `fan_out` on average, at least one, more for small counts.

    The first rejection ends a chain, so low counts are more frequent than high ones: the numbers
    fall geometrically (2603.03251), with weights measured on the bundled pair.

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
