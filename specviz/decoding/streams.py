"""Random numbers by key: the same key always gives the same number, in any order of calls.

No function reads or sets Python's or PyTorch's global random state. A fork of a run therefore makes
the same draws as the original run, even while other runs draw numbers.
"""

from __future__ import annotations

from enum import IntEnum

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class Purpose(IntEnum):
    """The use of a random number. Each kind of use has its own stream of random numbers."""

    DRAFT = 1  # for drafted tokens; the key is (round, depth, index within the level)
    VERIFY = 2  # for the acceptance of nodes; `Rule.draw_key` returns the key
    EXTRA = 3  # for the token that the target adds to a round; the key is (text position,)


def _mix(state: int) -> int:
    """Apply the last step of splitmix64 (Steele, Lea, Flood 2014), a bijection on 64 bits."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def _fold(state: int, key: int) -> int:
    return _mix((state + _GOLDEN * (key + 1)) & _MASK)


def derived_seed(seed: int, *key: int) -> int:
    """Return a new seed below 2**53, computed from a seed and a key.

    Even seeds that differ by only one give different new seeds.
    """
    state = _fold(0, seed)
    for part in key:
        state = _fold(state, part)
    return state >> 11


class RandomStream:
    """A stream of uniform numbers in [0, 1) for one seed, purpose and row of a batch."""

    def __init__(self, seed: int, purpose: Purpose, row: int = 0) -> None:
        self._state = _fold(_fold(_fold(0, seed), purpose), row)

    def uniform(self, *key: int) -> float:
        """Return the uniform number of this key: a multiple of 2**-53 from 0 on, always below 1."""
        state = self._state
        for part in key:
            state = _fold(state, part)
        return (state >> 11) * 2.0**-53
