"""Work that runs repeatedly on the same tensors can be captured as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from specviz.models.graphs.captured_work import CapturedWork, GraphSet
from tests.devices import DEVICES


@pytest.mark.parametrize("name", DEVICES)
def test_every_call_reads_the_current_values_and_overwrites_the_last_result(name: str) -> None:
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
def test_graphs_of_one_set_do_not_change_each_other_s_results(name: str) -> None:
    device = torch.device(name)
    place, graphs = torch.ones(1000, device=device), GraphSet(device)
    replays = [CapturedWork(lambda n=n: (place + n + place * n,), graphs) for n in range(4)]
    results = [replay()[0] for replay in replays]
    for n in (2, 0, 3, 1, 2):
        replays[n]()
    assert [result[0].item() for result in results] == [1, 3, 5, 7]


def test_work_that_cannot_be_captured_still_runs_and_the_failure_is_reported(
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
    """A substitute for torch.cuda that records the order of the calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing_end: bool = False) -> None:
        self.calls: list[str] = []
        self.pools: list[Any] = []  # the memory pools of the started captures
        self.left: list[Any] = []  # the memory pools of the failed captures
        self.streams = 0
        self.current: Any = self.stream_of("usual")
        machine = self

        class Graph:
            def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
                machine.calls.append(f"begin on {machine.current.name}")
                machine.pools.append(pool)

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
        leave = "specviz.models.graphs.captured_work._leave_pool"
        monkeypatch.setattr(leave, lambda device, pool: self.left.append(pool))

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
    assert machine.calls == [*warm, "synchronize", "clear", *captured, "clear"]


def test_each_set_of_graphs_is_captured_on_its_own_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    ours, theirs = GraphSet(CUDA), GraphSet(CUDA)
    for graphs in (ours, theirs, ours):
        CapturedWork(machine.work, graphs)
    begun = [call for call in machine.calls if call.startswith("begin")]
    assert begun == ["begin on stream 1", "begin on stream 2", "begin on stream 1"]


@pytest.mark.parametrize("fails", ["end", "work"])
def test_a_failed_capture_restores_the_current_stream(
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


def failing(machine: Machine, error: Exception, times: int) -> Callable[[], tuple[torch.Tensor]]:
    """Return work that fails during its first `times` captures."""
    left = iter(range(times))

    def work() -> tuple[torch.Tensor]:
        is_captured = machine.calls[-1:] and machine.calls[-1].startswith("begin")
        if is_captured and next(left, None) is not None:
            raise error
        machine.work()
        return (torch.ones(1),)

    return work


def test_a_failed_capture_reports_its_first_error(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, failing_end=True)
    with pytest.warns(UserWarning, match="not as a graph: the work itself failed"):
        captured = CapturedWork(
            failing(machine, RuntimeError("the work itself failed"), 1), GraphSet(CUDA)
        )
    assert captured()[0].item() == 1


def test_the_pool_of_a_failed_capture_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    graphs = GraphSet(CUDA)
    with pytest.warns(UserWarning, match="not as a graph"):
        CapturedWork(failing(machine, RuntimeError("no"), 1), graphs)
    CapturedWork(machine.work, graphs)
    CapturedWork(machine.work, graphs)
    first, second, third = machine.pools
    assert machine.left == [first] and second is not first and third is second
    begun = [call for call in machine.calls if call.startswith("begin")]
    assert begun == ["begin on stream 1", "begin on stream 2", "begin on stream 2"]


def test_a_capture_without_enough_memory_is_repeated_after_freeing_reserved_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    CapturedWork(failing(machine, torch.OutOfMemoryError("full"), 1), GraphSet(CUDA))
    assert machine.calls.count("empty_cache") == 1
    assert [call for call in machine.calls if call == "end"] == ["end", "end"]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_graph_gives_the_same_result_after_another_was_deleted() -> None:
    device, weight = torch.device("cuda"), torch.randn(512, 512, device="cuda")
    place = torch.randn(16, 512, device=device)
    kept = CapturedWork(lambda: (place @ weight,), GraphSet(device))
    gone = CapturedWork(lambda: (place @ weight.t(),), GraphSet(device))
    gone()
    del gone
    # New tensors overwrite the memory that the deleted work has freed.
    _ = [torch.full((1 << 20,), 7.0, device=device) for _ in range(8)]
    place.fill_(0.5)
    assert torch.allclose(kept()[0], place @ weight, rtol=1e-4, atol=1e-4)
