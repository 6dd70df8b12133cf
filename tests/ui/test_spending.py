"""A visitor has so much of the processor in public, and again after a while."""

import pytest

from specviz.ui import spending
from specviz.ui.spending import MOST_SECONDS, SHARE, Spending
from tests.ui.clocked import Clock


def test_who_has_asked_for_much_waits_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    clock = Clock()
    seconds = Spending(clock)
    seconds.add("one", MOST_SECONDS + 1)
    assert seconds.is_over("one") and not seconds.is_over("another")
    clock.now += 1.1 / SHARE
    assert not seconds.is_over("one")
    seconds.add("one", 0.5)
    assert seconds.is_over("one"), "it has not all been forgiven yet"


def test_a_visitor_has_a_fifth_of_a_core_on_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    clock = Clock()
    seconds = Spending(clock)
    seconds.add("one", 6.0)
    for _ in range(10):
        clock.now += 5.0
        seconds.add("one", 0.9)
        assert not seconds.is_over("one")
    clock.now += 5.0
    seconds.add("one", 7.0)
    assert seconds.is_over("one")


def test_one_s_own_page_is_not_bounded() -> None:
    seconds = Spending()
    seconds.add("one", 99.0)
    assert not seconds.is_over("one")


def test_only_so_many_visitors_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setattr(spending, "MAX_VISITORS", 3)
    seconds = Spending(Clock())
    seconds.add("greedy", 99.0)
    for number in range(9):
        seconds.add(str(number), 0.1)
    assert seconds.is_over("greedy")
    assert len(seconds._spent) == 3
