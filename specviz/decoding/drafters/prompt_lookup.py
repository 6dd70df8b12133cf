"""Drafting without a model: find the last tokens earlier in the text, and copy what followed.

Source: Saxena's prompt lookup decoding (2023). Most serving engines call it n-gram speculation.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.decoding.drafters.base import Proposal, QuietDrafter, host_chain
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.records import NgramMatch

MOST = 16
SHORTEST = Option(
    "shortest_ngram",
    "Shortest n-gram",
    1,
    1,
    MOST,
    "a shorter repeat is not a match",
    usual="1-3",
)
LONGEST = Option(
    "longest_ngram",
    "Longest n-gram",
    3,
    1,
    MOST,
    "a match of this length ends the search, even if a longer one exists",
    at_least=SHORTEST.name,
)


def find_match(
    token_ids: Sequence[int], shortest: int = SHORTEST.default, longest: int = LONGEST.default
) -> NgramMatch | None:
    """Find the longest n-gram at the end of the text that also occurs earlier in the text.

    Only n-grams of `shortest` to `longest` tokens are tried. If an n-gram occurs several times, the
    last earlier occurrence is the match. `position` is the index after the match, where the copied
    text starts.

    >>> find_match([1, 2, 3, 9, 1, 2])
    NgramMatch(length=2, position=2)
    """
    best, best_end = shortest - 1, 0
    for end in range(len(token_ids) - 1, 0, -1):
        length = _common_suffix(token_ids, end, min(longest, end))
        if length > best:
            best, best_end = length, end
        if best == longest:
            break
    return NgramMatch(best, best_end) if best_end else None


def _common_suffix(token_ids: Sequence[int], end: int, most: int) -> int:
    """Return how many tokens directly before `end` equal the last tokens of the text.

    The result is at most `most`.
    """
    length = 0
    while length < most and token_ids[end - 1 - length] == token_ids[-1 - length]:
        length += 1
    return length


class PromptLookup(QuietDrafter):
    """A drafter that copies up to `draft_length` tokens, or proposes nothing if nothing matches."""

    def __init__(self, setup: Setup) -> None:
        values = METHOD.completed(setup.config)
        self._sizes = values[SHORTEST.name], values[LONGEST.name]
        self._draft_length = setup.config.draft_length
        self._device = setup.target.device

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        match = find_match(committed, *self._sizes) if room else None
        start = match.position if match else len(committed)
        copied = committed[start : start + min(self._draft_length, room)]
        return host_chain(copied, self._device, (match,) if match else ())


METHOD = Method(
    "prompt-lookup",
    "Prompt lookup",
    "Copies what followed the last few tokens earlier in the text; needs no model.",
    PromptLookup,
    options=(SHORTEST, LONGEST),
)
