"""Worker processes that draft: all runs with the same draft model share one worker.

Starting a worker takes seconds, so a worker continues after a run has ended. It ends when its
parent process ends, when the model is freed, or when an error occurs.
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

# Time limit in seconds for starting a worker or opening a run.
PATIENCE_SECONDS = 120.0
# Time limit in seconds for the drafts of one round. The time limit is short because other runs wait
# as well.
ANSWER_SECONDS = 20.0
# A caller that waits for an answer checks at these intervals, in seconds, whether its run must
# stop.
POLL_SECONDS = 0.25
_START = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from specviz.decoding.ahead.process import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class Worker:
    """A worker process and the pipe to it.

    After an error, this object ends the process and raises an InputError with the draft's name.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._name = model.info.name
        self._line, theirs = Pipe()
        try:
            self._process = _start(model, theirs.fileno())
        except OSError as error:
            raise InputError(
                f"a process that drafts with {self._name!r} could not be started: {error}"
            ) from None
        finally:
            theirs.close()
        self.end = weakref.finalize(self, _end, self._process, self._line)
        self._numbers = count(1)
        self._sending, self._receiving = threading.RLock(), threading.Lock()
        # Number of a run -> the answers that no caller has read yet. Key 0 is for answers that
        # belong to no run.
        self._answers: dict[int, deque[Answer]] = {0: deque()}
        self._boards: dict[int, int] = {}
        self._receive(0, PATIENCE_SECONDS)

    @property
    def is_alive(self) -> bool:
        return self.end.alive and self._process.poll() is None

    @property
    def process_id(self) -> int:
        return self._process.pid

    def open(self, setting: Setting) -> tuple[int, int]:
        """Open a run. Return its number and the file descriptor of its shared tables."""
        run = next(self._numbers)
        self._answers[run] = deque()
        self._send(Request(run, setting))
        self.expect(run, ReplyKind.OPEN)
        return run, self._boards.pop(run)

    def order(self, run: int, order: Order) -> None:
        """Request the drafts of one round, and do not wait for them."""
        self._send(Request(run, order))

    def expect(self, run: int, kind: ReplyKind) -> Answer:
        """Wait for the run's next answer, whose kind must be `kind`, and return it.

        Raises InputError if the worker answers that drafting failed.
        """
        is_round = kind in (ReplyKind.CHAIN, ReplyKind.AHEAD)
        answer = self._receive(run, ANSWER_SECONDS if is_round else PATIENCE_SECONDS)
        if answer.kind is ReplyKind.FAILED:
            raise InputError(answer.text)
        assert answer.kind is kind, f"{answer.kind!r} instead of {kind!r}"
        return answer

    def close(self, run: int) -> None:
        """Close a run.

        This is safe in any thread at any time, so the garbage collector may call it.
        """
        self._answers.pop(run, None)
        with suppress(OSError), self._sending:
            self._line.send(Request(run, None))

    def _send(self, request: Request) -> None:
        with self._line_errors(), self._sending:
            self._line.send(request)

    def _wait(self, seconds: float) -> None:
        """Wait until an answer is in the pipe.

        Raises TimeoutError if no answer arrives in time, and Stopped if the run must stop.
        """
        deadline = time.monotonic() + seconds
        while not self._line.poll(min(POLL_SECONDS, seconds)):
            check_stop()
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no answer within {seconds:g} s")

    def _receive(self, run: int, patience: float) -> Answer:
        """Return the next answer for this run.

        The worker may answer another run first. This method keeps the answers to another run until
        that run asks for them.
        """
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
        """If the pipe is broken, end the process and raise an InputError."""
        try:
            yield
        except (OSError, EOFError) as error:
            reason = self._reason(error)
            self.end()
            raise InputError(
                f"the process that drafts with {self._name!r} ended: {reason}; run again to start "
                "a new one"
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
    """Start a Python process that loads the model.

    It is a new process and not a fork, and it does not import this program's main module.
    """
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
            # in a session of its own, so that Ctrl-C reaches only the parent process
            start_new_session=True,
        )
    finally:
        os.close(weights)


def _end(process: subprocess.Popen[bytes], line: Connection) -> None:
    line.close()
    process.kill()  # The worker has nothing to save, so it can be killed at once.
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


_workers: weakref.WeakKeyDictionary[LanguageModel, Worker] = weakref.WeakKeyDictionary()
_starting = threading.Lock()


def worker_for(model: LanguageModel) -> Worker:
    """Return the model's worker process. If none is alive, start one."""
    with _starting:
        worker = _workers.get(model)
        if worker is None or not worker.is_alive:
            worker = _workers[model] = Worker(model)
        return worker
