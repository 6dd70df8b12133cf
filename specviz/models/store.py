"""Whatever has been loaded, each thing once for all sessions; the one unused for longest goes.

Knows nothing of what it keeps.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

Key = tuple[str, ...]
T = TypeVar("T")


class Store:
    """At most `size` things by key. What a run still holds lives on after it has gone from here."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._loads: OrderedDict[Key, Future[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key, load: Callable[[], T]) -> T:
        """The thing of that key, loaded if it is not here.

        Callers that ask for it at once share one load, and its exception if it fails; a failed
        load is tried again by the next caller.
        """
        with self._lock:
            found = self._loads.get(key)
            future: Future[T] = Future() if found is None else found
            self._loads[key] = future
            self._loads.move_to_end(key)
            while len(self._loads) > self._size:
                self._loads.popitem(last=False)
        if found is None:
            self._fill(key, future, load)
        return future.result()

    def __contains__(self, key: Key) -> bool:
        """Whether it is here or on its way."""
        return key in self._loads

    def idle(self, kept: Collection[Key]) -> list[tuple[Key, Any]]:
        """What is loaded but for `kept`, the one unused for longest first."""
        with self._lock:
            loaded = [(key, load) for key, load in self._loads.items() if key not in kept]
        return [
            (key, load.result()) for key, load in loaded if load.done() and load.exception() is None
        ]

    def drop(self, key: Key) -> None:
        """Forget a thing."""
        with self._lock:
            self._loads.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._loads.clear()

    def _fill(self, key: Key, future: Future[T], load: Callable[[], T]) -> None:
        try:
            future.set_result(load())
        except BaseException as error:
            with self._lock:
                if self._loads.get(key) is future:
                    del self._loads[key]
            future.set_exception(error)
