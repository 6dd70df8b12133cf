"""A limit on the processor time that a visitor to a public server can use for answers.

Decoding shares Python's lock with the threads that unpack files or parse requests. A visitor who
sends many requests would therefore slow everybody down. This module does not look at the content of
requests.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any
from weakref import WeakValueDictionary

from anyio import to_thread

from specviz.environment import Environment
from specviz.ui.visitors import accounts_of

# The budget of a visitor, in seconds of processor time. A class of students behind one router
# counts as one visitor and needs a few seconds.
MOST_SECONDS = 6.0
SHARE = 0.2  # the share of a core that a visitor may always use, even after the budget is spent
BYTE_SECONDS = 2e-8  # time to receive, count and parse one byte of a body
VALUE_SECONDS = 1e-6  # time to create and free one value of a body
PAGE_SECONDS = 0.01  # time to build a page, which Gradio does anew for each visitor
# The largest number of questions that a visitor may have in progress. Further questions wait
# without a thread.
AT_ONCE = 4
MAX_VISITORS = 1000  # largest number of visitors whose processor time is remembered
TOO_MUCH = "your address has sent too much work in this minute: wait a moment"


class Spending:
    """The processor seconds that each visitor has spent.

    Each second of wall time reduces the sum of a visitor by `SHARE` seconds. The account of an IPv6
    network is charged a quarter of each amount, so it has four times the budget of a visitor.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Account -> seconds spent, and the time at which they were computed.
        self._spent: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def is_over(self, visitor: str) -> bool:
        """Return whether the visitor has spent the budget and must wait.

        The result is always False on a private server.
        """
        if not Environment.read().is_public:
            return False
        with self._lock:
            return any(self._now(name) > MOST_SECONDS for name in accounts_of(visitor))

    def add(self, visitor: str, seconds: float) -> None:
        with self._lock:
            for name, visitors in accounts_of(visitor).items():
                self._spent[name] = (self._now(name) + seconds / visitors, self._clock())
                if len(self._spent) > MAX_VISITORS:
                    del self._spent[min(self._spent, key=self._now)]

    def _now(self, name: str) -> float:
        seconds, when = self._spent.get(name, (0.0, 0.0))
        return max(0.0, seconds - SHARE * (self._clock() - when))


spending = Spending()
# The semaphore of each account, which limits a visitor to AT_ONCE questions at the same time.
_turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()


async def counted(method: Callable[[dict[str, Any]], Any], question: Any) -> Any:
    """Answer a question in a thread, and charge the thread's processor time to the visitor.

    `method` computes the answer. A visitor who has spent the budget gets an error instead.
    """
    visitor = question.get("address", "") if isinstance(question, dict) else ""
    async with AsyncExitStack() as turns:
        for name, visitors in accounts_of(visitor).items():
            turn = _turns.setdefault(name, asyncio.Semaphore(AT_ONCE * visitors))
            await turns.enter_async_context(turn)
        return await to_thread.run_sync(_timed, method, question, visitor)


def _timed(method: Callable[[dict[str, Any]], Any], question: Any, visitor: str) -> Any:
    if spending.is_over(visitor):
        return {"error": TOO_MUCH}
    began = time.thread_time()
    try:
        return method(question)
    finally:
        spending.add(visitor, time.thread_time() - began)
