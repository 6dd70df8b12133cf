"""Draft workers: one process per draft model, which drafts for all runs of this process.

Starting it takes seconds, so it outlives its runs. It ends with this process, with the model, or
when it fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import torch

from specviz.decoding.ahead.board import shared_file
from specviz.decoding.ahead.line import Answer, ReplyKind, Request, receive_descriptor
from specviz.decoding.ahead.order import Order, Setting
from specviz.errors import InputError
from specviz.models.language_model import LanguageModel
from specviz.slices import check_stop

PATIENCE_SECONDS = 120.0  # for a process that starts, or opens a run
ANSWER_SECONDS = 20.0  # for the drafts of a round, which others wait for too
POLL_SECONDS = 0.25  # after which a stop is heard
_START = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from specviz.decoding.ahead.process import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class Worker:
    """One process. Its failure ends it and raises an InputError that names the model."""

    def __init__(self, model: LanguageModel) -> None:
        self._name = model.info.name
        self._line, theirs = Pipe()
        try:
            self._process = _start(model, theirs.fileno())
        except OSError as error:
            raise InputError(f"no process could be started for {self._name!r}: {error}") from None
        finally:
            theirs.close()
        self.end = weakref.finalize(self, _end, self._process, self._line)
        self._numbers = count(1)
        self._sending, self._receiving = threading.RLock(), threading.Lock()
        self._answers: dict[int, deque[Answer]] = {0: deque()}  # by open run; 0: no run's
        self._boards: dict[int, int] = {}  # descriptors that were received, by run
        self._receive(0, PATIENCE_SECONDS)

    @property
    def is_alive(self) -> bool:
        return self.end.alive and self._process.poll() is None

    @property
    def process_id(self) -> int:
        return self._process.pid

    def open(self, setting: Setting) -> tuple[int, int]:
        """Begin a run; returns its number and the descriptor of its board."""
        run = next(self._numbers)
        self._answers[run] = deque()
        self._send(Request(run, setting))
        self.expect(run, ReplyKind.OPEN)
        return run, self._boards.pop(run)

    def order(self, run: int, order: Order) -> None:
        """Ask for the drafts of a round; does not wait."""
        self._send(Request(run, order))

    def expect(self, run: int, kind: ReplyKind) -> Answer:
        """Wait for the run's next answer, which must be of this kind."""
        is_round = kind in (ReplyKind.CHAIN, ReplyKind.AHEAD)
        answer = self._receive(run, ANSWER_SECONDS if is_round else PATIENCE_SECONDS)
        if answer.kind is ReplyKind.FAILED:
            raise InputError(answer.text)
        assert answer.kind is kind, f"{answer.kind!r} instead of {kind!r}"
        return answer

    def close(self, run: int) -> None:
        """End a run. The garbage collector may call it at any moment of this thread."""
        self._answers.pop(run, None)
        with suppress(OSError), self._sending:
            self._line.send(Request(run, None))

    def _send(self, request: Request) -> None:
        with self._line_errors(), self._sending:
            self._line.send(request)

    def _wait(self, seconds: float) -> None:
        """Until there is an answer. TimeoutError where none comes, Stopped as `check_stop`."""
        deadline = time.monotonic() + seconds
        while not self._line.poll(min(POLL_SECONDS, seconds)):
            check_stop()
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no answer within {seconds:g} s")

    def _receive(self, run: int, patience: float) -> Answer:
        """The run's next answer; answers to other runs are kept for them."""
        with self._line_errors(), self._receiving:
            answers = self._answers[run]
            while not answers:
                self._wait(patience)
                answer = self._line.recv()
                if answer.kind is ReplyKind.OPEN:
                    self._boards[answer.run] = receive_descriptor(self._line)
                if answer.run in self._answers:
                    self._answers[answer.run].append(answer)
            return answers.popleft()

    @contextmanager
    def _line_errors(self) -> Iterator[None]:
        """A broken line ends the process and raises an InputError."""
        try:
            yield
        except (OSError, EOFError) as error:
            reason = self._reason(error)
            self.end()
            raise InputError(
                f"the process that drafts with {self._name!r} must stay alive, got: {reason}; "
                "start again, it then gets a new one"
            ) from None

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return str(error)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        code = self._process.returncode
        if code is not None and code < 0:
            return f"it ended by {signal.Signals(-code).name}"
        return f"it ended with status {code}"


def _start(model: LanguageModel, line: int) -> subprocess.Popen[bytes]:
    """A new interpreter, which does not import this one's main module."""
    weights = shared_file(0)
    try:
        with os.fdopen(os.dup(weights), "wb") as file:
            torch.save(model, file)
        os.lseek(weights, 0, os.SEEK_SET)
        return subprocess.Popen(
            [sys.executable, "-c", _START, str(line), str(weights), *sys.path],
            pass_fds=(line, weights),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is its owner's business
        )
    finally:
        os.close(weights)


def _end(process: subprocess.Popen[bytes], line: Connection) -> None:
    line.close()
    process.kill()  # it has nothing to save
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


_workers: weakref.WeakKeyDictionary[LanguageModel, Worker] = weakref.WeakKeyDictionary()
_starting = threading.Lock()


def worker_for(model: LanguageModel) -> Worker:
    """The model's worker; a new one if none is alive."""
    with _starting:
        worker = _workers.get(model)
        if worker is None or not worker.is_alive:
            worker = _workers[model] = Worker(model)
        return worker
