"""Work that is done again, in the same places."""

from __future__ import annotations

import pytest
import torch

from specviz.models.graphs.captured_work import CapturedWork, graph_pool
from tests.devices import DEVICES


@pytest.mark.parametrize("name", DEVICES)
def test_every_call_reads_what_stands_there_now_and_writes_over_the_last_result(name: str) -> None:
    device = torch.device(name)
    place = torch.ones(3, device=device)
    replay = CapturedWork(lambda: (place * 2, place + 1), device, graph_pool(device))
    (doubled, _) = replay()
    assert doubled.tolist() == [2, 2, 2]
    place.fill_(5)
    (again, raised) = replay()
    assert raised.tolist() == [6, 6, 6]
    assert again.data_ptr() == doubled.data_ptr() and doubled.tolist() == [10, 10, 10]


@pytest.mark.parametrize("name", DEVICES)
def test_recordings_of_one_pool_leave_each_others_results_alone(name: str) -> None:
    device = torch.device(name)
    place, pool = torch.ones(1000, device=device), graph_pool(device)
    replays = [CapturedWork(lambda n=n: (place + n + place * n,), device, pool) for n in range(4)]
    results = [replay()[0] for replay in replays]
    for n in (2, 0, 3, 1, 2):
        replays[n]()
    assert [result[0].item() for result in results] == [1, 3, 5, 7]


def test_work_that_cannot_be_captured_is_done_as_ever_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("specviz.models.graphs.captured_work._captured", refuse)
    place = torch.ones(3)
    with pytest.warns(UserWarning, match="kernel by kernel, not as a graph: operation not"):
        replay = CapturedWork(lambda: (place * 2,), torch.device("cuda"))
    place.fill_(4)
    assert replay()[0].tolist() == [8, 8, 8]
