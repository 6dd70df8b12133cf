"""A public visitor has a budget of CPU time that refills after a while."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from specviz.ui import spending
from specviz.ui.spending import AT_ONCE, MOST_SECONDS, SHARE, TOO_MUCH, Spending, counted
from tests.ui.clocked import Clock
from tests.ui.heard import awaited


def test_a_visitor_who_used_much_time_waits_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    clock = Clock()
    seconds = Spending(clock)
    seconds.add("one", MOST_SECONDS + 1)
    assert seconds.is_over("one") and not seconds.is_over("another")
    clock.now += 1.1 / SHARE
    assert not seconds.is_over("one")
    seconds.add("one", 0.5)
    assert seconds.is_over("one"), "it has not all been forgiven yet"


def test_a_visitor_has_a_fifth_of_a_core_permanently(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_private_server_has_no_budget() -> None:
    seconds = Spending()
    seconds.add("one", 99.0)
    assert not seconds.is_over("one")


def test_only_a_limited_number_of_visitors_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setattr(spending, "MAX_VISITORS", 3)
    seconds = Spending(Clock())
    seconds.add("greedy", 99.0)
    for number in range(9):
        seconds.add(str(number), 0.1)
    assert seconds.is_over("greedy")
    assert len(seconds._spent) == 3


def test_a_visitor_s_burst_is_answered_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setattr(spending, "spending", found := Spending(Clock()))
    under_way, most = Counter[str](), Counter[str]()
    all_there = threading.Barrier(AT_ONCE, timeout=60)

    def long(question: dict[str, Any]) -> str:
        visitor = question["address"]
        under_way[visitor] += 1
        most[visitor] = max(most[visitor], under_way[visitor])
        if visitor == "one":
            all_there.wait()
        under_way[visitor] -= 1
        found.add(visitor, MOST_SECONDS)
        return "answered"

    async def burst() -> tuple[list[Any], Any]:
        greedy = [counted(long, {"address": "one"}) for _ in range(3 * AT_ONCE)]
        *answers, other = await asyncio.gather(*greedy, counted(long, {"address": "another"}))
        return answers, other

    answers, other = awaited(burst())
    assert most["one"] == AT_ONCE and other == "answered"
    assert answers == ["answered"] * AT_ONCE + [{"error": TOO_MUCH}] * 2 * AT_ONCE
