"""A whole drafting method in 40 lines: propose what most often followed the last token so far.

`pip install docs/bigram_drafter` adds it to specviz as the method `bigram`. The drafter chooses its
tokens without a random draw, so they count as CHOSEN: q is 1 at each drafted token, and
verification stays exact.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import torch

from specviz.decoding.drafters.base import Proposal, QuietDrafter
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.topology import topology


class BigramDrafter(QuietDrafter):
    def __init__(self, setup: Setup) -> None:
        self._draft_length = setup.config.draft_length
        self._device = setup.target.device
        self._followers: dict[int, Counter[int]] = defaultdict(Counter)
        self._counted = 1

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        for index in range(self._counted, len(committed)):
            self._followers[committed[index - 1]][committed[index]] += 1
        self._counted = len(committed)
        path = [committed[-1]]
        while len(path) <= min(self._draft_length, room) and self._followers[path[-1]]:
            path.append(self._followers[path[-1]].most_common(1)[0][0])
        chain = topology(tuple(range(-1, len(path) - 2)), self._device)
        token_ids = torch.tensor(path[1:], dtype=torch.int64, device=self._device)
        return Proposal(chain, token_ids)


METHOD = Method("bigram", "Bigrams", "Copies what most often followed the token.", BigramDrafter)
