"""Threads by size of the target, unless the environment chose; and one thread decodes."""

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from specviz.environment import Environment
from specviz.models import threads
from specviz.models.threads import SMALL_PARAMETERS, in_decoding_thread, use_threads
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


def test_the_setting_is_obeyed_whatever_the_size() -> None:
    for target in (SMALL, LARGE):
        use_threads(target, Environment(threads=2))
        assert torch.get_num_threads() == 2


def steps(seen: list[tuple[int, int]]) -> Generator[int, None, None]:
    """A run that chooses its threads at its beginning, as a loaded pair does."""
    torch.set_num_threads(3)
    try:
        for index in range(6):
            seen.append((threading.get_ident(), torch.get_num_threads()))
            yield index
    finally:
        seen.append((threading.get_ident(), torch.get_num_threads()))


def test_a_run_has_one_thread_and_one_count_whichever_thread_asks_for_its_next_step() -> None:
    pools = [ThreadPoolExecutor(1) for _ in range(3)]
    for pool in pools:
        pool.submit(torch.zeros(1).sum).result()  # each is there before the run begins
    seen: list[tuple[int, int]] = []
    run = in_decoding_thread(lambda: steps(seen))
    taken = [pools[index % 3].submit(next, run).result() for index in range(4)]
    pools[1].submit(run.close).result()
    assert taken == [0, 1, 2, 3] and len(seen) == 5
    assert len(set(seen)) == 1 and seen[0][1] == 3
    for pool in pools:
        pool.shutdown()


def test_what_a_run_raises_reaches_whoever_asked_and_the_next_run_goes_on() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise ValueError("broken")

    run = in_decoding_thread(failing)
    assert next(run) == 1
    with pytest.raises(ValueError, match="broken"):
        next(run)
    assert list(in_decoding_thread(lambda: steps([]))) == list(range(6))
