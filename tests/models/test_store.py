"""Simultaneous callers share one load; the store drops the entry that was unused for longest."""

from __future__ import annotations

import threading
import time

import pytest

from specviz.models.pair_loading import Store


class Loads:
    """A slow load function that records the key of each call."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def get(self, store: Store, name: str) -> str:
        return store.get((name,), lambda: self._load(name))

    def _load(self, name: str) -> str:
        self.noted.append(name)
        time.sleep(0.02)
        if name == "bad":
            raise RuntimeError("bad thing")
        return name.upper()


def test_simultaneous_callers_share_one_load() -> None:
    store, loads, results = Store(2), Loads(), list[str]()
    threads = [
        threading.Thread(target=lambda: results.append(loads.get(store, "a"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads.noted == ["a"]
    assert results == ["A"] * 8


def test_the_entry_that_was_not_used_for_the_longest_time_is_dropped() -> None:
    store, loads = Store(2), Loads()
    for name in ("a", "b", "a", "c", "a", "b"):
        loads.get(store, name)
    assert loads.noted == ["a", "b", "c", "b"]


def test_a_failed_load_is_repeated_at_the_next_call() -> None:
    store, loads = Store(2), Loads()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="bad thing"):
            loads.get(store, "bad")
    assert loads.noted == ["bad", "bad"]


class Looked:
    """A part of a key that records which threads look the key up in the store.

    A thread looks up a key only while it has the store's lock.
    """

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def __hash__(self) -> int:
        self.threads.add(threading.get_ident())
        return 0


def test_callers_that_wait_for_a_failed_load_get_its_error() -> None:
    store, name, loads, errors = Store(2), Looked(), list[str](), list[str]()

    def load() -> None:
        loads.append("bad")
        while len(name.threads) < 4:
            time.sleep(0.001)
        raise RuntimeError("bad thing")

    def ask() -> None:
        try:
            store.get((name,), load)
        except RuntimeError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == ["bad thing"] * 4
    assert loads == ["bad"]


def test_clearing_removes_every_entry() -> None:
    store, loads = Store(2), Loads()
    loads.get(store, "a")
    store.clear()
    loads.get(store, "a")
    assert loads.noted == ["a", "a"]
