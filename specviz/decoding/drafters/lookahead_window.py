"""The window of Lookahead decoding: guesses at the tokens to come, by Jacobi iteration.

Several *levels* of guesses, the oldest first: each level is what the target made of the one
before, one position further on. A column, read from the oldest level to the newest result, is an
n-gram that the target could have written (2402.02057). Knows nothing of the pool that collects
those, nor of drafting. Letters: N tokens of an n-gram, W columns, Q window tokens, R rows of the
tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from specviz.decoding.drafters.base import ExtraQueries

Ngram = tuple[int, tuple[int, ...]]  # its first token, the others


class LookaheadWindow:
    """Up to N - 1 levels over W columns; column c of level l stands l + c behind the root.

    Column 0 of level 0 is the root itself, so level 0 holds one token less than the others. The
    window begins with level 0 alone, N - 2 columns wider; every step adds a level and takes a
    column until it is full, then the oldest level leaves. It goes on by one position a step,
    however many tokens were accepted, as in the authors' own implementation.
    """

    def __init__(self, first_level: Sequence[int], ngram: int) -> None:
        """`first_level` has W + N - 3 tokens, whatever they are."""
        self._ngram = ngram
        self._levels = [list(first_level)]

    @property
    def is_full(self) -> bool:
        return len(self._levels) == self._ngram - 1

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Level after level."""
        return tuple(token_id for level in self._levels for token_id in level)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of each level."""
        return tuple(map(len, self._levels))

    @property
    def reach(self) -> int:
        """How far the farthest token stands behind the root."""
        return len(self._levels) - 1 + len(self._levels[0])

    def queries(self, rows: int, device: torch.device) -> ExtraQueries | None:
        """All tokens as riders of a target forward over `rows` rows; None without any."""
        token_ids = self.token_ids
        if not token_ids:
            return None
        offsets, mask = _layout(len(self._levels[0]), len(self._levels), rows, device)
        on_device = torch.tensor(token_ids).to(device, non_blocking=True)
        return ExtraQueries(on_device, offsets, mask)

    def step(self, root_id: int, next_id: int, successors: Sequence[int]) -> list[Ngram]:
        """One Jacobi step; the n-grams that it found, none before the window is full.

        `next_id` was committed behind the root; `successors` are the target's likeliest tokens
        behind every window token.
        """
        is_lowest = len(self._levels) == 1  # then column 0 is the root, which is no query
        newest = list(successors[-len(self._levels[-1]) :]) if successors else []
        if is_lowest:
            newest.insert(0, next_id)
        if not self.is_full:
            self._levels = [level[1:] for level in (*self._levels, newest)]
            return []
        keys = [root_id, *self._levels[0]]
        found = list(zip(keys, zip(*self._levels[1:], newest, strict=True), strict=True))
        above = [*self._levels[1:], newest]
        self._levels = [above[0][1:], *above[1:]]
        return found


@lru_cache(maxsize=256)
def _layout(columns: int, levels: int, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Offsets [Q] and mask [Q, R + Q] of a window whose level 0 has `columns` tokens.

    A token sees the root, level 0 up to its own column, and its column up to itself; of the tree
    it sees nothing, which would be another future.
    """
    places = [
        (level, column)
        for level in range(levels)
        for column in range(columns + 1)
        if level or column
    ]
    mask = torch.zeros(len(places), rows + len(places), dtype=torch.bool)
    mask[:, 0] = True
    for query, (level, column) in enumerate(places):
        for seen, (lower, left) in enumerate(places):
            if (lower == 0 and left <= column) or (left == column and lower <= level):
                mask[query, rows + seen] = True
    offsets = torch.tensor([level + column for level, column in places], dtype=torch.int64)
    return offsets.to(device), mask.to(device)
