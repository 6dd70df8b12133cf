"""All that a run says to a page that asks until its end."""

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
    """What it comes to, in a thread of its own: the browser's driver has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, answer).result()


def heard(handlers: Handlers, ticket: str) -> list[dict[str, Any]]:
    """The messages of the run behind a ticket, from the first to the last."""
    messages: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        seen = handlers.look({"ticket": ticket, "after": len(messages)})
        messages += map(json.loads, seen["messages"])
        if seen["state"] in ("done", "unknown"):
            return messages
        time.sleep(0.005)
    raise AssertionError(f"the run has not ended after {PATIENCE_SECONDS} s")
