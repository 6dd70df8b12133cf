"""What answers take of the processor beside decoding: in public each visitor has a bounded part.

Decoding shares Python's lock with whoever unpacks a file or parses a body, so a visitor who sends
such things without an end would slow everybody down. Knows nothing of what is asked.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from anyio import to_thread

from specviz.environment import Environment

MOST_SECONDS = 6.0  # that a visitor may have had; a class behind one router needs a few
SHARE = 0.2  # of a core, that a visitor may have on and on
BYTE_SECONDS = 2e-8  # of a body: to receive, count and parse it
VALUE_SECONDS = 1e-6  # of each value in it, to be made and freed
PAGE_SECONDS = 0.01  # of what Gradio makes anew for each visitor
AT_ONCE = 4  # questions of a visitor that are worked on; others of theirs wait, and hold no thread
MAX_VISITORS = 1000  # that are remembered
TOO_MUCH = "your address has asked for much in this minute: wait a moment"


class Spending:
    """Seconds of each visitor, of which `SHARE` of a second is forgiven with every second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent: dict[str, tuple[float, float]] = {}  # seconds, and when that was so
        self._lock = threading.Lock()

    def is_over(self, visitor: str) -> bool:
        """Whether the visitor has to wait; never where the page is not public."""
        if not Environment.read().is_public:
            return False
        with self._lock:
            return self._now(visitor) > MOST_SECONDS

    def add(self, visitor: str, seconds: float) -> None:
        with self._lock:
            self._spent[visitor] = (self._now(visitor) + seconds, self._clock())
            if len(self._spent) > MAX_VISITORS:
                del self._spent[min(self._spent, key=self._now)]

    def _now(self, visitor: str) -> float:
        seconds, when = self._spent.get(visitor, (0.0, 0.0))
        return max(0.0, seconds - SHARE * (self._clock() - when))


spending = Spending()
_turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by visitor


async def counted(method: Callable[[dict[str, Any]], Any], question: Any) -> Any:
    """The answer, found in a thread, unless the visitor has had too many that took long."""
    visitor = question.get("address", "") if isinstance(question, dict) else ""
    turn = _turns.setdefault(visitor, asyncio.Semaphore(AT_ONCE))
    async with turn:
        return await to_thread.run_sync(_timed, method, question, visitor)


def _timed(method: Callable[[dict[str, Any]], Any], question: Any, visitor: str) -> Any:
    if spending.is_over(visitor):
        return {"error": TOO_MUCH}
    began = time.thread_time()
    try:
        return method(question)
    finally:
        spending.add(visitor, time.thread_time() - began)
