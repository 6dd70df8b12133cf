"""A weight matrix gets its kernel by measured times, by rules, or from a saved file."""

from __future__ import annotations

import json
import os
import pickle
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F

from specviz.environment import Environment
from specviz.models.matrix_kernels import (
    kernel,
    kernel_candidates,
    measuring,
    remembered,
    settling,
)
from specviz.models.matrix_kernels.choice import (
    FEW,
    FIRST_ROWS,
    Choice,
    MatrixKind,
    by_rule,
    chosen,
)
from specviz.models.matrix_kernels.kernel_candidates import BY_NAME, KernelCandidate, offered
from specviz.models.matrix_kernels.measuring import measure
from specviz.models.matrix_kernels.projection import Projection, int4, int8
from specviz.models.matrix_kernels.weights import MatrixShape

CLASSES = len(FIRST_ROWS)
KIND = MatrixKind("float32", "float32", 64, 32, 1, False)


def flat(seconds: float) -> tuple[float, ...]:
    return (seconds,) * CLASSES


def test_the_fastest_layout_is_chosen() -> None:
    times = {"linear": flat(3.0), "onednn-16": flat(2.0), "compiled": flat(1.0)}
    assert chosen(times, 2, is_rounded=False).names == ("compiled",) * CLASSES


@pytest.mark.parametrize(
    ("main", "gain", "is_held"),
    [
        *(("onednn-16", 1.1, False), ("onednn-16", 1.3, True)),
        # The gain must be larger here: with "linear" for one row, not all layers run in one call.
        *(("compiled", 1.4, False), ("compiled", 1.6, True)),
    ],
)
def test_a_second_layout_is_stored_only_if_it_pays(main: str, gain: float, is_held: bool) -> None:
    times = {"linear": (1.0, 3.0, 3.0, 3.0, 3.0), main: (gain, 1.0, 1.0, 1.0, 1.0)}
    found = chosen(times, most_layouts=2, is_rounded=False)
    assert (found.names[0] == "linear") is is_held
    assert found.names[1:] == (main,) * (CLASSES - 1)
    alone = chosen(times, most_layouts=1, is_rounded=False)
    assert alone.names == (main,) * CLASSES


def test_a_prompt_must_be_twice_as_slow_to_justify_a_second_layout() -> None:
    for gain, expected in ((1.9, "compiled"), (2.1, "onednn-16")):
        times = {"compiled": flat(1.0), "onednn-16": (*[9.0] * FEW, 1 / gain)}
        assert chosen(times, 2, is_rounded=False).names[-1] == expected


def test_one_kernel_for_all_few_row_classes_is_preferred_if_it_is_nearly_the_best() -> None:
    times = {"linear": (1.0, 2.0, 2.0, 2.0, 2.0), "mm": (1.04, 1.9, 1.9, 1.9, 1.9)}
    assert chosen(times, 1, is_rounded=False).names == ("mm",) * CLASSES


def test_the_kernel_whose_layers_run_in_one_call_is_preferred_if_it_is_nearly_the_best() -> None:
    """Only with the kernel "compiled" can all layers run in one call.

    So another kernel must save more than its separate calls cost, and more than the measured times
    vary.
    """
    for time, first in ((0.9, "compiled"), (0.7, "mm")):
        times = {"compiled": flat(1.0), "mm": flat(time)}
        assert chosen(times, 2, is_rounded=False).names[0] == first
    small = {"compiled": flat(30e-6), "mm": flat(15e-6)}
    assert chosen(small, 2, is_rounded=False).names == ("compiled",) * CLASSES


def test_rounded_weights_have_one_kernel_for_all_few_row_classes() -> None:
    times = {"torch-int8": (1.0, 9.0, 9.0, 9.0, 9.0), "compiled": (2.0, 2.0, 2.0, 2.0, 2.0)}
    found = chosen(times, 2, is_rounded=True)
    assert len(set(found.names[:FEW])) == 1


@pytest.mark.parametrize("form", ["float32", "bfloat16", "float16", "int8", "int4"])
@pytest.mark.parametrize("size", [100, 100_000, 10_000_000])
def test_the_rules_name_a_kernel_that_the_machine_has(form: str, size: int) -> None:
    shape = MatrixShape(form, 100, 100, "cpu", size)
    rows = torch.float16 if form == "float16" else torch.float32
    names = {each.name for each in offered(shape, rows)}
    for only_plain in (True, False):
        assert set(by_rule(shape, rows, only_plain).names) <= names


