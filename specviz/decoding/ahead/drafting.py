"""Draft the chain of a round, and chains for the likely outcomes of verifying it.

This work runs in a separate process, on a second CUDA stream, or in the caller's thread. An `Order`
is the request for one round. It also contains the target's decision about the previous round.

The chains of all outcomes are drafted together: one forward computes level d of every chain. An
attention mask lets each chain see only the accepted part of the current chain, and itself. The
random draws depend only on round and depth. A chain therefore has the same tokens whether it is
drafted during the verification or after it.

In shapes, K is the number of tokens of a chain, M the number of outcomes, P the number of chain
tokens that are in the cache and V the size of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from specviz.decoding.ahead.board import Board
from specviz.decoding.ahead.order import Order, Outcomes, Setting
from specviz.decoding.drafters.source import fitted
from specviz.decoding.sampling import draw, uniforms_on
from specviz.decoding.streams import Purpose, RandomStream
from specviz.models.accelerator import upload
from specviz.models.language_model import LanguageModel


class AheadDrafting:
    """The draft model of one run, with its KV cache.

    The cache holds the committed tokens, then the chain that the target verifies now. After it come
    the chains for the possible outcomes of this verification, level by level.
    """

    def __init__(self, model: LanguageModel, setting: Setting, board: Board) -> None:
        self._model = model
        self._setting = setting
        self._board = board
        ahead = setting.draft_length * (setting.most_outcomes + 1)
        self._cache = model.new_cache(setting.capacity + ahead)
        self._draws = RandomStream(setting.seed, Purpose.DRAFT)
        self._end = 0  # number of committed tokens that the last request contained
        # index of the first cache slot after the current chain; the chains for the possible
        # outcomes of its verification begin there
        self._levels = 0
        self._width = 0

    @property
    def cache_bytes(self) -> int:
        return self._cache.bytes

    def warm_up(self) -> None:
        """Draft one round after a text of a single token, and discard the drafts.

        The first forward of a model is slow, and no measured time should include it.
        """
        order = Order(0, 1, self._setting.draft_length + 2, 0, self._board.fresh_row)
        self.chain(order)
        self.ahead(order)
        self._cache.keep(0, [])
        self._end = self._levels = 0

    def has_to_draft(self, order: Order) -> bool:
        """Return whether the chain of the requested round must still be drafted."""
        return order.row == self._board.fresh_row

    @torch.inference_mode()
    def chain(self, order: Order) -> None:
        """Draft the chain of this round and write it to the shared tables.

        The draft model does not run the last token of the chain, so that token is not in its cache.
        """
        self._drop_rejected(order)
        if self.has_to_draft(order):
            self._draft(order)
        self._end, self._levels = order.committed, self._cache.length

    @torch.inference_mode()
    def ahead(self, order: Order) -> None:
        """Draft a chain for each likely outcome of the verification that runs now."""
        outcomes = order.outcomes(self._setting)
        if not outcomes.size:
            return
        board, tables = self._board, _tables(outcomes, order.length(self._setting), self._device)
        token_ids = self._extras(order, outcomes, tables)
        board.extra_ids[: outcomes.size].copy_(token_ids, non_blocking=True)
        self._levels, self._width = self._cache.length, outcomes.size
        first = tables.accepted + order.committed
        for level in range(outcomes.depth):
            seen = tables.mask[:, : tables.mask.shape[1] - self._below(outcomes, level)]
            logits = self._forward(token_ids, first + level, seen)
            token_ids = self._drawn(logits, order.round_index + 1, level + 1)
            board.logits[: outcomes.size, level] = logits
            board.token_ids[: outcomes.size, level] = token_ids

    @property
    def _device(self) -> torch.device:
        return self._model.device

    @staticmethod
    def _below(outcomes: Outcomes, level: int) -> int:
        """Return how many columns of the attention mask belong to levels deeper than `level`."""
        return (outcomes.depth - 1 - level) * outcomes.size

    def _drop_rejected(self, order: Order) -> None:
        """Drop from the draft's cache all tokens that the last round rejected.

        If a chain was prepared for the outcome that happened, the tokens of that chain stay. The
        tokens of the chains for all other outcomes are dropped as well.
        """
        kept = self._end + order.accepted
        if self.has_to_draft(order):
            # The cache may lack the chain's last token, because drafting never needs to run that
            # token.
            self._cache.keep(min(kept, self._levels), [])
            return
        # Level 0 of a prepared chain holds the extra token of its outcome. The next levels hold the
        # tokens of the chain except the last token.
        levels = range(order.length(self._setting))
        drafted = [self._levels + self._width * level + order.row for level in levels]
        self._cache.keep(kept, drafted)

    def _draft(self, order: Order) -> None:
        """Run the committed tokens that the draft's cache lacks, then draft the chain."""
        cached, row = self._cache.length, self._board.fresh_row
        token_ids = upload(self._board.committed[cached : order.committed], self._device)
        if order.room == 0:
            self._read(token_ids)
        for depth in range(1, order.length(self._setting) + 1):
            logits = self._read(token_ids)
            token_ids = self._drawn(logits, order.round_index, depth)
            self._board.logits[row, depth - 1] = logits[0]
            self._board.token_ids[row, depth - 1] = token_ids[0]

    def _read(self, token_ids: Tensor) -> Tensor:
        """Run the tokens of the text that are not in the draft's cache yet.

        Return the logits after the last token. -> [1, V]
        """
        end = self._cache.length + len(token_ids)
        positions = torch.arange(self._cache.length, end, device=self._device)
        return self._forward(token_ids, positions, None)

    def _extras(self, order: Order, outcomes: Outcomes, tables: _Tables) -> Tensor:
        """Return the extra token of each outcome. -> [M]

        The extra token follows the accepted part of the chain. If a token of the chain is rejected,
        the extra token is one of the most probable tokens at its position, but not the rejected
        token. If all tokens of the chain are accepted, the draft must first run the last of them,
        to get the logits after it.
        """
        length = order.length(self._setting)
        chain = self._board.token_ids[order.row, :length]
        logits = self._board.logits[order.row, :length]
        logits = logits.scatter(1, chain[:, None], -torch.inf)
        if len(outcomes.counts) > length:
            position = torch.full((1,), order.committed + length - 1, device=self._device)
            logits = torch.cat([logits, self._forward(chain[-1:], position, None).float()])
        best = logits.topk(min(max(outcomes.counts), logits.shape[1]), dim=-1).indices
        return best[tables.accepted, tables.ranks.clamp(max=best.shape[1] - 1)]

    def _forward(self, token_ids: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """Run tokens through the draft model and return the logits after each token.

        Without a mask, return only the logits after the last token.
        """
        # A run ends before the context is full, so drafted tokens beyond the context length are
        # never accepted. Their positions do not matter, but they must be positions that the model
        # has.
        positions = positions.clamp(max=self._model.info.context_length - 1)
        output = self._model.forward(
            token_ids[None], positions[None], self._cache, mask, last_only=mask is None
        )
        return fitted(output.logits[0], self._setting.vocab_size)

    def _drawn(self, logits: Tensor, round_index: int, depth: int) -> Tensor:
        """Draw one token from the distribution of each outcome.

        All draws use the same uniform number, because only one of the outcomes can happen.
        """
        uniforms = uniforms_on(self._device, [self._draws.uniform(round_index, depth, 0)])
        return draw(self._setting.sampler.distributions(logits), uniforms.expand(len(logits)))


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """The outcomes for which a round prepares chains, as tensors."""

    accepted: Tensor  # [M] int64
    ranks: Tensor  # [M] int64
    # [M, P + depth * M] bool: a token that is drafted for an outcome sees the accepted part of the
    # chain, and the tokens that are drafted for the same outcome
    mask: Tensor


@lru_cache(maxsize=64)
def _tables(outcomes: Outcomes, length: int, device: torch.device) -> _Tables:
    accepted = torch.tensor(outcomes.accepted)
    cached = length if len(outcomes.counts) > length else length - 1
    chain = torch.arange(cached) < accepted[:, None]
    own = torch.eye(outcomes.size, dtype=torch.bool).repeat(1, outcomes.depth)
    mask = torch.cat([chain, own], 1)
    ranks = torch.tensor(outcomes.ranks)
    return _Tables(*(upload(each, device) for each in (accepted, ranks, mask)))
