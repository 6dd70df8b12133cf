"""Runs on a Space whose GPU is lent for one call at a time (ZeroGPU).

There a run is one call in a process of its own: its request goes in, its messages come out, all of
them plain values, and both lanes decode in that call. The process that serves the page never
touches the device. Everywhere else `spaces.GPU` has nothing to do, and nothing of this is used.
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
READY_SECONDS = 20  # to load the models and to rehearse
TOKEN_SECONDS = 0.05  # in both lanes together, with much to spare
MOST_SECONDS = 120  # visitors are charged for what is asked for


def lent_seconds(request: Any, *_: Any) -> int:
    """For how long an order asks for the GPU.

    What is measured for minutes gets the most there is; advice knows its own time.
    """
    seconds = float(MOST_SECONDS)
    if isinstance(request, RaceRequest | ForkRequest):
        seconds = READY_SECONDS + TOKEN_SECONDS * request.config.max_new_tokens
    elif isinstance(request, AdviceOrder):
        seconds = READY_SECONDS + request.seconds
    return min(MOST_SECONDS, round(seconds))


def lent(call: Call) -> Call | None:
    """The call with the GPU, for `lent_seconds` of its arguments; None on any other machine.

    Has to be made before the page is served: such a Space looks for it then.
    """
    if not Environment.read().zero_gpu:
        return None
    import spaces

    decorated: Call = spaces.GPU(call, duration=lent_seconds)
    return decorated


def lent_messages(call: Call, stop: threading.Event, *given: Any) -> Generator[Message]:
    """All messages of such a call; one that is to stop is ended between two of them."""
    try:
        with closing(call(*given)) as messages:
            for message in messages:
                yield message
                if stop.is_set():
                    yield {"kind": "end", "reason": "stopped"}
                    return
    except gr.Error as error:  # no GPU was free, or the time was not enough
        yield {"kind": "error", "text": f"the GPU was not lent: {error.message}"}
    except PicklingError:
        yield {"kind": "error", "text": "this cannot be measured where a GPU is lent by the call"}
