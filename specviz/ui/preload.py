"""Loads the pair that the page begins with, and rehearses its method, while visitors look around.

In the decoding thread: a race that is started meanwhile waits there for its end, and two loads
never meet (while transformers loads a model, the default precision of the whole process is that
model's). A failure is only logged; the race that needs the pair reports it.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from specviz.decoding.drafters.registry import method_named
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.experiments.run.warm_up import get_ready
from specviz.models.pair_catalog import CHAT, GET_CHAT_MODEL, Pair, default_pair, pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.threads import begin_in_decoding_thread

log = logging.getLogger("specviz")
HEAD_START_SECONDS = 4.0  # for whoever opens the page at once, until its recording plays


def preload_soon() -> Future[None]:
    """Preload once a first page had time to open; done when that is. A race before it loads for
    itself.
    """
    loaded: Future[None] = Future()

    def begin() -> None:
        try:
            preload().add_done_callback(lambda _: loaded.set_result(None))
        except InputError as error:
            loaded.set_exception(error)

    timer = threading.Timer(HEAD_START_SECONDS, begin)
    timer.daemon = True
    timer.start()
    return loaded


def preload() -> Future[None]:
    """Begin to load what the page begins with, and say where the chat model is missing.

    Nothing is downloaded. InputError where SPECVIZ_PAIR names no pair.
    """
    pair = default_pair()
    if not pair_named(CHAT).is_here:
        log.warning("the chat model is not on this machine; it is fetched by: %s", GET_CHAT_MODEL)
    return begin_in_decoding_thread(lambda: _load(pair))


def _load(pair: Pair) -> None:
    if not pair.is_here or Environment.read().zero_gpu:  # there each run loads what it needs
        return
    try:
        get_ready(load_pair(pair, needs=method_named(pair.method).needs))
    except InputError as error:
        log.warning("the pair %s is not ready: %s", pair.name, error)
    except Exception:
        log.exception("the pair %s is not ready", pair.name)
