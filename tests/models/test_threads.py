"""Threads by size of the target, unless the environment chose."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from specviz.environment import Environment
from specviz.models import threads
from specviz.models.threads import SMALL_PARAMETERS, use_threads
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
