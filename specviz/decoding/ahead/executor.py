"""What drafts while the target verifies: another process, a second CUDA stream, or this thread.

When `begin` returns, the round's chain is ready; drafting ahead then goes on until `finish`.
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
from specviz.models.language_model import LanguageModel
from specviz.models.local_model import LocalModel


@dataclass(frozen=True, slots=True)
class Ahead:
    """When drafting ahead ran, in seconds of `time.perf_counter`."""

    began: float
    ended: float


class DraftExecutor(Protocol):
    """Drafts the chains of one run."""

    board: Board
    memory_bytes: int  # weights

    @property
    def cache_bytes(self) -> int | None:
        """Keys and values; None where another process has them."""
        ...

    def begin(self, order: Order) -> None:
        """Returns once the order's chain is on the board; drafting ahead then goes on.

        A prepared chain may be overwritten from now on.
        """
        ...

    def finish(self) -> Ahead:
        """Wait until everything of the last order is on the board."""
        ...

    def close(self) -> None: ...


class OwnProcess:
    """The model's worker process, on a core of its own, with a copy of the weights."""

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
    """This thread, for models that cannot be copied; nothing overlaps."""

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
        """There is nothing to free."""


class SecondStream:
    """A second CUDA stream. The host launches all of its work before the target's."""

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
        self._stream.wait_stream(target_stream)  # it reads chains that are overwritten here
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
    """By the model's device; not every system can send descriptors to another process."""
    if model.device.type == "cuda":
        return SecondStream(model, setting)
    if isinstance(model, LocalModel) and hasattr(socket, "send_fds"):
        return OwnProcess(model, setting)
    return InLine(model, setting)
