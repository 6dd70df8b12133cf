"""Keyed uniform draws: the same key gives the same number, in whatever order keys are asked for.

The global random state is never read or set, so a fork or a concurrent run sees the draws of the
original run.
"""

from __future__ import annotations

from enum import IntEnum

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class Purpose(IntEnum):
    """What a number is drawn for; each has a stream of its own."""

    DRAFT = 1  # keyed by (round, depth, index within the level)
    VERIFY = 2  # keyed by (text position, sibling)
    EXTRA = 3  # keyed by (text position)


def _mix(state: int) -> int:
    """The splitmix64 finaliser (Steele, Lea, Flood 2014): a bijection of 64-bit integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def _fold(state: int, key: int) -> int:
    return _mix((state + _GOLDEN * (key + 1)) & _MASK)


def derived_seed(seed: int, *key: int) -> int:
    """A seed per key, below 2**53; neighbouring seeds have no derived seeds in common."""
    state = _fold(0, seed)
    for part in key:
        state = _fold(state, part)
    return state >> 11


class RandomStream:
    """Uniform numbers in [0, 1) of one seed, purpose and row of a batch."""

    def __init__(self, seed: int, purpose: Purpose, row: int = 0) -> None:
        self._state = _fold(_fold(_fold(0, seed), purpose), row)

    def uniform(self, *key: int) -> float:
        """The number of `key`, a multiple of 2**-53, so strictly below 1."""
        state = self._state
        for part in key:
            state = _fold(state, part)
        return (state >> 11) * 2.0**-53
