"""A benchmark's passes: their order, what counts in them, and the time that is left."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from specviz.experiments.benchmark.benchmark import Benchmark, BenchmarkStep, Plan
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.metrics import acceptance_rate, block_efficiency
from specviz.models.pair_catalog import pair_named
from specviz.prompts import held_out_prompts
from specviz.records import SPECULATIVE, DecodingConfig, Round

PEER = "generate(assistant_model)"
ORDER = ["baseline", "draft-model", "generate()", PEER]
PLAN = Plan(
    *(pair_named("bundled"), ("code",), ("draft-model",), (4,)),
    max_new_tokens=12,
    prompts=2,
    device="cpu",
    peers=(PEER,),
)


@pytest.fixture(scope="module")
def measured() -> tuple[list[BenchmarkStep], dict[str, dict[str, Any]]]:
    """All steps, and the rows by their names."""
    measuring = Benchmark(PLAN)
    steps = list(measuring)
    return steps, {row["method"]: row for row in measuring.result()["rows"]}


Measured = tuple[list[BenchmarkStep], dict[str, dict[str, Any]]]


def test_every_other_pass_is_reversed_and_only_the_planned_peers_run(measured: Measured) -> None:
    steps, rows = measured
    passes = groupby(steps, key=lambda step: (step.seconds_left is None, step.repeat))
    assert [[step.doing for step in each] for _, each in passes] == [ORDER, ORDER, ORDER[::-1]]
    assert list(rows) == ORDER and {len(row["rates"]) for row in rows.values()} == {2}


def test_the_time_left_is_that_of_all_passes(measured: Measured) -> None:
    steps, _ = measured
    lefts = [step.seconds_left for step in steps if step.seconds_left is not None]
    assert len(lefts) == 8 and min(lefts[:-1]) > 0 and lefts[-1] == 0


def test_a_warm_up_does_not_count(measured: Measured) -> None:
    _, rows = measured
    texts = held_out_prompts("code")[:2]
    one, other = (rounds(text) for text in texts)
    both = one + other
    assert acceptance_rate(one + both) != acceptance_rate(both)  # the warm-up is of the first
    assert rows["draft-model"]["acceptance_rate"] == pytest.approx(acceptance_rate(both))
    assert rows["draft-model"]["block_efficiency"] == pytest.approx(block_efficiency(both))
    assert rows["generate()"]["block_efficiency"] == 1


def rounds(text: str) -> list[Round]:
    config = DecodingConfig(draft_length=4, max_new_tokens=12)
    race = start_race(RaceRequest(PLAN.pair, text, config, "code", "cpu"))
    return [each for each in race.run_lane(SPECULATIVE) if isinstance(each, Round)]
