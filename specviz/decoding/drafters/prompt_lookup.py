"""Drafting without a model: copy what followed the last few tokens when they stood there before.

Source: Saxena's prompt lookup decoding (2023), the n-gram method of most serving engines.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.decoding.drafters.base import Proposal, QuietDrafter, host_chain
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.records import NgramMatch, ProposalKind

MOST = 16  # tokens of an n-gram
SHORTEST = Option(
    "shortest_ngram",
    "Shortest n-gram",
    1,
    1,
    MOST,
    "fewer tokens that stood before are no match",
    usual="1-3",
)
LONGEST = Option(
    "longest_ngram",
    "Longest n-gram",
    3,
    1,
    MOST,
    "a match of so many tokens is taken, however many more agree",
    at_least=SHORTEST.name,
)


def find_match(
    token_ids: Sequence[int], shortest: int = SHORTEST.default, longest: int = LONGEST.default
) -> NgramMatch | None:
    """The longest suffix of `shortest` to `longest` tokens that stood earlier; of several its last
    place.

    `position` is the index behind that earlier place, where the copied text begins.

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
    """How many tokens before `end` are those at the end of the text, counted backwards."""
    length = 0
    while length < most and token_ids[end - 1 - length] == token_ids[-1 - length]:
        length += 1
    return length


class PromptLookup(QuietDrafter):
    """A chain of up to `draft_length` copied tokens; empty where nothing matches."""

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
    (ProposalKind.DETERMINISTIC,),
    PromptLookup,
    options=(SHORTEST, LONGEST),
)
