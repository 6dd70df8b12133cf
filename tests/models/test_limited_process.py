"""A process with limits returns an answer, or ends because it has reached a limit."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.models.limited_process import Limits, NoAnswer, ask_limited, children_seconds

LIMITS = Limits(seconds=20, memory=500_000_000)


def ask(name: str, question: Any = None, limits: Limits = LIMITS) -> Any:
    return ask_limited(f"tests.models.limited_work:{name}", question, limits)


def test_the_answer_is_the_function_s_result_whatever_it_prints() -> None:
    assert ask("echo", {"a": [1, None, "é"]}) == {"a": [1, None, "é"]}


def test_the_process_has_limits_and_cannot_use_the_hub() -> None:
    memory, seconds, core = ask("limits")
    assert LIMITS.memory < memory < 2**33
    assert LIMITS.seconds <= seconds <= LIMITS.seconds + 5 and core == 0
    assert ask("offline") is True


@pytest.mark.parametrize("name", ["abort", "fail", "unheard_of"])
def test_a_process_that_dies_gives_no_answer(name: str) -> None:
    with pytest.raises(NoAnswer):
        ask(name)


def test_a_process_that_needs_too_much_memory_gives_no_answer() -> None:
    assert ask("fill_memory", 10**6) == 10**6
    with pytest.raises(NoAnswer):
        ask("fill_memory", 10**9)
    with pytest.raises(NoAnswer):
        ask("sleep", 600, Limits(20, 10**9, wait=1.0))


def test_an_endless_process_is_ended_and_its_time_is_known() -> None:
    before = children_seconds()
    with pytest.raises(NoAnswer):
        ask("work", limits=Limits(1, 10**9))
    assert children_seconds() - before >= 1
