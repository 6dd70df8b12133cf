"""The reading limit: memory bandwidth is measured once, and the bytes of a step are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
import torch

from specviz.models import reading_limit as measuring
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.reading_limit import measured_bandwidth, read_bandwidth, reading_limit
from tests.models.conftest import VOCAB, build_module, describe

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure with a few kilobytes, and forget all measured limits."""
    monkeypatch.setattr(measuring, "READ_BYTES", 8000)
    monkeypatch.setattr(measuring, "_limits", {})


def _fake_seconds(monkeypatch: pytest.MonkeyPatch, seconds: Iterator[float]) -> list[object]:
    """Make each reading of memory seem to take the next number of `seconds`.

    The readings run as usual. Return the list that receives the result of each reading, its sum.
    """
    results: list[object] = []

    def timed(read: Callable[[], object], device: torch.device) -> float:
        results.append(read())
        return next(seconds)

    monkeypatch.setattr(measuring, "_seconds", timed)
    return results


def test_the_limit_comes_from_the_fastest_reading_and_not_from_the_median(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = [4.0] * 12
    times[7] = 2.0
    _fake_seconds(monkeypatch, iter(times))
    assert measured_bandwidth(CPU) == 8000 / 2.0


def test_every_reading_covers_the_whole_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    results = _fake_seconds(monkeypatch, (1.0 for _ in count()))
    measured_bandwidth(CPU)
    ones = 2000  # the sum of 2,000 float32 numbers that are 1
    pair = 0x3F800000_3F800000  # two float32 numbers that are 1, read as one integer
    expected = [ones, 1, ones, (ones // 2) * pair - 2**64 * ((ones // 2) * pair // 2**64)]
    found = [int(each) for each in results]  # type: ignore[call-overload]
    assert [each % 2**64 for each in found] == expected * measuring.READS


def test_a_device_is_measured_once_per_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speeds, threads = iter([10.0, 20.0]), [2]
    monkeypatch.setattr(measuring, "measured_bandwidth", lambda device: next(speeds))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[0])
    assert [read_bandwidth(CPU), read_bandwidth(CPU)] == [10.0, 10.0]
    threads[0] = 1
    assert [read_bandwidth(CPU), read_bandwidth(CPU)] == [20.0, 20.0]


def test_with_little_free_memory_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "free_bytes", lambda device: 4 * 8000 - 1)
    assert measured_bandwidth(CPU) is None and read_bandwidth(CPU) is None
    assert reading_limit(_model("llama")) is None
    # If the system does not report its free memory, the bandwidth is measured.
    monkeypatch.setattr(measuring, "free_bytes", lambda device: None)
    assert measured_bandwidth(CPU) is not None


def _model(family: str, kind: Callable[..., LanguageModel] = LibraryModel) -> LanguageModel:
    module = build_module(family)
    return kind(module, describe(module))


@pytest.mark.parametrize("kind", [LlamaModel, LibraryModel])
@pytest.mark.parametrize(("family", "is_tied"), [("llama", True), ("llama-grouped", False)])
def test_a_step_reads_every_weight_except_a_separate_input_embedding(
    kind: Callable[..., LanguageModel],
    family: str,
    is_tied: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measuring, "measured_bandwidth", lambda device: 1e9)
    model = _model(family, kind)
    idle = 0 if is_tied else VOCAB * model.info.hidden_size
    found = reading_limit(model)
    assert found is not None and found.bytes_per_second == 1e9
    assert found.step_bytes == 4 * (model.info.parameters - idle)
    assert found.step_seconds == found.step_bytes / 1e9


def test_the_bytes_that_a_mixture_of_experts_reads_per_step_are_unknown() -> None:
    assert reading_limit(_model("mixtral")) is None


def test_an_object_that_is_no_known_model_has_no_limit() -> None:
    assert reading_limit(object()) is None
