"""Drafting the next round while the target verifies this one (2603.03251).

Chains for the likely outcomes of the verification are drafted at the same time. If one of these
outcomes happens, the next round's draft is ready; otherwise it is drafted then. Tokens and
distributions are those of the plain chain either way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.ahead.executor import DraftExecutor, executor_for
from specviz.decoding.ahead.order import Order, Setting
from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    Drafter,
    HeldMemory,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
    empty_proposal,
)
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.topology import topology
from specviz.models.memory_estimate import ExtraMemory
from specviz.models.parts import Need
from specviz.records import ProposalKind, Span
from specviz.records.notes import Prepared

FAN_OUT = Option(
    "fan_out",
    "Outcomes prepared",
    2,
    1,
    4,
    "per number of accepted tokens, on average; each gets a draft of its own",
)


class PreSpeculation:
    """A chain; `executor` drafts the next ones while the target verifies."""

    feature_layers: tuple[int, ...] = ()

    def __init__(self, setting: Setting, executor: DraftExecutor, device: torch.device) -> None:
        self._setting = setting
        self._executor = executor
        self._device = device
        self._committed = 0  # tokens on the board
        self._order: Order | None = None  # of this round, until it is decided
        self._accepted = 0  # nodes of the last chain
        self._row = executor.board.fresh_row  # of the board, of the next chain
        self._outcomes: tuple[int, ...] = ()  # how many were prepared, per accepted count
        self._depth = 0  # tokens of a prepared chain
        self._hidden_seconds = self._waited_seconds = 0.0  # of drafting it

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._executor.memory_bytes, self._executor.cache_bytes)

    def start(self, prompt: PrefilledPrompt) -> None:
        board, self._committed = self._executor.board, len(prompt.prompt_ids)
        board.commit(prompt.prompt_ids, 0)
        self._executor.begin(Order(0, self._committed, 0, 0, board.fresh_row))
        self._executor.finish()

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        self._refuse_stale(room)
        if room == 0:
            return empty_proposal(self._device)
        self._executor.board.commit(committed[self._committed :], self._committed)
        self._committed = len(committed)
        self._order = Order(round_index, len(committed), room, self._accepted, self._row)
        token_ids, logits = self._chain(self._order)
        distributions, raw_distributions = self._setting.sampler.both(logits)
        return Proposal(
            ProposalKind.IID,
            topology(tuple(range(-1, len(token_ids) - 1)), self._device),
            token_ids,
            distributions,
            raw_distributions,
            notes=(self._note(),),
        )

    def observe(self, observation: Observation) -> OverlappedWork:
        """Wait for the drafts of the likely outcomes, and look for the one that happened."""
        order, self._order = self._order, None
        if order is None:
            return NOTHING_OVERLAPPED
        began = time.perf_counter()
        ahead = self._executor.finish()
        waited = time.perf_counter() - began
        outcomes, board = order.outcomes(self._setting), self._executor.board
        self._accepted = len(observation.path)
        row = outcomes.find(board.extras(outcomes.size), self._accepted, observation.token_ids[-1])
        self._row = board.fresh_row if row is None else row
        self._outcomes, self._depth = outcomes.counts, outcomes.depth
        if not outcomes.size:
            return NOTHING_OVERLAPPED
        self._hidden_seconds = max(0.0, ahead.ended - ahead.began - waited)
        self._waited_seconds = waited
        return OverlappedWork((Span("draft ahead", ahead.began, ahead.ended),), waited)

    def close(self) -> None:
        self._executor.close()

    def _refuse_stale(self, room: int) -> None:
        """A prepared chain is for this round only, and unusable if it is shorter than needed."""
        if room == 0 or min(room, self._setting.draft_length) > self._depth:
            self._row = self._executor.board.fresh_row

    def _chain(self, order: Order) -> tuple[Tensor, Tensor]:
        """The round's tokens [K] and their logits [K, V]; starts drafting ahead."""
        board, length = self._executor.board, order.length(self._setting)
        if order.row != board.fresh_row:
            prepared = board.chain(order.row, length)
            self._executor.begin(order)
            return prepared
        began = time.perf_counter()
        self._executor.begin(order)
        self._waited_seconds += time.perf_counter() - began
        return board.chain(order.row, length)

    def _note(self) -> Prepared:
        is_hit = self._row != self._executor.board.fresh_row
        return Prepared(is_hit, self._outcomes, self._hidden_seconds, self._waited_seconds)


def _make(setup: Setup) -> Drafter:
    config, draft = setup.config, setup.draft
    setting = Setting(
        config.draft_length,
        METHOD.completed(config)[FAN_OUT.name],
        setup.sampler,
        config.seed,
        setup.target.info.vocab_size,
        setup.capacity,
    )
    return PreSpeculation(setting, executor_for(draft, setting), draft.device)


METHOD = Method(
    "pre-speculation",
    "Draft model, ahead of the target",
    "While the target verifies, a small model already drafts for the likely outcomes.",
    (ProposalKind.IID,),
    _make,
    frozenset({Need.DRAFT}),
    options=(FAN_OUT,),
    extra_memory=ExtraMemory.DRAFT_PROCESS,
)
