"""Collect all messages that a run sends to a page that asks for news again and again."""

import asyncio
import json
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from specviz.ui.handlers import Handlers

PATIENCE_SECONDS = 60.0
T = TypeVar("T")


def awaited(answer: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that runs in another thread.

    The current thread may already run the event loop of the browser driver.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, answer).result()


def heard(handlers: Handlers, ticket: str) -> list[dict[str, Any]]:
    """Return all messages of the run with this ticket, from the first to the last."""
    messages: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        seen = handlers.look({"ticket": ticket, "after": len(messages)})
        messages += map(json.loads, seen["messages"])
        if seen["state"] in ("done", "unknown"):
            return messages
        time.sleep(0.005)
    raise AssertionError(f"the run has not ended after {PATIENCE_SECONDS} s")
