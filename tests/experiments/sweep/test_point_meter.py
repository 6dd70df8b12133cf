"""The numbers of a sweep's point follow from the rows that were decoded together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.experiments.sweep.sweeping import PointMeter
from specviz.records import BASELINE, SPECULATIVE, TokenStep, Trace
from specviz.theory import waiting
from tests.random_traces import changed
from tests.tiny_trace import chain, tiny_trace


def longer_row() -> Trace:
    """Return tiny_trace with another step of 0.4 s and another round of 0.5 s, one token each."""
    row = tiny_trace()
    steps = (*row.lane(BASELINE).steps, TokenStep(6, 5, 0.5, 0.25, 0.4))
    rounds = (*row.rounds, chain(3, 0, 0.1, 0.3, 0.1))
    return changed(changed(row, BASELINE, steps=steps), rounds=rounds)


@pytest.mark.parametrize("is_first", [True, False])
def test_the_longest_row_decides_the_time_of_its_batch(is_first: bool) -> None:
    rows = [longer_row(), tiny_trace()]
    meter = PointMeter()
    for lane in (BASELINE, SPECULATIVE):
        meter.add_rows(lane, rows if is_first else rows[::-1])
    meter.end_block()
    point = meter.result()
    # The two rows have 8 and 7 tokens. Their times are 0.7 s and 0.4 s in the baseline's lane, and
    # 0.4 s and 0.5 s in the speculative lane.
    assert point["baseline_tokens_per_second"] == pytest.approx(15 / 1.1)
    assert point["tokens_per_second"] == pytest.approx(15 / 0.9)
    assert point["speedup"] == pytest.approx(1.1 / 0.9)
    spent = [point[f"{part}_seconds"] for part in ("prefill", "draft", "verify", "host")]
    assert spent == pytest.approx([0.1, 0.16, 0.52, 0.12])
    assert point["rounds"] == 5


def test_the_theory_of_a_batch_waits_for_its_longest_row() -> None:
    alone, together = PointMeter(), PointMeter()
    for lane in (BASELINE, SPECULATIVE):
        alone.add_rows(lane, [longer_row()])
        together.add_rows(lane, [longer_row()] * 8)
    for meter in (alone, together):
        meter.end_block()
    one, many = alone.result(), together.result()
    a, tokens = one["acceptance_rate"], sum(len(each.emitted_ids) for each in longer_row().rounds)
    K = max(len(each.tree.nodes) for each in longer_row().rounds)
    waits = waiting(8, tokens, [a**depth for depth in range(1, K + 1)])
    assert waits > 1.1
    assert many["theory_speedup"] == pytest.approx(one["theory_speedup"] / waits)
    low, high = many["theory_band"]
    assert low < many["theory_speedup"] < high and high / low <= (
        one["theory_band"][1] / one["theory_band"][0]
    )


def test_repeats_with_the_same_draws_add_no_evidence_about_acceptance() -> None:
    once, often = PointMeter(), PointMeter()
    for meter, blocks in ((once, 1), (often, 4)):
        for _ in range(blocks):
            for lane in (BASELINE, SPECULATIVE):
                meter.add_rows(lane, [tiny_trace(), longer_row()])
            meter.end_block()
    one, many = once.result(), often.result()
    assert len(many["speedups"]) == 4
    assert many["acceptance_by_depth"] == one["acceptance_by_depth"]
    (low, high), (least, most) = one["theory_band"], many["theory_band"]
    # Repeats with the same draws make the costs more certain, so theory's interval becomes
    # narrower.
    assert low < least < most < high
    for told in (one, many):
        del told["speedups"], told["acceptance_by_depth"], told["theory_band"]
    assert many == {name: pytest.approx(value) for name, value in one.items()}
    assert one["texts"] == 2


@pytest.mark.parametrize("slowed", [(1, 3, 2), (1, 5, 2, 3), (4, 1)])
def test_the_parts_of_a_token_s_time_add_up_to_the_measured_rate(slowed: tuple[int, ...]) -> None:
    meter = PointMeter()
    # In each repeat, another program slows verification down. The numbers are the factors by which
    # verification takes longer, one per repeat.
    for times in slowed:
        first, *others = longer_row().rounds
        rounds = (replace(first, verify_seconds=times * first.verify_seconds), *others)
        for lane in (BASELINE, SPECULATIVE):
            meter.add_rows(lane, [changed(longer_row(), rounds=rounds)])
        meter.end_block()
    point = meter.result()
    parts = ("prefill", "draft_prefill", "draft", "verify", "host")
    tokens = point["texts"] + point["rounds"] * point["block_efficiency"]
    spent = sum(point[f"{part}_seconds"] for part in parts)
    assert spent / tokens == pytest.approx(1 / point["tokens_per_second"])
    assert point["speedup"] == pytest.approx(
        point["tokens_per_second"] / point["baseline_tokens_per_second"]
    )


def test_the_drafter_s_prefill_is_not_part_of_the_cost_of_a_level() -> None:
    first, *others = longer_row().rounds
    reading = replace(first, draft_prefill_seconds=2.0)
    points = []
    for rounds in ((first, *others), (reading, *others)):
        meter = PointMeter()
        for lane in (BASELINE, SPECULATIVE):
            meter.add_rows(lane, [changed(longer_row(), rounds=rounds)])
        meter.end_block()
        points.append(meter.result())
    plain, read = points
    assert read["draft_prefill_seconds"] == 2.0
    assert (read["cost_ratio"], read["draft_seconds"]) == (
        plain["cost_ratio"],
        plain["draft_seconds"],
    )
    # The drafter's prefill counts in the speedup, but not in the costs of a round.
    assert read["speedup"] < plain["speedup"]


def test_a_speedup_above_the_tokens_per_forward_requests_another_block() -> None:
    """After its first token, the run writes 6 tokens in 2 rounds, so at most 3 per forward.

    A slow baseline makes the speedup seem 3.4. That is impossible, so the sweep measures the point
    in one more block of repeats.
    """
    slow = tuple(replace(step, seconds=0.21) for step in tiny_trace().lane(BASELINE).steps)
    calm, disturbed = PointMeter(), PointMeter()
    for meter, trace in (
        (calm, tiny_trace()),
        (disturbed, changed(tiny_trace(), BASELINE, steps=slow)),
    ):
        for lane in (BASELINE, SPECULATIVE):
            meter.add_rows(lane, [trace])
        meter.end_block()
    assert disturbed.is_disturbed and not calm.is_disturbed
