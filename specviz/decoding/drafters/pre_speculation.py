"""Pre-speculation: draft for the next round while the target verifies this one.

During verification, the draft model drafts a chain for each likely outcome (arXiv 2603.03251). If
one of these outcomes happens, the draft of the next round is ready. Otherwise the draft model makes
it after the verification. In both cases the tokens and distributions are the same as with a plain
draft chain. In shapes, K is the number of tokens of a chain and V the size of the vocabulary.
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
from specviz.records import Drawing, Span
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
    """A drafter of chains. Its `executor` drafts the next chains while the target verifies."""

    feature_layers: tuple[int, ...] = ()

    def __init__(self, setting: Setting, executor: DraftExecutor, device: torch.device) -> None:
        self._setting = setting
        self._executor = executor
        self._device = device
        self._committed = 0  # number of committed tokens that the drafting process can read
        # the request for the current round's drafts, until the target has decided
        self._order: Order | None = None
        self._accepted = 0  # number of tokens of the last chain that the target accepted
        self._row = executor.board.fresh_row  # row of the shared tables that holds the next chain
        # how many chains were prepared for the case of 0, 1, … accepted tokens
        self._outcomes: tuple[int, ...] = ()
        self._depth = 0  # number of tokens in a prepared chain
        # The seconds of drafting that ran during verification, and the seconds that the round
        # waited for drafting.
        self._hidden_seconds = self._waited_seconds = 0.0

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._executor.memory_bytes, self._executor.cache_bytes)

    def start(self, prompt: PrefilledPrompt) -> None:
        board, self._committed = self._executor.board, len(prompt.prompt_ids)
        board.commit(prompt.prompt_ids, 0)
        self._executor.begin(Order(0, self._committed, 0, 0, board.fresh_row))
        self._executor.finish()

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        self._drop_stale_chain(room)
        if room == 0:
            return empty_proposal(self._device)
        self._executor.board.commit(committed[self._committed :], self._committed)
        self._committed = len(committed)
        self._order = Order(round_index, len(committed), room, self._accepted, self._row)
        token_ids, logits = self._chain(self._order)
        distributions, raw_distributions = self._setting.sampler.both(logits)
        return Proposal(
            topology(tuple(range(-1, len(token_ids) - 1)), self._device),
            token_ids,
            distributions,
            raw_distributions,
            notes=(self._note(),),
            drawing=Drawing.INDEPENDENT,
        )

    def observe(self, observation: Observation) -> OverlappedWork:
        """Wait until the chains are prepared, and find the chain for the outcome that happened."""
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

    def _drop_stale_chain(self, room: int) -> None:
        """Drop the prepared chain if this round cannot use it or needs a longer one."""
        if room == 0 or min(room, self._setting.draft_length) > self._depth:
            self._row = self._executor.board.fresh_row

    def _chain(self, order: Order) -> tuple[Tensor, Tensor]:
        """Return the round's tokens [K] and logits [K, V], and start to draft the next chains."""
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
    _make,
    frozenset({Need.DRAFT}),
    drawings=(Drawing.INDEPENDENT,),
    options=(FAN_OUT,),
    drafts_ahead=True,
    extra_memory=ExtraMemory.DRAFT_PROCESS,
)
