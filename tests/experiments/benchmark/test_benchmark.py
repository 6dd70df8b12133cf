"""A benchmark runs its passes in the planned order and does not count its warm-up."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from specviz.decoding.batch_options import BatchOptions
from specviz.errors import InputError
from specviz.experiments.benchmark import benchmark
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
    repeats=2,
    device="cpu",
    peers=(PEER,),
)


@pytest.fixture(scope="module")
def measured() -> tuple[list[BenchmarkStep], dict[str, dict[str, Any]]]:
    """Return all steps of a measured benchmark, and its result rows by name."""
    measuring = Benchmark(PLAN)
    with pytest.MonkeyPatch.context() as patch:
        # On a busy machine, the measured times could make the benchmark add passes. Here it must
        # not.
        patch.setattr(Benchmark, "_is_disturbed", lambda self, task: False)
        steps = list(measuring)
    return steps, {row["method"]: row for row in measuring.result()["rows"]}


Measured = tuple[list[BenchmarkStep], dict[str, dict[str, Any]]]


def test_every_second_pass_is_reversed_and_only_the_planned_peers_run(measured: Measured) -> None:
    steps, rows = measured
    passes = groupby(steps, key=lambda step: (step.seconds_left is None, step.repeat))
    assert [[step.doing for step in each] for _, each in passes] == [ORDER, ORDER, ORDER[::-1]]
    assert list(rows) == ORDER and {len(row["rates"]) for row in rows.values()} == {2}


def test_the_remaining_time_covers_all_passes(measured: Measured) -> None:
    steps, _ = measured
    lefts = [step.seconds_left for step in steps if step.seconds_left is not None]
    assert len(lefts) == 8 and min(lefts[:-1]) > 0 and lefts[-1] == 0


def test_a_speedup_above_the_tokens_per_forward_gets_more_passes_and_a_remark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measuring = Benchmark(replace(PLAN, peers=(), repeats=1, prompts=1, max_new_tokens=8))
    baseline, draft, _ = measuring._contenders["code"]
    row = benchmark._row
    monkeypatch.setattr(benchmark, "_row", lambda *given: row(*given) | {"speedup": 9.0})
    # A speedup of 9 is impossible, because it exceeds the tokens per forward. The benchmark planned
    # one pass (repeat 0) and adds a second one (repeat 1), to measure the speedup again.
    assert {step.repeat for step in measuring} == {0, 1}
    # The method now seems a thousand times as fast as the baseline, so other work must have
    # disturbed the baseline.
    draft.seconds[0] = baseline.seconds[0] / 1000
    assert "disturbed" in row("code", draft, baseline)["remark"]
    assert row("code", baseline, baseline)["remark"] == ""


def test_the_warm_up_does_not_count(measured: Measured) -> None:
    _, rows = measured
    texts = held_out_prompts("code")[:2]
    one, other = (rounds(text) for text in texts)
    both, longer = one + other, one if len(texts[0]) > len(texts[1]) else other
    # The rounds of a warm-up would change the acceptance rate, so the test can see whether they
    # count.
    assert acceptance_rate(longer[:5] + both) != acceptance_rate(both)
    assert rows["draft-model"]["acceptance_rate"] == pytest.approx(acceptance_rate(both))
    assert rows["draft-model"]["block_efficiency"] == pytest.approx(block_efficiency(both))
    assert rows["generate()"]["block_efficiency"] == 1


def test_the_warm_up_takes_few_steps() -> None:
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
    with pytest.raises(InputError, match="methods must name one .* got medusa; .* has no Med"):
        list(Benchmark(replace(plan, methods=("medusa",))))


def test_a_method_that_does_not_support_a_setting_of_the_benchmark_is_refused() -> None:
    plan = replace(PLAN, methods=("draft-model", "prompt-lookup"), peers=(), repeats=1, prompts=1)
    result = run_benchmark(replace(plan, method_settings=(("entropy_threshold", 0.99),)))
    (refusal,) = result["refusals"]
    assert refusal["method"] == "prompt-lookup" and "entropy_threshold must be 0" in refusal["why"]
    # With such a threshold, every draft stops after its first token.
    (row,) = (each for each in result["rows"] if each["method"] == "draft-model")
    assert row["block_efficiency"] <= 2 and result["entropy_threshold"] == 0.99


def test_a_prompt_without_space_for_the_output_is_named_before_anything_is_decoded() -> None:
    plan = replace(PLAN, tasks=(None,), texts=("one two", "x = 1\n" * 2000), temperature=0.7)
    said: list[str] = []
    named = "prompt 2 is invalid: prompt must have at most"
    with pytest.raises(InputError, match=named):
        run_benchmark(plan, said.append)
    with pytest.raises(InputError, match=named):
        batch_benchmark(plan, (1, 2), BatchOptions(), said.append)
    assert not said


def test_a_target_without_a_draft_is_measured_without_assisted_generation() -> None:
    alone = custom_pair(str(BUNDLED_DRAFT), "")
    plan = replace(PLAN, pair=alone, methods=("prompt-lookup",), repeats=1, prompts=1)
    rows = run_benchmark(plan)["rows"]
    assert [row["method"] for row in rows] == ["baseline", "prompt-lookup", "generate()"]


def test_custom_prompts_replace_the_tasks_and_the_remaining_time_is_shown() -> None:
    said: list[str] = []
    texts = ("one two", "three four")
    plan = replace(PLAN, tasks=(None,), texts=texts, peers=(), repeats=1, max_new_tokens=4)
    rows = run_benchmark(plan, said.append)["rows"]
    assert {row["task"] for row in rows} == {None}
    assert said[1] == "warming up: your prompts, draft-model, K 4"
    assert said[-1] == "your prompts, generate(): pass 1 of 1, 0 s left"


def test_batches_also_leave_out_methods_that_the_pair_lacks() -> None:
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


def rounds_with(earlier_outputs: int, repeats: int) -> int:
    same = ("def area(width, height):", "def area(width, height):")
    plan = replace(PLAN, tasks=(None,), texts=same, methods=("suffix",), peers=(), repeats=repeats)
    plan = replace(plan, earlier_outputs=earlier_outputs)
    _, suffix, *_ = _contenders(plan, None, None)
    for _ in range(repeats):
        suffix.pass_over(plan.prompts_of(None))
    return len(suffix.rounds)


def test_suffix_decoding_copies_from_outputs_of_the_same_pass_and_of_no_other() -> None:
    alone, shared = rounds_with(0, 1), rounds_with(5, 1)
    assert shared < alone
    assert rounds_with(5, 2) == 2 * shared
