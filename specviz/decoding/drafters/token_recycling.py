"""Token recycling: draft from the tokens that the target has already considered.

After every token of a verified tree, also after rejected ones, the target has computed a
distribution. The drafter keeps its most probable tokens, the *successors*, in a table with one row
per token of the vocabulary; newer successors replace older ones. A draft is a tree of successors:
those of the last token, then the successors of these, and so on.

Two things differ from the paper (arXiv 2408.08696). The paper's tree always has the same shape,
with 80 nodes; here the shape follows from how often each successor was right in this run so far.
The paper's table is empty at first; here it starts with the tokens that follow each token in the
prompt. The drafter makes no random draws, so the tokens are CHOSEN.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
    QuietDrafter,
    host_tree,
)
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.tree_budget import NODES, best_node_count, ranked_nodes
from specviz.records import MAX_TREE_NODES, TOP_TOKENS, RecycledTokens

SUCCESSORS = Option(
    "successors",
    "Successors kept",
    8,
    1,
    TOP_TOKENS,
    "how many of the target's most probable next tokens are kept for each token",
    usual="1,2,4,8",
)
# How often the successor of rank 0, 1, … was the next token. The rates were measured on 772 tokens
# with known successors, in one run per task of the bundled and of the chat model at temperature 0.
FIRST_RATES = (0.49, 0.09, 0.04, 0.04, 0.02, 0.02, 0.01, 0.01, 0.01, 0.004)
# At the start of a run, FIRST_RATES count as if they had been measured on FIRST_WEIGHT tokens.
FIRST_WEIGHT = 20


class SuccessorTable:
    """The successors of each token, and how often each of them was the next token of the text.

    >>> table = SuccessorTable(most=2)
    >>> table.replace(7, (3, 5, 9))
    >>> table.successors(7)
    (3, 5)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._successors: dict[int, tuple[int, ...]] = {}
        self._hits = [FIRST_WEIGHT * rate for rate in FIRST_RATES[:most]]
        self._trials: float = FIRST_WEIGHT

    @property
    def size(self) -> int:
        """Return the number of tokens whose successors are known."""
        return len(self._successors)

    @property
    def rates(self) -> tuple[float, ...]:
        """Return how often the successor of each rank was right, from 0 to 1."""
        return tuple(hits / self._trials for hits in self._hits)

    def successors(self, token_id: int) -> tuple[int, ...]:
        """Return the known successors of a token, the most probable one first."""
        return self._successors.get(token_id, ())

    def replace(self, token_id: int, successors: Sequence[int]) -> None:
        """Replace the successors of a token."""
        self._successors[token_id] = tuple(successors[: self._most])

    def count(self, text: Sequence[int]) -> None:
        """Count how often the next token of the text was one of the known successors of a token."""
        for token_id, following in pairwise(text):
            known = self.successors(token_id)
            self._trials += bool(known)
            if following in known:
                self._hits[known.index(following)] += 1

    def tree(self, root_id: int, depth: int, most: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the tree of the `most` successors that are most probably accepted.

        The result has the token and the parent of each node (-1 = root), the most probable node
        first. The probability is the product of the rates along the node's path. No node is deeper
        than `depth`.
        """
        rates = self.rates
        waiting: list[tuple[float, int, int, int]] = []  # (-probability, token, parent, depth)
        token_ids: list[int] = []
        parents: list[int] = []

        def grow(token_id: int, node: int, at: int, probability: float) -> None:
            if at <= depth:
                for rate, child in zip(rates, self.successors(token_id), strict=False):
                    heapq.heappush(waiting, (-probability * rate, child, node, at))

        grow(root_id, -1, 1, 1.0)
        while waiting and len(token_ids) < most:
            lost, token_id, parent, at = heapq.heappop(waiting)
            token_ids.append(token_id)
            parents.append(parent)
            grow(token_id, len(token_ids) - 1, at + 1, -lost)
        return tuple(token_ids), tuple(parents)


class TokenRecycling(QuietDrafter):
    """A drafter that proposes a tree of the successors in its table."""

    def __init__(self, setup: Setup) -> None:
        values = METHOD.completed(setup.config)
        self._table = SuccessorTable(values[SUCCESSORS.name])
        self._depth = setup.config.draft_length
        self._device = setup.target.device
        gains = [n.gain for n in ranked_nodes((self._table.rates,) * self._depth, MAX_TREE_NODES)]
        self._nodes = values[NODES.name] or best_node_count(setup.target, gains)
        self._drafted: tuple[int, ...] = ()  # the tokens of the root and of all nodes

    def start(self, prompt: PrefilledPrompt) -> None:
        """Fill the table with the tokens that follow each token in the prompt, the latest first."""
        followed: dict[int, dict[int, None]] = {}
        for token_id, following in reversed(list(pairwise(prompt.prompt_ids))):
            followed.setdefault(token_id, {})[following] = None
        for token_id, successors in followed.items():
            self._table.replace(token_id, tuple(successors))

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        root_id, depth = committed[-1], min(self._depth, room)
        token_ids, parents = self._table.tree(root_id, depth, self._nodes)
        self._drafted = (root_id, *token_ids)
        note = RecycledTokens(self._table.size, self._table.rates)
        return host_tree(token_ids, parents, self._device, (note,))

    def observe(self, observation: Observation) -> OverlappedWork:
        """Count which successors were right, and store the new successors of this round's tokens.

        If several nodes have the same token but different successors, the table keeps the
        successors of the node on the accepted path.
        """
        text, best_ids = (self._drafted[0], *observation.token_ids), observation.best_ids()
        self._table.count(text)
        path = [best_ids[row] for row in (0, *(node + 1 for node in observation.path))]
        pairs = (*zip(self._drafted, best_ids, strict=False), *zip(text, path, strict=False))
        for token_id, best in pairs:
            self._table.replace(token_id, best)
        return NOTHING_OVERLAPPED


METHOD = Method(
    "token-recycling",
    "Token recycling",
    "Keeps the target's most probable next tokens after every verified token, and drafts a tree of "
    "them; needs no model.",
    TokenRecycling,
    options=(NODES, SUCCESSORS),
)
