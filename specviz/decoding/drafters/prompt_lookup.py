"""Drafting without a model: copy what followed the last few tokens when they stood there before.

Source: Saxena's prompt lookup decoding (2023), the n-gram method of most serving engines.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.decoding.drafters.base import Proposal, QuietDrafter, host_chain
from specviz.decoding.drafters.method import Method
from specviz.records import NgramMatch, ProposalKind

MAX_NGRAM = 3


def find_match(token_ids: Sequence[int], max_ngram: int = MAX_NGRAM) -> NgramMatch | None:
    """The longest suffix (at most `max_ngram`) that stood earlier; of several its last place.

    `position` is the index behind that earlier place, where the copied text begins.

    >>> find_match([1, 2, 3, 9, 1, 2])
    NgramMatch(length=2, position=2)
    """
    tokens = tuple(token_ids)
    for length in range(min(max_ngram, len(tokens) - 1), 0, -1):
        suffix = tokens[-length:]
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == suffix:
                return NgramMatch(length, start + length)
    return None


class PromptLookup(QuietDrafter):
    """A chain of up to `draft_length` copied tokens; empty where nothing matches."""

    def __init__(self, draft_length: int, device: torch.device) -> None:
        self._draft_length = draft_length
        self._device = device

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        match = find_match(committed) if room else None
        start = match.position if match else len(committed)
        copied = committed[start : start + min(self._draft_length, room)]
        return host_chain(copied, self._device, (match,) if match else ())


METHOD = Method(
    "prompt-lookup",
    "Prompt lookup",
    "Copies what followed the last few tokens earlier in the text; needs no model.",
    (ProposalKind.DETERMINISTIC,),
    lambda setup: PromptLookup(setup.config.draft_length, setup.target.device),
)
