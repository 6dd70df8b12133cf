"""The requests to the drafting process: one `Setting` per run and one `Order` per round.

The outcome of a verification is how many tokens of the chain were accepted, and which extra token
came after them. In shapes, K is the number of tokens of the chain, M the number of outcomes and V
the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from specviz.decoding.sampling import Sampler

# An outcome with many accepted tokens is rare, so a round prepares fewer chains for such outcomes:
# one more accepted token multiplies the number of chains by this factor.
DECAY = 0.7
# The number of chains prepared for the case that the whole chain is accepted, as a fraction of the
# number for 0 accepted tokens. Few chains are enough in this case, because the most probable extra
# token is often right.
FULL_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of one run, which the decoding and the drafting process must share."""

    draft_length: int  # K, the number of tokens of a chain
    fan_out: int
    sampler: Sampler
    seed: int
    vocab_size: int  # V, the size of the vocabulary
    capacity: int  # largest number of committed tokens that the run can have

    @property
    def most_outcomes(self) -> int:
        return sum(fan_outs(self.draft_length, self.fan_out))


@dataclass(frozen=True, slots=True)
class Order:
    """The request for one round: its chain, and chains for the likely outcomes of its verification.

    `row` is the row of the shared tables for the chain of the round. If it is the last row, the
    chain was not prepared and must be drafted now.
    """

    round_index: int
    # number of committed tokens, including the last one, which is the root of the draft
    committed: int
    # how many tokens may be drafted; with 0, the draft model only runs the committed tokens
    room: int
    accepted: int  # how many tokens of the last round's chain were accepted
    row: int

    def length(self, setting: Setting) -> int:
        return min(setting.draft_length, self.room)

    def outcomes(self, setting: Setting) -> Outcomes:
        return prepared_outcomes(setting.draft_length, setting.fan_out, self.room)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of a round for which chains are prepared, one per row of the shared tables.

    They are sorted by the number of accepted tokens, then by the rank of the extra token.
    `counts[a]` is the number of outcomes in which exactly `a` tokens are accepted. `depth` is the
    number of tokens that are drafted for each outcome.
    """

    counts: tuple[int, ...]
    depth: int

    @property
    def size(self) -> int:  # M, the number of outcomes
        return sum(self.counts)

    @property
    def accepted(self) -> tuple[int, ...]:
        """Return the number of accepted tokens of each outcome."""
        return tuple(a for a, count in enumerate(self.counts) for _ in range(count))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the rank of each outcome's extra token; rank 0 is the most probable token."""
        return tuple(rank for count in self.counts for rank in range(count))

    def find(self, extra_ids: Sequence[int], accepted: int, extra_id: int) -> int | None:
        """Return the row of the outcome that happened, or None if it has no prepared chain.

        `extra_ids` has one entry per prepared outcome.

        >>> Outcomes((1, 2), 3).find([7, 8, 9], 1, 9)
        2
        """
        first = sum(self.counts[:accepted])
        last = first + (self.counts[accepted] if accepted < len(self.counts) else 0)
        return next((row for row in range(first, last) if extra_ids[row] == extra_id), None)


@lru_cache(maxsize=256)
def prepared_outcomes(draft_length: int, fan_out: int, room: int) -> Outcomes:
    """Return the outcomes for which a round prepares chains, if it may draft `room` tokens.

    A chain is prepared for an outcome only if the next round can still draft a token after the
    outcome's tokens. Near the end of a run, there may be no such outcome.
    """
    possible = max(0, min(draft_length + 1, room - 1))
    return Outcomes(fan_outs(draft_length, fan_out)[:possible], min(draft_length, room - 1))


@lru_cache(maxsize=256)
def fan_outs(draft_length: int, fan_out: int) -> tuple[int, ...]:
    """Return how many chains a round prepares for the case of 0, 1, … K accepted tokens.

    Each number is at least one, and the mean is `fan_out`. From 0 to K - 1 accepted tokens, the
    numbers fall geometrically, as in the paper arXiv 2603.03251, because few accepted tokens are
    more frequent than many. The number for K accepted tokens depends on FULL_WEIGHT instead. DECAY
    and FULL_WEIGHT were measured on the bundled pair of models.

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
