"""The messages between a worker process and the process that started it.

The messages are Python objects, sent through a pipe. Large tables are in memory that both processes
share. After the answer OPEN, the worker sends the file descriptor of that memory.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.connection import Connection

from specviz.decoding.ahead.order import Order, Setting


@dataclass(frozen=True, slots=True)
class Request:
    """A message to the worker process about one run.

    A `Setting` opens a run, an `Order` requests the drafts of a round, and None closes the run.
    """

    run: int
    subject: Setting | Order | None


class ReplyKind(IntEnum):
    """The kind of an `Answer`, which says what the worker process reports."""

    READY = 1  # The worker process has loaded its model. This answer belongs to no run.
    OPEN = 2  # The run is open. The next message is the file descriptor of the run's shared tables.
    # The worker process had not prepared a chain for the current round. It has now drafted this
    # chain and written it to the run's shared tables.
    CHAIN = 3
    # The chains for the possible outcomes of the verification are in the run's shared tables. The
    # answer also has the start and end times of drafting.
    AHEAD = 4
    FAILED = 5  # Drafting failed and the run has ended. The answer has an error message.


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the worker process.

    Times are in seconds of time.perf_counter, a clock that all processes share.
    """

    kind: ReplyKind
    run: int
    began: float = 0.0
    ended: float = 0.0
    text: str = ""


def send_descriptor(line: Connection, descriptor: int) -> None:
    with _as_socket(line) as end:
        socket.send_fds(end, [b"."], [descriptor])


def receive_descriptor(line: Connection) -> int:
    """Receive a file descriptor from the other process. Raises EOFError if the pipe is closed."""
    with _as_socket(line) as end:
        _, descriptors, _, _ = socket.recv_fds(end, 1, 1)
    if not descriptors:
        raise EOFError
    return descriptors[0]


def _as_socket(line: Connection) -> socket.socket:
    return socket.fromfd(line.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
