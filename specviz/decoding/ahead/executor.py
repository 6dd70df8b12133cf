"""Executors that run the draft model while the target verifies.

An executor works in another process, on a second CUDA stream, or in the calling thread. When
`begin` returns, the chain of the current round is ready. The executor then continues with chains
for the next round, until `finish` has returned.
"""

from __future__ import annotations

import mmap
import os
import socket
import time
import weakref
from dataclasses import dataclass
from typing import Protocol

import torch

from specviz.decoding.ahead.board import Board, board_bytes
from specviz.decoding.ahead.drafting import AheadDrafting
from specviz.decoding.ahead.line import ReplyKind
from specviz.decoding.ahead.order import Order, Setting
from specviz.decoding.ahead.worker import worker_for
from specviz.models.accelerator import is_accelerator
from specviz.models.language_model import LanguageModel
from specviz.models.local_model import LocalModel


@dataclass(frozen=True, slots=True)
class Ahead:
    """The start and end times of drafting for the next round, by the clock `time.perf_counter`."""

    began: float
    ended: float


class DraftExecutor(Protocol):
    """An object that drafts the chains of one run while the target verifies."""

    board: Board
    memory_bytes: int  # size of the draft model's weights in bytes

    @property
    def cache_bytes(self) -> int | None:
        """Return the size of the draft's KV cache in bytes, or None if another process has it."""
        ...

    def begin(self, order: Order) -> None:
        """Write this round's chain to the shared tables, then start to draft for the next round.

        The chains for the next round may overwrite the chains that an earlier call prepared.
        """
        ...

    def finish(self) -> Ahead:
        """Wait until all chains that the last `begin` requested are in the shared tables."""
        ...

    def close(self) -> None: ...


class OwnProcess:
    """Draft in a worker process, which has its own CPU core and its own copy of the weights."""

    cache_bytes = None

    def __init__(self, model: LanguageModel, setting: Setting) -> None:
        self.memory_bytes = 2 * model.info.bytes
        size = board_bytes(setting)
        self._worker = worker_for(model)
        self._run, descriptor = self._worker.open(setting)
        try:
            self.board = Board(setting, mmap.mmap(descriptor, size))
        finally:
            os.close(descriptor)
        self._close = weakref.finalize(self, self._worker.close, self._run)
        self._close.atexit = False

    def begin(self, order: Order) -> None:
        self._worker.order(self._run, order)
        if order.row == self.board.fresh_row:
            self._worker.expect(self._run, ReplyKind.CHAIN)

    def finish(self) -> Ahead:
        answer = self._worker.expect(self._run, ReplyKind.AHEAD)
        return Ahead(answer.began, answer.ended)

    def close(self) -> None:
        self._close()


class InLine:
    """Draft in the calling thread, for models that cannot be copied to another process.

    Drafting then does not overlap with verification.
    """

    def __init__(self, model: LanguageModel, setting: Setting) -> None:
        self.memory_bytes = model.info.bytes
        self.board = Board(setting)
        self._drafting = AheadDrafting(model, setting, self.board)
        self._order: Order | None = None

    @property
    def cache_bytes(self) -> int:
        return self._drafting.cache_bytes

    def begin(self, order: Order) -> None:
        self._drafting.chain(order)
        self._order = order

    def finish(self) -> Ahead:
        assert self._order is not None
        began = time.perf_counter()
        self._drafting.ahead(self._order)
        return Ahead(began, time.perf_counter())

    def close(self) -> None:
        """Do nothing: this executor holds no resources."""


class SecondStream:
    """Draft on a second CUDA stream.

    In each round, the host launches the kernels of the draft before it launches those of the
    target, so both can run at the same time.
    """

    def __init__(self, model: LanguageModel, setting: Setting) -> None:
        self.memory_bytes = model.info.bytes
        self.board = Board(setting, device=model.device)
        self._drafting = AheadDrafting(model, setting, self.board)
        self._stream = torch.cuda.Stream(model.device)  # type: ignore[no-untyped-call]
        self._began = 0.0
        self._marks = _marks()

    @property
    def cache_bytes(self) -> int:
        return self._drafting.cache_bytes

    def begin(self, order: Order) -> None:
        target_stream = torch.cuda.current_stream(self._stream.device)
        # Wait for the target's stream before drafting: it may still read the chains that the new
        # chains overwrite.
        self._stream.wait_stream(target_stream)
        with torch.cuda.stream(self._stream):
            self._drafting.chain(order)
            target_stream.wait_stream(self._stream)
            self._began, self._marks = time.perf_counter(), _marks()
            self._marks[0].record()
            self._drafting.ahead(order)
            self._marks[1].record()

    def finish(self) -> Ahead:
        first, last = self._marks
        last.synchronize()
        return Ahead(self._began, self._began + first.elapsed_time(last) / 1000)

    def close(self) -> None:
        self._stream.synchronize()


def _marks() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    return first, last


def executor_for(model: LanguageModel, setting: Setting) -> DraftExecutor:
    """Return the executor that suits the draft model's device.

    A worker process is possible only if the operating system can send file descriptors between
    processes.
    """
    if is_accelerator(model.device):
        return SecondStream(model, setting)
    if isinstance(model, LocalModel) and hasattr(socket, "send_fds"):
        return OwnProcess(model, setting)
    return InLine(model, setting)
