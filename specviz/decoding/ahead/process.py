"""The main program of a worker process: load a draft model once, then draft for many runs.

The process has one thread. It first drafts the chain of a current round, because that round waits
for the chain. While no round waits, it drafts chains for the outcomes of the current verification.
The process ends when its pipe is closed, so it never outlives the process that started it.
"""

from __future__ import annotations

import gc
import mmap
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch

from specviz.decoding.ahead.board import Board, board_bytes, shared_file
from specviz.decoding.ahead.drafting import AheadDrafting
from specviz.decoding.ahead.line import Answer, ReplyKind, send_descriptor
from specviz.decoding.ahead.order import Order, Setting
from specviz.errors import InputError
from specviz.models.language_model import LanguageModel


def main(line_descriptor: int, model_descriptor: int) -> None:
    """Answer the requests in the pipe until the decoding process closes the pipe."""
    torch.set_num_threads(1)
    with os.fdopen(model_descriptor, "rb") as file:
        model: LanguageModel = torch.load(file, weights_only=False)
    # Never let the garbage collector examine the model: the model lives as long as the process.
    gc.freeze()
    with Connection(line_descriptor) as line, suppress(EOFError, OSError):
        line.send(Answer(ReplyKind.READY, 0))
        _Service(model, line).run()


class _Service:
    """The state of a worker: its open runs, and the requests that still need chains."""

    def __init__(self, model: LanguageModel, line: Connection) -> None:
        self._model = model
        self._line = line
        self._runs: dict[int, AheadDrafting] = {}
        self._waiting: deque[tuple[int, Order]] = deque()
        # the pairs (draft length, fan-out) for which a warm-up has been run; one warm-up per pair
        # suffices
        self._warm: set[tuple[int, int]] = set()

    def run(self) -> None:
        while True:
            if self._waiting and not self._line.poll():
                self._try(self._ahead, *self._waiting.popleft())
            else:
                request = self._line.recv()
                self._try(self._serve, request.run, request.subject)

    def _try(self, action: Callable[[int, Any], None], run: int, subject: object) -> None:
        """Call `action(run, subject)`.

        If it raises an error, end the run and send an error message.
        """
        try:
            action(run, subject)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:
            self._forget(run)
            text = str(error) if isinstance(error, InputError) else f"drafting failed: {error!r}"
            self._line.send(Answer(ReplyKind.FAILED, run, text=text))

    def _serve(self, run: int, subject: Setting | Order | None) -> None:
        match subject:
            case Setting():
                self._open(run, subject)
            case Order():
                self._chain(run, subject)
            case None:
                self._forget(run)

    def _open(self, run: int, setting: Setting) -> None:
        size = board_bytes(setting)
        descriptor = shared_file(size)
        try:
            board = Board(setting, mmap.mmap(descriptor, size))
            self._runs[run] = drafting = AheadDrafting(self._model, setting, board)
            shape = setting.draft_length, setting.fan_out
            if shape not in self._warm:
                drafting.warm_up()
                self._warm.add(shape)
            self._line.send(Answer(ReplyKind.OPEN, run))
            send_descriptor(self._line, descriptor)
        finally:
            os.close(descriptor)

    def _chain(self, run: int, order: Order) -> None:
        drafting = self._runs[run]
        drafting.chain(order)
        self._waiting.append((run, order))
        if drafting.has_to_draft(order):
            self._line.send(Answer(ReplyKind.CHAIN, run))

    def _ahead(self, run: int, order: Order) -> None:
        began = time.perf_counter()
        self._runs[run].ahead(order)
        self._line.send(Answer(ReplyKind.AHEAD, run, began, time.perf_counter()))

    def _forget(self, run: int) -> None:
        self._runs.pop(run, None)
        self._waiting = deque(each for each in self._waiting if each[0] != run)
