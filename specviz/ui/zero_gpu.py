"""Runs on a Space that lends its GPU for one call at a time (ZeroGPU).

Each run is one call in a new process. This process receives the request, decodes both lanes, and
yields the messages, which are plain values. The process that serves the page never touches the
device. On other machines `spaces.GPU` does nothing, and this module is unused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from pickle import PicklingError
from typing import Any

import gradio as gr

from specviz.environment import Environment
from specviz.experiments.run.forking import ForkRequest
from specviz.experiments.run.racing import RaceRequest
from specviz.ui.lab.lab_advice import AdviceOrder
from specviz.ui.messages import Message

Call = Callable[..., Generator[Message]]
READY_SECONDS = 20  # time to load and warm up the models
TOKEN_SECONDS = 0.05  # decoding time per token of both lanes together, with a margin
# The longest time that a job requests from the Space. Visitors pay for the requested time, not for
# the used time.
MOST_SECONDS = 120


def lent_seconds(request: Any, *_: Any) -> int:
    """Return for how many seconds a job requests the GPU.

    The time of a race depends on its number of tokens, and the time of advice is chosen by the
    user. All other measurements request MOST_SECONDS.
    """
    seconds = float(MOST_SECONDS)
    if isinstance(request, RaceRequest | ForkRequest):
        seconds = READY_SECONDS + TOKEN_SECONDS * request.config.max_new_tokens
    elif isinstance(request, AdviceOrder):
        seconds = READY_SECONDS + request.seconds
    return min(MOST_SECONDS, round(seconds))


def lent(call: Call) -> Call | None:
    """Return the call, wrapped so that it runs on the lent GPU; None on any other machine.

    This must run before the page is served, because the Space then looks for such calls.
    """
    if not Environment.read().zero_gpu:
        return None
    import spaces

    decorated: Call = spaces.GPU(call, duration=lent_seconds)
    return decorated


def lent_messages(call: Call, stop: threading.Event, *given: Any) -> Generator[Message]:
    """Yield all messages of a call on the lent GPU; a stop ends it after the current message."""
    try:
        with closing(call(*given)) as messages:
            for message in messages:
                yield message
                if stop.is_set():
                    yield {"kind": "end", "reason": "stopped"}
                    return
    except gr.Error as error:  # no GPU was free, or the job needed more time than it had requested
        yield {"kind": "error", "text": f"the GPU was not lent: {error.message}"}
    except PicklingError:
        yield {
            "kind": "error",
            "text": "this cannot be measured on a server that borrows its GPU per call",
        }
