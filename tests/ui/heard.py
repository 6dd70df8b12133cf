"""All that a run says to a page that asks until its end."""

import json
import time
from typing import Any

from specviz.ui.handlers import Handlers

PATIENCE_SECONDS = 60.0


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
