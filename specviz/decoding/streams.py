"""Keyed uniform draws: the same key gives the same number, whoever asks and in whatever order.

Knows nothing of tokens or distributions. The global random state is never read or set, so that a
forked or a concurrent run sees the draws of the original one.
"""

from __future__ import annotations

from enum import IntEnum

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class Purpose(IntEnum):
    """One independent stream per use."""

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
    """A seed of its own for every key, below 2**53; neighbouring seeds share none."""
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
