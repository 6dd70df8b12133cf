"""A profile decodes prompts one by one, shows progress, can be stopped and keeps few traces."""

from __future__ import annotations

import pytest

from specviz.acceptance_profile import OPEN_PROMPTS, AcceptanceProfiler, acceptance_profile
from specviz.acceptance_profile.round_costs import lost_share
from specviz.errors import InputError
from specviz.experiments.run.profiling import MAX_PROMPTS, ProfileRequest, Profiling
from specviz.experiments.run.racing import start_race
from specviz.metrics import block_efficiency, levels
from specviz.models.pair_catalog import pair_named
from specviz.prompts import held_out_prompts
from specviz.records import BASELINE, SPECULATIVE, DecodingConfig, Trace
from tests.random_traces import random_trace

CONFIG = DecodingConfig(temperature=0.8, draft_length=4, max_new_tokens=16)


def request(*prompts: str, config: DecodingConfig = CONFIG) -> ProfileRequest:
    return ProfileRequest(pair_named("bundled"), prompts, config, "code")


def test_every_prompt_of_a_profile_is_decoded_as_in_a_race() -> None:
    asked = request(*held_out_prompts("code")[:3])
    profiling = Profiling(asked)
    traces = [step.trace for step in profiling if step.trace is not None]
    for prompt, trace in zip(asked.prompts, traces, strict=True):
        race = start_race(asked.race(prompt))
        list(race.run_lane(SPECULATIVE))
        assert race.trace().emitted_ids == trace.emitted_ids
        assert trace.lane(BASELINE).prefill is None and trace.prompt == prompt
    rounds = [each for trace in traces for each in trace.rounds]
    assert profiling.profile().block_efficiency == block_efficiency(rounds)
    assert profiling.profile() == acceptance_profile(traces)


def test_progress_is_reported_after_every_round_and_at_the_end_of_every_prompt() -> None:
    profiling = Profiling(request("def add(a, b):\n", "import os\n"))
    steps = list(profiling)
    ends = [step for step in steps if step.trace is not None]
    assert [step.done for step in ends] == [1, 2] and {step.prompts for step in steps} == {2}
    assert len(steps) - 2 == sum(len(step.trace.rounds) for step in ends if step.trace)
    tokens = [step.tokens for step in steps]
    assert tokens == sorted(tokens) and tokens[-1] == profiling.profile().tokens


def test_a_profile_can_be_stopped_and_keeps_its_finished_prompts() -> None:
    profiling = Profiling(request("def add(a, b):\n", "import os\n", "x = 1\n"))
    steps = iter(profiling)
    for step in steps:
        if step.done == 1 and step.trace is None:
            break
    steps.close()  # type: ignore[attr-defined]
    assert profiling.profile().prompts == 1
    assert set(profiling.traces) <= {0}


def rounds_lost(trace: Trace) -> float:
    counts = [levels(each) for each in trace.rounds]
    rejected = [each for each in counts if each.passed < each.reached]
    return sum(lost_share(each.drafted, each.passed) for each in rejected)


def test_traces_of_examples_and_of_the_prompts_with_the_largest_losses_are_kept() -> None:
    profiler = AcceptanceProfiler()
    traces = [random_trace(seed, rounds=4) for seed in range(60)]
    for trace in traces:
        profiler.add(trace)
    groups = [each for each in profiler.profile().rankings if each.dimension != "prompt"]
    named = {ex.trace for each in groups for group in each.groups for ex in group.examples}
    worst = sorted(range(60), key=lambda index: (rounds_lost(traces[index]), index))[-OPEN_PROMPTS:]
    kept = profiler.example_traces()
    assert kept == named | set(worst) and len(kept) < len(traces)


def test_a_dropped_trace_is_never_named_by_a_group_again() -> None:
    profiler, kept = AcceptanceProfiler(), set()
    for seed in range(40):
        kept.add(profiler.add(random_trace(seed, rounds=3)))
        assert profiler.example_traces() <= kept
        kept &= profiler.example_traces()


def test_a_bad_prompt_is_named_before_anything_is_decoded() -> None:
    with pytest.raises(InputError, match="prompt 2 is invalid: prompt must have some"):
        Profiling(request("fine", " "))
    with pytest.raises(InputError, match="prompt 2 is invalid: prompt must have at most 1008"):
        Profiling(request("fine", "word " * 3000))
    with pytest.raises(InputError, match=f"prompts must be from 1 to {MAX_PROMPTS}, got 0"):
        request()
    with pytest.raises(InputError, match="got 501"):
        request(*["x"] * 501)
