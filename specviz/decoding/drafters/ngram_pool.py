"""What has stood behind each token before: a bounded memory of n-grams.

Knows nothing of where they come from, nor of drafting.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_KEYS = 4096


class NgramPool:
    """Continuations by the token that they follow; the least recently seen ones leave first.

    >>> pool = NgramPool(per_key=2)
    >>> [pool.add(1, continuation) for continuation in ((2, 3), (4, 5), (2, 3), (6, 7))]
    [True, True, False, True]
    >>> pool.behind(1)
    [(6, 7), (2, 3)]
    """

    def __init__(self, per_key: int, max_keys: int = MAX_KEYS) -> None:
        self._per_key = per_key
        self._max_keys = max_keys
        # both in the order in which they were seen last
        self._found: dict[int, dict[tuple[int, ...], None]] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """How many n-grams there are."""
        return self._size

    def add(self, key: int, continuation: tuple[int, ...]) -> bool:
        """See an n-gram, `key` being its first token; whether it was not there before."""
        known = self._found.pop(key, {})
        self._found[key] = known
        is_new = continuation not in known
        known.pop(continuation, None)
        known[continuation] = None
        self._size += is_new
        if len(known) > self._per_key:
            del known[next(iter(known))]
            self._size -= 1
        if len(self._found) > self._max_keys:
            self._size -= len(self._found.pop(next(iter(self._found))))
        return is_new

    def learn(self, token_ids: Sequence[int], start: int, length: int) -> int:
        """See all n-grams of `length` that end at index `start` or behind; how many were new."""
        ends = range(max(start, length - 1), len(token_ids))
        return sum(
            self.add(token_ids[end - length + 1], tuple(token_ids[end - length + 2 : end + 1]))
            for end in ends
        )

    def behind(self, key: int) -> list[tuple[int, ...]]:
        """What has followed the token, the most recent first."""
        return list(reversed(self._found.get(key, {})))
