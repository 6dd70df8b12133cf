"""Messages of a race, numbered, encoded once and sent in batches.

Knows nothing of what a message says, and nothing of Gradio.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

BATCH_SECONDS = 0.05

Message = dict[str, Any]


def batches(
    messages: Iterable[Message],
    ticket: str,
    log: list[str],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Number each message, keep its text in `log`, and yield JSON batches.

    Events wait for company up to BATCH_SECONDS; any other message goes out at once, and takes
    the waiting ones with it. A batch is a string, not a dict: it crosses the wire in one piece,
    and `json` (unlike stricter encoders) can write any text that a model may produce.
    """
    sent, last = len(log), clock()
    for message in messages:
        log.append(encode({"seq": len(log), **message}))
        if message["kind"] != "event" or clock() - last >= BATCH_SECONDS:
            yield batch(ticket, log[sent:])
            sent, last = len(log), clock()
    if sent < len(log):
        yield batch(ticket, log[sent:])


def batch(ticket: str, encoded: list[str]) -> str:
    return f'{{"ticket":{json.dumps(ticket)},"messages":[{",".join(encoded)}]}}'


def encode(message: Message) -> str:
    """JSON without any `<`: whatever a model wrote, no one can take it for markup on the way."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")
