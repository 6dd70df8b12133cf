"""A benchmark's passes: their order, what counts in them, and the time that is left."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from specviz.decoding.batch_options import BatchOptions
from specviz.errors import InputError
from specviz.experiments.benchmark.batch_benchmark import batch_benchmark
from specviz.experiments.benchmark.benchmark import Benchmark, BenchmarkStep, Plan, _contenders
from specviz.experiments.benchmark.benchmark import benchmark as run_benchmark
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.metrics import acceptance_rate, block_efficiency
from specviz.models.pair_catalog import custom_pair, pair_named
from specviz.prompts import held_out_prompts
from specviz.records import SPECULATIVE, DecodingConfig, Round
from tests.chat_folder import BUNDLED_DRAFT

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
    both, longer = one + other, one if len(texts[0]) > len(texts[1]) else other
    assert acceptance_rate(longer[:5] + both) != acceptance_rate(both)  # else it would not show
    assert rows["draft-model"]["acceptance_rate"] == pytest.approx(acceptance_rate(both))
    assert rows["draft-model"]["block_efficiency"] == pytest.approx(block_efficiency(both))
    assert rows["generate()"]["block_efficiency"] == 1


def test_a_warm_up_is_of_a_few_steps() -> None:
    contenders = _contenders(PLAN, "code", None)
    for contender in contenders:
        short = contender.run(held_out_prompts("code")[0], 3)
        assert short < contender.run(held_out_prompts("code")[0], None) == 12


def test_methods_that_the_pair_lacks_are_left_out_and_named() -> None:
    twins = custom_pair(str(BUNDLED_DRAFT), str(BUNDLED_DRAFT))
    plan = replace(PLAN, pair=twins, methods=("medusa", "prompt-lookup"), peers=(), repeats=1)
    measuring = Benchmark(plan)
    assert {step.doing for step in measuring} == {"baseline", "prompt-lookup", "generate()"}
    (refusal,) = measuring.result()["refusals"]
    assert refusal["method"] == "medusa" and "has no Medusa heads" in refusal["why"]
    with pytest.raises(InputError, match="methods must name one .* got medusa: pair .* has no Med"):
        list(Benchmark(replace(plan, methods=("medusa",))))


def test_a_prompt_without_room_for_the_output_is_named_before_anything_is_decoded() -> None:
    plan = replace(PLAN, tasks=(None,), texts=("one two", "x = 1\n" * 2000), temperature=0.7)
    said: list[str] = []
    named = "prompts are refused at number 2: prompt must have at most"
    with pytest.raises(InputError, match=named):
        run_benchmark(plan, said.append)
    with pytest.raises(InputError, match=named):
        batch_benchmark(plan, (1, 2), BatchOptions(), said.append)
    assert not said


def test_a_target_alone_is_measured_without_the_library_s_assistant() -> None:
    alone = custom_pair(str(BUNDLED_DRAFT), "")
    plan = replace(PLAN, pair=alone, methods=("prompt-lookup",), repeats=1, prompts=1)
    rows = run_benchmark(plan)["rows"]
    assert [row["method"] for row in rows] == ["baseline", "prompt-lookup", "generate()"]


def test_prompts_of_ones_own_take_the_place_of_the_tasks_and_time_left_is_told() -> None:
    said: list[str] = []
    texts = ("one two", "three four")
    plan = replace(PLAN, tasks=(None,), texts=texts, peers=(), repeats=1, max_new_tokens=4)
    rows = run_benchmark(plan, said.append)["rows"]
    assert {row["task"] for row in rows} == {None}
    assert said[1] == "warming up: your prompts, draft-model, K 4"
    assert said[-1] == "your prompts, generate(): pass 1 of 1, 0 s left"


def test_batches_leave_out_what_the_pair_lacks_too() -> None:
    plan = replace(
        PLAN, pair=custom_pair(str(BUNDLED_DRAFT), ""), methods=("medusa", "prompt-lookup")
    )
    plan = replace(plan, tasks=(None,), texts=("one two",), repeats=1, max_new_tokens=4)
    found = batch_benchmark(plan, (1, 2), BatchOptions())
    assert [(row["method"], row["batch_size"]) for row in found["rows"]] == [
        ("prompt-lookup", 1),
        ("prompt-lookup", 2),
    ]
    assert [each["method"] for each in found["refusals"]] == ["medusa"]


def rounds(text: str) -> list[Round]:
    config = DecodingConfig(draft_length=4, max_new_tokens=12)
    race = start_race(RaceRequest(PLAN.pair, text, config, "code", "cpu"))
    return [each for each in race.run_lane(SPECULATIVE) if isinstance(each, Round)]
