"""The messages between a draft worker's process and its owner, over a socket.

Large data go through shared memory. Messages have a fixed size, so each costs one system call on
either side.
"""

from __future__ import annotations

import select
import socket
import struct
from dataclasses import astuple, dataclass
from enum import IntEnum

from specviz.decoding.ahead.order import Order

_MESSAGE = struct.Struct("<7q")
_ANSWER = struct.Struct("<3q2d")
_NOTHING = (0,) * 5


class RequestKind(IntEnum):
    """Of a request to the worker; each is about one run."""

    OPEN = 1  # brings the descriptor of a board, and the size of a setting, which follows
    DRAFT = 2  # brings an order
    CLOSE = 3


class ReplyKind(IntEnum):
    """Of the worker's answer about one run."""

    READY = 1  # the run is open
    CHAIN = 2  # the order's chain is on the board, if it had to be drafted
    AHEAD = 3  # so are the outcomes; has when that began and ended
    FAILED = 4  # brings the size of an explanation, which follows


@dataclass(frozen=True, slots=True)
class Message:
    kind: RequestKind
    run: int
    numbers: tuple[int, ...]
    descriptor: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Times are in seconds of time.perf_counter, which is the same in all processes."""

    kind: ReplyKind
    run: int
    began: float = 0.0
    ended: float = 0.0
    text: str = ""


def pair() -> tuple[socket.socket, int]:
    """Our end of a new line, and a descriptor of the other end."""
    ours, theirs = socket.socketpair()
    return ours, theirs.detach()


def is_waiting(line: socket.socket) -> bool:
    """Whether there is something to receive, or the line has ended."""
    return bool(select.select([line], [], [], 0)[0])


def send_opening(line: socket.socket, run: int, setting: bytes, board: int) -> None:
    header = _MESSAGE.pack(RequestKind.OPEN, run, len(setting), 0, 0, 0, 0)
    socket.send_fds(line, [header, setting], [board])


def send_order(line: socket.socket, run: int, order: Order) -> None:
    line.sendall(_MESSAGE.pack(RequestKind.DRAFT, run, *astuple(order)))


def send_closing(line: socket.socket, run: int) -> None:
    line.sendall(_MESSAGE.pack(RequestKind.CLOSE, run, *_NOTHING))


def receive_message(line: socket.socket) -> Message:
    """EOFError at the line's end."""
    data, descriptors, _, _ = socket.recv_fds(line, _MESSAGE.size, 1)
    if not data:
        raise EOFError
    data += receive_bytes(line, _MESSAGE.size - len(data))
    kind, run, *numbers = _MESSAGE.unpack(data)
    return Message(RequestKind(kind), run, tuple(numbers), descriptors[0] if descriptors else None)


def send_answer(line: socket.socket, answer: Answer) -> None:
    text = answer.text.encode()
    head = _ANSWER.pack(answer.kind, answer.run, len(text), answer.began, answer.ended)
    line.sendall(head + text)


def receive_answer(line: socket.socket) -> Answer:
    """EOFError at the line's end, TimeoutError after the line's time limit."""
    kind, run, size, began, ended = _ANSWER.unpack(receive_bytes(line, _ANSWER.size))
    return Answer(ReplyKind(kind), run, began, ended, receive_bytes(line, size).decode())


def receive_bytes(line: socket.socket, size: int) -> bytes:
    """Exactly so many; EOFError at the line's end."""
    data = b""
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