def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove what torch lacks on some processors: oneDNN, its int8 kernels and LLVM."""
    monkeypatch.setattr(kernel, "llvm", None)
    monkeypatch.setattr(kernel_candidates, "_ONEDNN", None)
    monkeypatch.setattr(kernel_candidates, "_INT8", None)
    monkeypatch.setattr(kernel_candidates, "_INT4", None)
    kernel.registers.cache_clear()
    monkeypatch.setattr(torch._C, "_has_mkldnn", False)


@pytest.mark.parametrize("rows", [1, 6, 40])
def test_projections_work_with_a_torch_without_onednn_and_llvm(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(monkeypatch)
    try:
        weight, x = torch.randn(300, 96), torch.randn(rows, 96)
        for projection in (Projection(weight.clone()), int8(weight)):
            expected = F.linear(x, projection.weight)
            torch.testing.assert_close(projection(x), expected, rtol=1e-3, atol=1e-3)
        assert not offered(MatrixShape("int4", 8, 32, "cpu", 1), torch.float32)
        assert Projection(weight.bfloat16())(x.bfloat16()).dtype is torch.bfloat16
    finally:
        kernel.registers.cache_clear()


@pytest.mark.parametrize("name", [each.name for each in kernel_candidates.CANDIDATES])
def test_every_candidate_equals_linear_and_returns_its_weights(name: str) -> None:
    weight, x = torch.randn(61, 64), torch.randn(5, 64)
    for projection in (Projection(weight), int8(weight), int4(weight)):
        if BY_NAME[name] not in offered(projection.shape, projection.rows):
            continue
        before = projection.weight
        projection.adopt(Choice((name,) * CLASSES, {}))
        assert torch.equal(projection.weight, before)
        close = {"rtol": 2e-2, "atol": 2e-1} if projection.shape.form != "float32" else {}
        torch.testing.assert_close(projection(x), F.linear(x, before), **close)
        residual = torch.randn(5, 61)
        torch.testing.assert_close(projection.add_to(residual, x), residual + projection(x))


def test_a_pickled_projection_keeps_its_kernel_and_its_weights() -> None:
    projection = Projection(torch.randn(61, 64), torch.randn(61))
    projection.adopt(Choice(("linear", "mm", "mm", "mm", "mm"), {}), threads=2)
    again = pickle.loads(pickle.dumps(projection))
    x = torch.randn(3, 64)
    assert torch.equal(again(x), projection(x))
    assert (again.choice, again.threads) == (projection.choice, 2)


def test_the_size_counts_every_stored_layout() -> None:
    weight = torch.randn(48, 64)
    projection = Projection(weight)
    projection.adopt(Choice(("mm-transposed", *["linear"] * 4), {}))
    assert projection.bytes == 2 * weight.nbytes and projection.second_bytes == weight.nbytes
    shared = Projection(weight, is_shared=True)
    shared.adopt(Choice(("mm-transposed",) * CLASSES, {}))
    assert shared.bytes == 2 * weight.nbytes and shared.second_bytes == weight.nbytes


class PacedClock:
    """A clock that advances by a fixed number of seconds at each reading."""

    def __init__(self, pace: float) -> None:
        self._now, self._pace = 0.0, pace

    def __call__(self) -> float:
        self._now += self._pace
        return self._now


class SlowerClock:
    """A clock on which each call takes a tenth longer than the call before."""

    def __init__(self) -> None:
        self._now, self._pace = 0.0, 1.0

    def __call__(self) -> float:
        self._pace *= 1.1
        self._now += self._pace
        return self._now


def test_measuring_gives_each_candidate_a_time_for_each_number_of_rows() -> None:
    matrices = [Projection(torch.randn(48, 32)) for _ in range(2)]
    times = measure(matrices, offered(matrices[0].shape, torch.float32), clock=PacedClock(1.0))
    assert times is not None
    assert set(times) == {each.name for each in offered(matrices[0].shape, torch.float32)}
    assert all(each == pytest.approx((0.5,) * CLASSES) for each in times.values())


def test_times_from_a_busy_machine_are_not_used() -> None:
    matrix = Projection(torch.randn(48, 32))
    assert measure([matrix], offered(matrix.shape, matrix.rows), clock=SlowerClock()) is None


@pytest.mark.parametrize("deadline", range(5, 245, 30))
def test_measuring_stops_at_most_one_candidate_after_its_deadline(deadline: int) -> None:
    """Each reading of the clock takes a second; each class of row counts needs two readings."""
    matrix, clock = Projection(torch.randn(48, 32)), PacedClock(1.0)
    # All candidates have equal times, so none is dropped before the deadline.
    candidates = offered(matrix.shape, matrix.rows)[1:]
    assert measure([matrix], candidates, deadline, clock) is None
    assert clock() <= deadline + 2 * CLASSES + 3


def test_an_empty_matrix_is_not_measured_in_part() -> None:
    empty = Projection(torch.empty(0, 64))
    assert measuring._sample([empty], 1) == ([empty], 1.0)


@pytest.mark.parametrize(
    ("count", "working_set", "free", "copied"),
    [
        # The measured matrices must exceed the working set of four matrices, so there are five.
        (8, 4.0, None, [640] * 5),
        # Half of the free memory is one matrix. The two candidates share it.
        (8, 4.0, 2.0, [320]),
        # Without free memory, the later passes measure the matrices that the first pass copied.
        (8, 4.0, 0.0, []),
        (1, 0.2, None, [128]),
    ],
)
def test_a_candidate_copies_no_more_than_the_working_set_and_the_memory_allow(
    count: int,
    working_set: float,
    free: float | None,
    copied: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`working_set` and `free` are in matrices, `copied` in outputs of each copied matrix."""
    matrices = [Projection(torch.randn(640, 64)) for _ in range(count)]
    size = matrices[0].shape.bytes
    samples: list[list[int]] = []
    hold = measuring._held_by

    def held_by(candidate: Any, matrices: Any, weights: Any) -> Any:
        samples.append([each.shape.outputs for each in matrices])
        return hold(candidate, matrices, weights)

    memory = None if free is None else int(free * size)
    monkeypatch.setattr(measuring, "_held_by", held_by)
    monkeypatch.setattr(measuring, "FIRST_SET", size // 10)
    monkeypatch.setattr(measuring, "WORKING_SET", int(working_set * size))
    monkeypatch.setattr(measuring, "free_bytes", lambda device: memory)
    times = measure(matrices, [BY_NAME["linear"], BY_NAME["mm"]], clock=PacedClock(1.0))
    assert times is not None
    assert samples == [[64]] * 2 + ([copied] * 2 if copied else [])


def test_matrices_that_already_use_a_candidate_are_not_copied_for_its_measurement() -> None:
    matrix = Projection(torch.randn(48, 32))
    matrix.adopt(Choice(("linear", *["mm"] * FEW), {}))
    weights = [matrix.weights()]
    for name, is_copied in (("linear", False), ("mm", False), ("mm-transposed", True)):
        (held,) = measuring._held_by(BY_NAME[name], [matrix], weights)
        assert (held is not matrix.held(name)) is is_copied


def test_times_are_stored_for_later_processes(tmp_path: Path) -> None:
    times = {KIND: {"linear": flat(1e-3), "compiled": flat(2e-3)}}
    remembered.write_times(tmp_path, times)
    assert remembered.read_times(tmp_path) == times


def test_times_of_another_machine_or_version_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered.write_times(tmp_path, {KIND: {"linear": flat(1e-3)}})
    monkeypatch.setattr(remembered, "machine", lambda: "another processor")
    assert remembered.read_times(tmp_path) == {}


HOSTILE: list[Any] = [
    "text",
    [],
    {"machine": None},
    *(
        [{"matrix": matrix, "seconds": seconds}]
        for matrix, seconds in (
            (["float32", "float32", 64, 32, 1], {"linear": list(flat(1.0))}),
            (["float32", "float32", 64, 32, 1, 0], {"linear": list(flat(1.0))}),
            (["float32", "float32", 64, 32, -1, False], {"linear": list(flat(1.0))}),
            (["float32", "float32", 64, 32, True, False], {"linear": list(flat(1.0))}),
            ([[], "float32", 64, 32, 1, False], {"linear": list(flat(1.0))}),
            (["float32", "float32", 64, 32, 1, False], {"os.system": list(flat(1.0))}),
            (["float32", "float32", 64, 32, 1, False], {"linear": [1.0]}),
            (["float32", "float32", 64, 32, 1, False], {"linear": [1.0, 1.0, 1.0, 1.0, -1.0]}),
            (["float32", "float32", 64, 32, 1, False], {"linear": [1.0, 1.0, 1.0, 1.0, "1"]}),
            (["float32", "float32", 64, 32, 1, False], {"linear": [1e999] * CLASSES}),
            (["float32", "float32", 64, 32, 1, False], {}),
            (["float32", "float32", 64, 32, 1, False], []),
        )
    ),
]


@pytest.mark.parametrize("content", HOSTILE)
def test_a_hostile_file_is_ignored(content: Any, tmp_path: Path) -> None:
    is_matrices = isinstance(content, list) and content
    whole = {"machine": remembered.machine(), "matrices": content} if is_matrices else content
    (tmp_path / remembered.FILE).write_text(json.dumps(whole), encoding="utf-8")
    assert remembered.read_times(tmp_path) == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_instead_of_the_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / remembered.FILE)
    writer = threading.Timer(5, lambda: (tmp_path / remembered.FILE).write_text("late"))
    writer.start()  # if the reader waits for data in the pipe, this write ends its wait after 5 s
    assert remembered.read_times(tmp_path) == {}
    assert writer.is_alive()
    writer.cancel()


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 99_999, b" " * (2 << 20)])
def test_a_broken_file_is_ignored(data: bytes, tmp_path: Path) -> None:
    (tmp_path / remembered.FILE).write_bytes(data)
    assert remembered.read_times(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    remembered.write_times(tmp_path / "file" / "folder", {KIND: {"linear": flat(1.0)}})


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_known", {})


def test_a_small_model_is_not_measured(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "measure", lambda *_: pytest.fail("it was measured"))
    projection = Projection(torch.randn(48, 32))
    settling.settle([projection], Environment(cache_folder=tmp_path))
    assert projection.choice is not None and not projection.choice.is_measured


def test_a_large_model_is_measured_once_and_its_times_are_stored(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def measured(matrices: Any, candidates: Any, deadline: float) -> dict[str, Any]:
        calls.append(len(matrices))
        names = [each.name for each in candidates]
        return {name: flat(1.0 if name == "mm" else 2.0) for name in names}

    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", measured)
    environment = Environment(cache_folder=tmp_path)
    projections = [Projection(torch.randn(48, 32)) for _ in range(3)]
    settling.settle(projections, environment)
    settling.settle(projections, environment)
    assert calls == [3]
    assert all(each.choice and each.choice.names == ("mm",) * CLASSES for each in projections)
    monkeypatch.setattr(settling, "_known", {})  # simulates a new process
    again = Projection(torch.randn(48, 32))
    settling.settle([again], environment)
    assert calls == [3] and again.choice == projections[0].choice


def test_times_that_another_process_stores_change_no_choice_of_this_process(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured_best(best: str) -> Any:
        def measured(matrices: Any, candidates: Any, deadline: float) -> dict[str, Any]:
            names = [each.name for each in candidates]
            return {name: flat(1.0 if name == best else 2.0) for name in names}

        return measured

    def settled(outputs: int) -> Projection:
        projection = Projection(torch.randn(outputs, 32))
        settling.settle([projection], Environment(cache_folder=tmp_path))
        return projection

    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", measured_best("mm"))
    first = settled(48)
    with monkeypatch.context() as other_process:
        other_process.setattr(settling, "_known", {})
        other_process.setattr(settling, "measure", measured_best("linear"))
        (tmp_path / remembered.FILE).unlink()
        settled(48)
    settled(96)  # this process does not know a matrix of 96 inputs, so it reads the file
    assert settled(48).choice == first.choice


def test_matrices_without_time_are_measured_at_the_next_start(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def measured(matrices: Any, candidates: Any, deadline: float) -> dict[str, Any]:
        calls.append(matrices[0].shape.outputs)
        return {each.name: flat(1.0) for each in candidates}

    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", measured)
    for _ in range(2):
        monkeypatch.setattr(settling, "_known", {})
        projections = [Projection(torch.randn(rows, 32)) for rows in (48, 96)]
        settling.settle(projections, Environment(cache_folder=tmp_path), clock=PacedClock(5.0))
    # The first process measures the larger matrix, and the next process the other one.
    assert calls == [96, 48]


def test_a_disturbed_measurement_does_not_discard_the_others(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(matrices: Any, candidates: Any, deadline: float) -> dict[str, Any] | None:
        if matrices[0].shape.outputs == 96:
            return None
        return {each.name: flat(1.0) for each in candidates}

    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", measured)
    projections = [Projection(torch.randn(rows, 32)) for rows in (96, 48)]
    settling.settle(projections, Environment(cache_folder=tmp_path))
    choices = [each.choice for each in projections]
    assert [choice and choice.is_measured for choice in choices] == [False, True]
    assert len(remembered.read_times(tmp_path)) == 1


def test_on_a_busy_machine_the_rules_decide(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", lambda *_: None)
    projection = Projection(torch.randn(48, 32))
    settling.settle([projection], Environment(cache_folder=tmp_path))
    assert projection.choice is not None and not projection.choice.is_measured
    assert not (tmp_path / remembered.FILE).exists()


def test_a_kernel_does_not_change_after_it_was_chosen(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", lambda *_: calls.append(1))
    projection = Projection(torch.randn(48, 32))
    for _ in range(3):
        settling.settle([projection], Environment(cache_folder=tmp_path))
    assert calls == [1]


def test_with_little_memory_each_matrix_is_stored_once(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(matrices: Any, candidates: Any, deadline: float) -> dict[str, Any]:
        fast = {"linear": (1.0, 9.0, 9.0, 9.0, 9.0), "mm-transposed": (2.0, *[1.0] * 4)}
        slow = (2.0, 9.0, 9.0, 9.0, 9.0)
        return {each.name: fast.get(each.name, slow) for each in candidates}

    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", measured)
    held = []
    for small in (True, False):
        made = [Projection(torch.randn(48, 32), is_shared=shared) for shared in (False, True)]
        settling.settle(made, Environment(cache_folder=tmp_path, small_memory=small))
        held.append([each.second_bytes > 0 for each in made])
    assert held == [[False, False], [True, True]]


@pytest.mark.parametrize("is_small", [True, False])
def test_with_little_memory_the_rules_also_store_each_matrix_once(
    is_small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "llvm", None)
    kernel.registers.cache_clear()
    try:
        projection = Projection(torch.randn(256, 256))
        has_second = {"mm-transposed", "onednn-16"} <= {
            each.name for each in offered(projection.shape, projection.rows)
        }
        environment = Environment(cache_folder=tmp_path, small_memory=is_small)
        settling.settle([projection], environment)
        assert projection.second_bytes == (0 if is_small else has_second * 256 * 256 * 4)
    finally:
        kernel.registers.cache_clear()


def test_a_matrix_that_may_not_be_copied_is_measured_only_with_plain_kernels(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy for a measurement takes as much memory as the copy that the user forbids.

    Kernels in other layouts would also decide which plain kernels are measured only once.
    """
    calls: list[set[str]] = []

    def measured(matrices: Any, candidates: Any, deadline: float) -> dict[str, Any]:
        calls.append({each.layout for each in candidates})
        return {each.name: flat(1.0 if each.name == "mm" else 2.0) for each in candidates}

    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", measured)
    weight = torch.randn(48, 32)
    kept, copied = Projection(weight, is_shared=True, may_copy=False), Projection(weight)
    for projection in (kept, copied):  # the stored times of `kept` and of `copied` both remain
        settling.settle([projection], Environment(cache_folder=tmp_path))
        assert projection.choice is not None and projection.choice.is_measured
    assert calls[0] == {"plain"} and len(calls) == 2 and calls[1] > calls[0]
    assert kept.choice and kept.choice.names == ("mm",) * CLASSES
    assert len(remembered.read_times(tmp_path)) == 2


def test_stored_times_of_other_candidates_are_measured_again(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same versions of all packages, torch may offer fewer kernels.

    An environment variable that limits oneDNN has this effect.
    """
    projection = Projection(torch.randn(48, 32))
    kind = MatrixKind.of(projection.shape, projection.rows, torch.get_num_threads(), False)
    remembered.write_times(tmp_path, {kind: {"linear": flat(1.0)}})
    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(
        settling, "measure", lambda _, candidates, __: {c.name: flat(1.0) for c in candidates}
    )
    settling.settle([projection], Environment(cache_folder=tmp_path))
    assert projection.choice is not None and projection.choice.is_measured
    assert len(remembered.read_times(tmp_path)[kind]) > 1


def test_times_that_another_process_stores_during_a_measurement_are_kept(
    nothing_known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {KIND: {"linear": flat(1.0)}}

    def measured(matrices: Any, candidates: Any, deadline: float) -> dict[str, Any]:
        remembered.write_times(tmp_path, other)
        return {each.name: flat(1.0) for each in candidates}

    monkeypatch.setattr(settling, "LEAST_BYTES", 1)
    monkeypatch.setattr(settling, "measure", measured)
    settling.settle([Projection(torch.randn(48, 32))], Environment(cache_folder=tmp_path))
    stored = remembered.read_times(tmp_path)
    assert len(stored) == 2 and stored[KIND] == other[KIND]


@pytest.mark.parametrize(
    ("seconds", "stays"),
    [
        (flat(1.0), False),  # this kernel needs separate calls, which take more time than it saves
        ((0.9, *[2.0] * FEW), True),
        ((*[2.0] * FEW, 0.6), False),  # for prompts, another layout must be twice as fast to stay
        ((*[2.0] * FEW, 0.4), True),
    ],
)
def test_only_a_candidate_that_may_displace_the_one_call_stays(
    seconds: tuple[float, ...], stays: bool
) -> None:
    held: dict[str, Any] = {"compiled": (), "linear": ()}
    measuring._drop(held, {"compiled": flat(1.0), "linear": seconds}, slow=1.2)
    assert ("linear" in held) is stays and "compiled" in held


def test_without_the_one_call_the_candidates_near_the_fastest_stay() -> None:
    passes = {"linear": flat(1.0), "mm": flat(1.3), "onednn": (9.0, 1.1, *[9.0] * (CLASSES - 2))}
    held: dict[str, Any] = dict.fromkeys(passes, ())
    measuring._drop(held, passes, slow=1.2)
    assert list(held) == ["linear", "onednn"]


@pytest.mark.parametrize("disturbed", ["mm", "linear"])
def test_one_disturbed_pass_does_not_change_the_fastest_candidate(disturbed: str) -> None:
    """Other work makes the first pass of one candidate 2.4 times as long."""
    now, calls = 0.0, {"mm": 0, "linear": 0}

    def timed(name: str, seconds: float) -> KernelCandidate:
        def multiply(x: torch.Tensor, added: torch.Tensor | None) -> torch.Tensor:
            nonlocal now
            calls[name] += 1
            # The first FEW calls of a matrix are not measured.
            is_disturbed = name == disturbed and FEW < calls[name] <= FEW + CLASSES
            now += seconds * (2.4 if is_disturbed else 1.0)
            return x

        return KernelCandidate(name, "plain", lambda *_: True, lambda _: cast(Any, multiply))

    candidates = [timed("mm", 1.0), timed("linear", 1.5)]
    times = measure([Projection(torch.randn(48, 32))], candidates, clock=lambda: now)
    assert times is not None and times["mm"] == flat(1.0)
    assert all(each >= 1.5 for each in times["linear"])


def test_a_dropped_candidate_does_not_win_by_a_time_from_a_cache() -> None:
    """The first pass has few matrices, which may be in a cache; the later passes have many."""
    before = {"compiled": flat(1.0), "mm": flat(1.6)}
    times = measuring._with_dropped(before, {"compiled": flat(2.0)})
    assert times == {"compiled": flat(2.0), "mm": flat(3.2)}
    assert measuring._with_dropped(before, {"compiled": flat(0.9)})["mm"] == flat(1.6)
