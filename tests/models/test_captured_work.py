"""Work that is done again, in the same places, and how it is captured as a CUDA graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from specviz.models.graphs.captured_work import CapturedWork, GraphSet
from tests.devices import DEVICES


@pytest.mark.parametrize("name", DEVICES)
def test_every_call_reads_what_stands_there_now_and_writes_over_the_last_result(name: str) -> None:
    device = torch.device(name)
    place = torch.ones(3, device=device)
    replay = CapturedWork(lambda: (place * 2, place + 1), GraphSet(device))
    (doubled, _) = replay()
    assert doubled.tolist() == [2, 2, 2]
    place.fill_(5)
    (again, raised) = replay()
    assert raised.tolist() == [6, 6, 6]
    assert again.data_ptr() == doubled.data_ptr() and doubled.tolist() == [10, 10, 10]


@pytest.mark.parametrize("name", DEVICES)
def test_graphs_of_one_set_leave_each_others_results_alone(name: str) -> None:
    device = torch.device(name)
    place, graphs = torch.ones(1000, device=device), GraphSet(device)
    replays = [CapturedWork(lambda n=n: (place + n + place * n,), graphs) for n in range(4)]
    results = [replay()[0] for replay in replays]
    for n in (2, 0, 3, 1, 2):
        replays[n]()
    assert [result[0].item() for result in results] == [1, 3, 5, 7]


def test_work_that_cannot_be_captured_is_done_as_ever_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(GraphSet, "capture", refuse)
    place = torch.ones(3)
    with pytest.warns(UserWarning, match="kernel by kernel, not as a graph: operation not"):
        replay = CapturedWork(lambda: (place * 2,), GraphSet(torch.device("cuda")))
    place.fill_(4)
    assert replay()[0].tolist() == [8, 8, 8]


class Machine:
    """Stands in for torch.cuda: says in which order it was asked for what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing_end: bool = False) -> None:
        self.calls: list[str] = []
        self.streams = 0
        self.current: Any = self.stream_of("usual")
        machine = self

        class Graph:
            def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
                machine.calls.append(f"begin on {machine.current.name}")

            def capture_end(self) -> None:
                machine.calls.append("end")
                if failing_end:
                    raise RuntimeError("operation not permitted when stream is capturing")

        @contextmanager
        def on(place: Any) -> Iterator[None]:
            yield

        def named() -> Any:
            self.streams += 1
            return self.stream_of(f"stream {self.streams}")

        monkeypatch.setattr(torch.cuda, "device", on)
        monkeypatch.setattr(torch.cuda, "stream", self.entered)
        monkeypatch.setattr(torch.cuda, "Stream", named)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: self.current)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: object())
        for name in ("synchronize", "empty_cache"):
            monkeypatch.setattr(torch.cuda, name, lambda name=name: self.calls.append(name))
        clear = "specviz.models.graphs.captured_work._clear_workspaces"
        monkeypatch.setattr(clear, lambda: self.calls.append("clear"))

    @staticmethod
    def stream_of(name: str) -> Any:
        return type("Stream", (), {"name": name, "wait_stream": lambda self, other: None})()

    @contextmanager
    def entered(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def work(self) -> tuple[torch.Tensor, ...]:
        self.calls.append(f"work on {self.current.name}")
        return (torch.ones(1),)


CUDA = torch.device("cuda")


def test_workspaces_are_cleared_right_before_and_after_a_capture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    CapturedWork(machine.work, GraphSet(CUDA))
    warm = ["work on stream 1"] * 2
    captured = ["begin on stream 1", "work on stream 1", "end"]
    assert machine.calls == [*warm, "synchronize", "clear", "empty_cache", *captured, "clear"]


def test_each_set_of_graphs_is_captured_on_one_stream_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    ours, theirs = GraphSet(CUDA), GraphSet(CUDA)
    for graphs in (ours, theirs, ours):
        CapturedWork(machine.work, graphs)
    begun = [call for call in machine.calls if call.startswith("begin")]
    assert begun == ["begin on stream 1", "begin on stream 2", "begin on stream 1"]


@pytest.mark.parametrize("fails", ["end", "work"])
def test_a_capture_that_fails_leaves_the_current_stream_as_it_was(
    monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    machine = Machine(monkeypatch, failing_end=fails == "end")
    usual = machine.current

    def work() -> tuple[torch.Tensor, ...]:
        if fails == "work" and any("begin" in call for call in machine.calls[-1:]):
            raise RuntimeError("not while capturing")
        return machine.work()

    with pytest.warns(UserWarning, match="kernel by kernel, not as a graph"):
        captured = CapturedWork(work, GraphSet(CUDA))
    assert machine.current is usual
    assert machine.calls.count("clear") == 2 and machine.calls[-1] == "work on usual"
    assert captured()[0].item() == 1


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_graph_gives_the_same_after_another_has_gone() -> None:
    device, weight = torch.device("cuda"), torch.randn(512, 512, device="cuda")
    place = torch.randn(16, 512, device=device)
    kept = CapturedWork(lambda: (place @ weight,), GraphSet(device))
    gone = CapturedWork(lambda: (place @ weight.t(),), GraphSet(device))
    gone()
    del gone
    _ = [torch.full((1 << 20,), 7.0, device=device) for _ in range(8)]  # takes what was freed
    place.fill_(0.5)
    assert torch.allclose(kept()[0], place @ weight, rtol=1e-4, atol=1e-4)
