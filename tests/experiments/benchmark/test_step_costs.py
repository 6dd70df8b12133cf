"""What one token costs: measured side by side, and nothing of it is counted twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from specviz.cli import main
from specviz.experiments.benchmark import step_costs as measuring
from specviz.experiments.benchmark.peers import load_library_model
from specviz.experiments.benchmark.step_costs import (
    CONTEXT,
    library_step,
    read_bandwidth,
    step_cost,
)
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair

CPU = torch.device("cpu")
GOALS = {"bundled target": 0.8, "bundled draft": 0.45}  # of the library's time


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for what is no matter of a few per cent."""
    monkeypatch.setattr(measuring, "WARM_UP_STEPS", 2)
    monkeypatch.setattr(measuring, "STEPS", 8)


def test_the_shares_make_a_whole_and_the_products_are_the_greatest_of_the_operations(
    few_steps: None,
) -> None:
    pair = pair_named("bundled")
    target = load_pair(pair, "cpu").target
    greatest = ""
    for _ in range(4):  # other work on the machine may hold up any of them
        if greatest != "products":
            cost = step_cost(target, pair.target, "float32", 1, 1e9)
            operations = {kind: each for kind, each in cost.shares.items() if kind != "between"}
            greatest = max(operations, key=lambda kind: operations[kind])
    assert sum(cost.shares.values()) == pytest.approx(1) and greatest == "products"
    assert cost.read_seconds == cost.bytes / 1e9 == 4 * target.info.parameters / 1e9
    assert cost.ratio == pytest.approx(cost.own_seconds / cost.library_seconds)
    assert cost.eager_seconds is None  # nothing is recorded on a processor


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_recorded_steps_on_cuda_take_less_time_than_their_kernels_one_by_one() -> None:
    pair = pair_named("bundled")
    draft = load_pair(pair, "cuda").parts.draft
    assert draft is not None
    cost = step_cost(draft, pair.draft, "float32", 2, 1e12)
    assert cost.eager_seconds is not None and cost.own_seconds < cost.eager_seconds


def test_every_step_of_the_library_has_the_same_tokens_before_it() -> None:
    pair = pair_named("bundled")
    module = load_library_model(pair.draft, CPU, "float32")
    step = library_step(module, load_pair(pair, "cpu").target)
    before: list[int] = []

    def look(_: object, __: object, given: dict[str, Any]) -> None:
        before.append(given["past_key_values"].get_seq_length())

    module.register_forward_pre_hook(look, with_kwargs=True)
    for _ in range(4):
        step()
    assert before == [CONTEXT] * 4


def test_the_speed_of_memory_is_that_of_memory_and_of_no_disk_or_cache() -> None:
    assert 1e8 < read_bandwidth(CPU) < 1e12


def test_the_command_prints_one_object_of_both_models(
    few_steps: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["steps", "--device", "cpu", "--repeat", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert [each["model"] for each in result["models"]] == list(GOALS)
    assert result["context"] == CONTEXT and "profiler" not in err


def test_a_target_alone_is_timed_alone(few_steps: None, capsys: pytest.CaptureFixture[str]) -> None:
    target = pair_named("bundled").target
    assert main(["steps", "--target", target, "--device", "cpu", "--repeat", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["models"]) == 1 and result["pair"] == "custom"


def test_a_repeat_out_of_range_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["steps", "--repeat", "0"]) == 2
    assert "repeat must be from 1 to 100, got 0" in capsys.readouterr().err


@pytest.mark.slow
def test_our_forward_takes_a_good_part_less_than_the_librarys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["steps", "--device", "cpu", "--repeat", "8", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    print({each["model"]: each["ratio"] for each in models})
    for each in models:
        assert each["ratio"] <= GOALS[each["model"]]
