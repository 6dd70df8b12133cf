"""The loading of the default pair, and the warm-up of its method, while visitors look around.

It runs in the decoding thread, so a race that starts meanwhile waits for it. Two loads must never
overlap: while transformers loads a model, it changes the default precision of the whole process. A
failure is only logged; the race that needs the pair reports it.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from specviz.decoding.drafters.registry import method_named
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.experiments.run.warm_up import get_ready
from specviz.models.garbage import settle
from specviz.models.pair_catalog import CHAT, GET_CHAT_MODEL, Pair, default_pair, pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.threads import begin_in_decoding_thread

log = logging.getLogger("specviz")
# The number of seconds that the preload waits, so that a page that opens at once can play its
# recording first.
HEAD_START_SECONDS = 4.0


def preload_soon() -> Future[None]:
    """Start the preload after a delay, so that the first page loads quickly.

    The returned future completes when the preload has ended. A race that starts before the delay
    ends loads the pair itself.
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
    """Start to load the default pair; log a warning if the chat model is missing.

    Nothing is downloaded. Raises InputError if SPECVIZ_PAIR names no pair.
    """
    pair = default_pair()
    if not pair_named(CHAT).is_here:
        log.warning("the chat model is not on this machine; it is fetched by: %s", GET_CHAT_MODEL)
    return begin_in_decoding_thread(lambda: _load(pair))


def _load(pair: Pair) -> None:
    try:
        _get_ready(pair)
    finally:
        settle()


def _get_ready(pair: Pair) -> None:
    if not pair.is_here or Environment.read().zero_gpu:  # on ZeroGPU, each run loads its own models
        return
    try:
        get_ready(load_pair(pair, needs=method_named(pair.method).needs))
    except InputError as error:
        log.warning("the pair %s is not ready: %s", pair.name, error)
    # A library may raise an error that is no Exception. The app must still start.
    except BaseException:
        log.exception("the pair %s is not ready", pair.name)
