"""Drafts the chain of a round, and chains for the likely outcomes of its verification.

It runs in a process of its own, on a second CUDA stream, or in line; orders say what the target
decided. All outcomes are drafted together: level d of all of them in one forward, with a mask by
which each sees the accepted part of the chain and itself. The draws are keyed by round and depth
alone, so a chain has the same tokens whenever it is drafted. Letters:
K nodes of a chain, M outcomes, P nodes of the chain that are in the cache, V vocabulary.
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
from specviz.models.language_model import LanguageModel


class AheadDrafting:
    """One run's draft model with its cache, between orders.

    The cache holds the committed tokens, the chain, then the outcomes level by level.
    """

    def __init__(self, model: LanguageModel, setting: Setting, board: Board) -> None:
        self._model = model
        self._setting = setting
        self._board = board
        ahead = setting.draft_length * (setting.most_outcomes + 1)
        self._cache = model.new_cache(setting.capacity + ahead)
        self._draws = RandomStream(setting.seed, Purpose.DRAFT)
        self._end = 0  # committed tokens of the last order
        self._levels = 0  # first slot after the chain, where the last order's outcomes begin
        self._width = 0  # how many there are

    @property
    def cache_bytes(self) -> int:
        return self._cache.bytes

    def warm_up(self) -> None:
        """Run one round after a single token and forget it: no clock then counts a cold start."""
        order = Order(0, 1, self._setting.draft_length + 2, 0, self._board.fresh_row)
        self.chain(order)
        self.ahead(order)
        self._cache.keep(0, [])
        self._end = self._levels = 0

    def has_to_draft(self, order: Order) -> bool:
        """Whether the order's chain has not been drafted yet."""
        return order.row == self._board.fresh_row

    @torch.inference_mode()
    def chain(self, order: Order) -> None:
        """Bring the round's chain onto the board and, except its last node, into the cache."""
        self._settle(order)
        if self.has_to_draft(order):
            self._draft(order)
        self._end, self._levels = order.committed, self._cache.length

    @torch.inference_mode()
    def ahead(self, order: Order) -> None:
        """Draft for the likely outcomes of the round whose chain is on the board."""
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
        """Columns of the mask that belong to deeper levels."""
        return (outcomes.depth - 1 - level) * outcomes.size

    def _settle(self, order: Order) -> None:
        """Keep the accepted nodes and, if it was prepared, the outcome that happened."""
        kept = self._end + order.accepted
        if self.has_to_draft(order):
            self._cache.keep(min(kept, self._levels), [])  # the chain's last node may not have run
            return
        levels = range(order.length(self._setting))  # the extra token, then all nodes but the last
        drafted = [self._levels + self._width * level + order.row for level in levels]
        self._cache.keep(kept, drafted)

    def _draft(self, order: Order) -> None:
        """Run the committed tokens that the cache lacks, and draft the chain."""
        cached, row = self._cache.length, self._board.fresh_row
        token_ids = self._board.committed[cached : order.committed].to(
            self._device, non_blocking=True
        )
        if order.room == 0:
            self._read(token_ids)
        for depth in range(1, order.length(self._setting) + 1):
            logits = self._read(token_ids)
            token_ids = self._drawn(logits, order.round_index, depth)
            self._board.logits[row, depth - 1] = logits[0]
            self._board.token_ids[row, depth - 1] = token_ids[0]

    def _read(self, token_ids: Tensor) -> Tensor:
        """Run the tokens that follow those of the cache; logits behind the last. -> [1, V]"""
        end = self._cache.length + len(token_ids)
        positions = torch.arange(self._cache.length, end, device=self._device)
        return self._forward(token_ids, positions, None)

    def _extras(self, order: Order, outcomes: Outcomes, tables: _Tables) -> Tensor:
        """The extra token of every outcome: the best at its position except the drafted one. [M]

        After a whole chain there is no drafted one; then the chain's last node must run first.
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
        """Logits after the tokens; without a mask, after the last one only."""
        # tokens beyond the context are never used
        positions = positions.clamp(max=self._model.info.context_length - 1)
        output = self._model.forward(
            token_ids[None], positions[None], self._cache, mask, last_only=mask is None
        )
        return fitted(output.logits[0], self._setting.vocab_size)

    def _drawn(self, logits: Tensor, round_index: int, depth: int) -> Tensor:
        """A token from each distribution, all by one draw: only one of them can become a draft."""
        uniforms = uniforms_on(self._device, [self._draws.uniform(round_index, depth, 0)])
        return draw(self._setting.sampler.distributions(logits), uniforms.expand(len(logits)))


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Outcomes as tensors."""

    accepted: Tensor  # [M] int64
    ranks: Tensor  # [M] int64
    mask: Tensor  # [M, P + depth * M] bool: the accepted part of the chain, and its own column


@lru_cache(maxsize=64)
def _tables(outcomes: Outcomes, length: int, device: torch.device) -> _Tables:
    accepted = torch.tensor(outcomes.accepted)
    cached = length if len(outcomes.counts) > length else length - 1
    chain = torch.arange(cached) < accepted[:, None]
    own = torch.eye(outcomes.size, dtype=torch.bool).repeat(1, outcomes.depth)
    mask = torch.cat([chain, own], 1)
    return _Tables(accepted.to(device), torch.tensor(outcomes.ranks).to(device), mask.to(device))
