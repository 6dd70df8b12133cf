"""Garbage collections skip long-lived objects, and dropped ones are still freed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from specviz.models.garbage import collect_all, settle


class Knot:
    """An object that refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_long_lived_objects_are_not_examined_again() -> None:
    kept = [Knot() for _ in range(1000)]
    settle()
    assert gc.get_freeze_count() > len(kept)
    assert not any(isinstance(each, Knot) for each in gc.get_objects())


def test_a_later_dropped_object_is_freed_by_a_full_collection() -> None:
    knot = Knot()
    gone = weakref.ref(knot)
    settle()
    del knot
    gc.collect()
    assert gone() is not None, "a usual collection leaves it out"
    collect_all()
    assert gone() is None and gc.get_freeze_count() > 0


def test_a_full_collection_without_long_lived_objects_freezes_nothing() -> None:
    gc.unfreeze()
    collect_all()
    assert gc.get_freeze_count() == 0
