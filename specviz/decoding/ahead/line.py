"""The messages between a draft worker's process and its owner, sent as objects through a pipe.

Large data go through shared memory, whose descriptor follows the answer that its run is open.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.connection import Connection

from specviz.decoding.ahead.order import Order, Setting


@dataclass(frozen=True, slots=True)
class Request:
    """To the worker: a setting opens its run, an order asks for a round, None closes the run."""

    run: int
    subject: Setting | Order | None


class ReplyKind(IntEnum):
    """Of the worker's answer."""

    READY = 1  # the process has its model; this is about no run
    OPEN = 2  # the run is open; its board's descriptor follows
    CHAIN = 3  # the order's chain is on the board, if it had to be drafted
    AHEAD = 4  # so are the outcomes; has when that began and ended
    FAILED = 5  # the run has ended; has an explanation


@dataclass(frozen=True, slots=True)
class Answer:
    """Times are in seconds of time.perf_counter, which is the same in all processes."""

    kind: ReplyKind
    run: int
    began: float = 0.0
    ended: float = 0.0
    text: str = ""


def send_descriptor(line: Connection, descriptor: int) -> None:
    with _as_socket(line) as end:
        socket.send_fds(end, [b"."], [descriptor])


def receive_descriptor(line: Connection) -> int:
    """EOFError at the line's end."""
    with _as_socket(line) as end:
        _, descriptors, _, _ = socket.recv_fds(end, 1, 1)
    if not descriptors:
        raise EOFError
    return descriptors[0]


def _as_socket(line: Connection) -> socket.socket:
    return socket.fromfd(line.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
