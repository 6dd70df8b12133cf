"""Each thing is loaded once, however many ask, and the one unused for longest goes."""

from __future__ import annotations

import threading
import time

import pytest

from specviz.models.pair_loading import Store


class Loads:
    """Slow loads that are noted by key."""

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


def test_those_who_ask_at_once_share_one_load() -> None:
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


def test_the_one_unused_for_longest_goes() -> None:
    store, loads = Store(2), Loads()
    for name in ("a", "b", "a", "c", "a", "b"):
        loads.get(store, name)
    assert loads.noted == ["a", "b", "c", "b"]


def test_a_failed_load_is_tried_again() -> None:
    store, loads = Store(2), Loads()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="bad thing"):
            loads.get(store, "bad")
    assert loads.noted == ["bad", "bad"]


class Looked:
    """A key's name that notes which threads looked it up, which a store does under its lock."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def __hash__(self) -> int:
        self.threads.add(threading.get_ident())
        return 0


def test_those_who_wait_for_a_failed_load_get_its_error() -> None:
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


def test_clearing_forgets_everything() -> None:
    store, loads = Store(2), Loads()
    loads.get(store, "a")
    store.clear()
    loads.get(store, "a")
    assert loads.noted == ["a", "a"]
