"""Measured times in files of other commands replace computed ones in a plan.

The files here have the minimal content that the commands write. Other tests read real files:
tests/commands/test_batch_cli.py, tests/serving/test_load.py, tests/experiments/sweep.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.sizing.measured_times import MAX_CHARACTERS, MeasuredPlan, read_measured
from specviz.sizing.serving_plan import read_plan
from specviz.sizing.simulated_load import by_load, simulate
from specviz.sizing.sized_plan import Policy, SizedPlan


def level(at_once: int, plain: float, fast: float, tokens: float = 2.5) -> dict[str, Any]:
    """Return the measurement of one load level.

    `plain` and `fast` are the seconds per token without and with speculation. The first token takes
    0.2 s without and 0.3 s with speculation.
    """
    sent = {"tokens": 64, "seconds": 9.0, "acceptance": 0.5}
    ours = {"first_tokens": [0.3], "later_tokens": [fast], "accepted_length": tokens}
    theirs = {"first_tokens": [0.2], "later_tokens": [plain], "accepted_length": None}
    passes = {"speculative": ours, "plain": theirs}
    return {"at_once": at_once} | {name: {"passes": [sent | p]} for name, p in passes.items()}


LOAD = {
    **{"speculative": "http://a", "plain": "http://b", "engine": "llama.cpp b1", "draft_length": 3},
    "levels": [level(1, 0.02, 0.01), level(4, 0.03, 0.02)],
}


def row(size: int, K: int, step: float, each: float) -> dict[str, Any]:
    return {
        **{"task": "code", "method": "eagle", "draft_length": K, "batch_size": size},
        **{"step_seconds": step, "round_seconds": each, "block_efficiency": 2.0},
        **{"baseline_ttft_seconds": 0.1 * size, "ttft_seconds": 0.2 * size},
    }


BENCH = {
    "pair": "bundled",
    "rows": [row(s, K, 0.01 * s, 0.01 * s * K) for K in (2, 3) for s in (2, 6)],
}


def point(size: int, K: int, step: float, c: float, v: float) -> dict[str, Any]:
    """Return one point of a sweep; its baseline writes 11 tokens per row.

    The prefill takes 0.1 s per row and gives the first token. Each of the next 10 tokens takes one
    step of `step` seconds. The speculative run has two texts of 4 rounds each.
    """
    return {
        "setting": {"batch-size": size, "draft-length": K},
        **{"cost_ratio": c, "verify_overhead": v, "block_efficiency": 2.5},
        **{"rounds": 8, "texts": 2, "draft_prefill_seconds": 0.5},
        "acceptance_by_depth": [{"depth": 1, "reached": 8, "passed": 6, "rate": 0.75}],
        **{"baseline_ttft_seconds": 0.1 * size, "ttft_seconds": 0.1 * size},
        "baseline_tokens_per_second": 11 * size / (0.1 * size + 10 * step),
    }


SWEEP = {
    "axes": [["batch-size", [1, 2]], ["draft-length", [4]]],
    **{"pair": "chat", "config": {"method": "draft-model", "draft_length": 7}},
    "points": [point(1, 4, 0.02, 0.1, 0.2), point(2, 4, 0.03, 0.05, 0.4)],
}


def lines(sweep: dict[str, Any]) -> str:
    """Return the sweep as `sweep --output` writes it."""
    header = {name: value for name, value in sweep.items() if name != "points"}
    return "".join(f"{json.dumps(each)}\n" for each in (header, *sweep["points"]))


def planned(found: dict[str, Any], **fields: Any) -> MeasuredPlan:
    times = read_measured(json.dumps(found), "f.json")
    given = {"acceptance": 0.7, "output": 65} | fields
    return MeasuredPlan(read_plan(given), times)


def test_a_client_s_times_of_tokens_are_converted_to_times_of_rounds() -> None:
    times = read_measured(json.dumps(LOAD), "load.json")
    assert times.steps == ((1, 0.02), (4, 0.03))
    assert times.rounds == {3: ((1, pytest.approx(0.025)), (4, pytest.approx(0.05)))}
    assert times.prefills == (((1, 0.2),), ((1, 0.3),))


def test_a_table_by_batch_size_has_times_of_steps_rounds_and_prefills() -> None:
    times = read_measured(json.dumps(BENCH), "bench.json")
    assert times.steps == ((2, 0.02), (6, 0.06))
    assert times.rounds[3] == ((2, pytest.approx(0.06)), (6, pytest.approx(0.18)))
    assert times.prefills is not None and times.prefills[1][1] == (6, pytest.approx(1.2))


@pytest.mark.parametrize("text", [json.dumps(SWEEP), lines(SWEEP)], ids=["json", "lines"])
def test_a_sweep_has_these_times_in_its_rates_and_costs(text: str) -> None:
    times = read_measured(text, "sweep.jsonl")
    assert times.steps == ((1, pytest.approx(0.02)), (2, pytest.approx(0.03)))
    assert times.rounds == {4: ((1, pytest.approx(0.032)), (2, pytest.approx(0.048)))}
    assert times.prefills is not None
    assert times.prefills[1] == ((1, pytest.approx(0.35)), (2, pytest.approx(0.7)))


def test_times_are_interpolated_between_measured_numbers_and_not_beyond_them() -> None:
    found = planned(LOAD)
    assert found.step_seconds(2) == pytest.approx(0.02 + 0.01 / 3)
    assert found.round_seconds(3, 3) == pytest.approx(0.025 + 0.025 * 2 / 3)
    assert {found.seats(policy) for policy in Policy} == {4} and found.together == 1
    crowded = simulate(found, Policy.PLAIN, 100)
    assert not crowded.keeps_up and crowded.mean_rows <= 4


def test_a_single_request_takes_the_measured_times() -> None:
    found = planned(LOAD, acceptance=0.691)  # at this acceptance rate a round writes 2.5 tokens
    plain, fast = (simulate(found, each, 0.001) for each in (Policy.PLAIN, Policy.SPECULATIVE))
    assert (plain.first_token_p95, fast.first_token_p95) == pytest.approx((0.2, 0.3))
    assert plain.token_p50 == pytest.approx(0.02)
    assert fast.token_p50 == pytest.approx(0.01, rel=0.1)


def test_speculation_is_switched_off_if_its_measured_rounds_lose() -> None:
    found = planned(LOAD | {"levels": [level(1, 0.02, 0.01), level(4, 0.03, 0.06)]})
    assert [found.length(Policy.SWITCHED, rows) for rows in (1, 4)] == [3, 0]


def test_the_best_measured_length_is_used_and_other_lengths_are_refused() -> None:
    assert planned(BENCH, acceptance=0.5).length(Policy.SPECULATIVE, 2) == 2
    with pytest.raises(InputError) as refused:
        planned(BENCH, draft_length=5)
    assert str(refused.value) == (
        "draft_length must be 0 (the best length) or a measured length (2, 3), got 5"
    )


def test_the_answer_names_how_the_times_were_measured_and_what_was_not() -> None:
    of_load, of_bench = (planned(each) for each in (LOAD, BENCH))
    said = " ".join(of_load.measured.sentences(of_load.plan))
    assert "llama.cpp b1 at http://a, plain at http://b, K = 3, with 1 to 4 requests" in said
    assert "At most 4 requests are decoded together" in said and "one by one" in said
    said = " ".join(of_bench.measured.sentences(of_bench.plan))
    assert "(bench) with eagle and the pair bundled, K = 2 and 3, with 2 to 6 requests" in said
    assert (
        "For fewer than 2 requests, the times of 2 requests" in said and "up to 6 together" in said
    )


def test_times_of_another_pair_keep_the_plan_s_acceptance_rate_and_say_so() -> None:
    found = MeasuredPlan(read_plan({}), read_measured(lines(SWEEP), "sweep.jsonl"))
    assert found.plan.acceptance == 0.7
    said = " ".join(found.measured.sentences(found.plan))
    assert (
        "The measurement used draft-model and the pair chat; the plan has Llama 3.1 or 3.3 70B with"
        in said
    )
    assert "4 x H100 80 GB (SXM)" in said and "All numbers before it are computed." in said
    assert (
        "accepted at the plan’s rate, 0.70. The file’s own rate is 0.75 for the pair chat" in said
    )
    assert "from 8 examined guesses in 8 rounds; these are too few to rely on." in said
    load = planned(LOAD)
    assert "which the file does not name" in " ".join(load.measured.sentences(load.plan))


def test_prefills_that_were_not_measured_are_computed_and_this_is_said() -> None:
    found = planned(LOAD | {"levels": [level(2, 0.02, 0.01)]})
    assert found.first_token_seconds(0) == SizedPlan(found.plan).first_token_seconds(0)
    assert "for 512 tokens on the planned cards" in " ".join(found.measured.sentences(found.plan))


def test_measured_times_are_simulated_even_if_the_model_does_not_fit_the_planned_cards() -> None:
    assert by_load(planned(LOAD, target="llama-3-1-405b", gpus=1))


def without(found: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != name}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([1], "or of sweep over batch-size, but 'f.json' is none of these"),
        ({"speedup": 2}, "but 'f.json' is none of these"),
        (
            without(LOAD, "plain"),
            "must have times of plain decoding as well: run load URL --plain URL (file",
        ),
        (without(LOAD, "draft_length"), "complete and unchanged, got 'f.json'"),
        (LOAD | {"levels": []}, "must have times for at least one number of requests"),
        (LOAD | {"levels": 7}, "complete and unchanged"),
        (LOAD | {"levels": [level(0, 1, 1)]}, "complete and unchanged"),
        (LOAD | {"levels": [level(1, -1, 1)]}, "complete and unchanged"),
        (LOAD | {"levels": [level(1, 1, float("nan"))]}, "complete and unchanged"),
        (
            LOAD | {"levels": [LOAD["levels"][0] | {"speculative": LOAD["levels"][0]["plain"]}]},
            "must be about a server that drafts, but at concurrency 1 it drafted nothing",
        ),
        (
            BENCH | {"rows": [*BENCH["rows"], row(1, 2, 1, 1) | {"method": "medusa"}]},
            "must have one method, but has eagle, medusa",
        ),
        (BENCH | {"rows": [without(BENCH["rows"][0], "step_seconds")]}, "complete and unchanged"),
        (SWEEP | {"axes": [["temperature", [0]]]}, "must be a sweep over batch-size, and perhaps"),
        (
            SWEEP | {"points": [point(1, 4, 0.02, 0.1, 0.2) | {"cost_ratio": None}]},
            "must have drafted tokens at every point, but has none at batch size 1",
        ),
    ],
)
def test_another_kind_of_file_is_refused_in_one_line(found: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read_measured(json.dumps(found), "f.json")
    message = str(refused.value)
    assert message.startswith("measured must ") and said in message and "\n" not in message


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[" * 100_000, "x" * (MAX_CHARACTERS + 1)],
    ids=["none", "words", "deep", "long"],
)
def test_a_file_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="^measured must "):
        read_measured(text, "f.txt")
