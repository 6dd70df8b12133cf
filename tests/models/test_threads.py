"""The target's size or the user decides the number of threads; one thread runs all decoding."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from specviz.environment import Environment
from specviz.models import threads
from specviz.models.threads import (
    SMALL_PARAMETERS,
    begin_in_decoding_thread,
    own_threads,
    use_threads,
)
from specviz.records import ModelInfo

SMALL = ModelInfo("small", "Any", SMALL_PARAMETERS - 1, 1, 1, 1, 1, 1)
LARGE = replace(SMALL, parameters=SMALL_PARAMETERS)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_small_target_runs_on_one_thread_and_a_large_one_on_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_EVERY_THREAD", 2)
    use_threads(LARGE, Environment())
    assert torch.get_num_threads() == 2
    use_threads(SMALL, Environment())
    assert torch.get_num_threads() == 1


def test_the_user_s_setting_decides_for_any_size() -> None:
    for target in (SMALL, LARGE):
        use_threads(target, Environment(threads=2))
        assert torch.get_num_threads() == 2


def steps(count: int, seen: list[int]) -> Iterator[int]:
    """Set the number of threads to `count`, as a loaded pair does; then run four steps."""
    torch.set_num_threads(count)
    try:
        for index in range(4):
            seen.append(torch.get_num_threads())
            yield index
    finally:
        seen.append(0)


def test_runs_that_take_turns_keep_their_own_number_of_threads() -> None:
    seen: dict[int, list[int]] = {1: [], 3: []}
    runs = [own_threads(steps(count, seen[count])) for count in seen]
    taken = [next(run) for _ in range(3) for run in runs]
    assert taken == [0, 0, 1, 1, 2, 2]
    runs[0].close()
    assert list(runs[1]) == [3]
    assert seen == {1: [1, 1, 1, 0], 3: [3, 3, 3, 3, 0]}


def test_all_calls_run_in_one_thread_and_a_failed_call_does_not_stop_it() -> None:
    def fail() -> None:
        raise ValueError("broken")

    asked = [begin_in_decoding_thread(threading.get_ident) for _ in range(3)]
    failed = begin_in_decoding_thread(fail)
    asked.append(begin_in_decoding_thread(threading.get_ident))
    assert len({each.result(20) for each in asked}) == 1
    with pytest.raises(ValueError, match="broken"):
        failed.result(20)
