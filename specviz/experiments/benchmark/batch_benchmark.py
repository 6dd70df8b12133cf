"""Where speculation starts to lose: speedup over the plain batch by method and batch size.

Knows nothing of how the numbers are shown. Batch size B takes the first B held-out prompts of a
task, beginning again where there are no more, and every size is measured in alternating blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from specviz.decoding.batch_options import BatchOptions
from specviz.decoding.drafters.registry import method_named
from specviz.experiments.benchmark.batching import BatchMeasurement, measure_batch
from specviz.experiments.benchmark.benchmark import Plan
from specviz.experiments.run.batch_race import BatchRequest
from specviz.experiments.run.racing import RaceRequest
from specviz.metrics import acceptance_rate, block_efficiency
from specviz.prompts import held_out_rows
from specviz.records import DecodingConfig


def batch_benchmark(
    plan: Plan,
    sizes: Sequence[int],
    options: BatchOptions,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """One row per task, method, draft length and batch size; `pays_up_to` closes each series.

    That is the largest measured size up to which all speedups are above 1, 0 if there is none.
    """
    rows: list[dict[str, Any]] = []
    for task in plan.tasks:
        assert task is not None, "a batch takes held-out prompts"
        for method in plan.methods:
            for draft_length in plan.draft_lengths:
                config = _config(plan, method, draft_length)
                for size in sizes:
                    progress(f"{task}, {method}, K {draft_length}: batch of {size}")
                    request = _request(plan, task, config, size, options)
                    rows.append(_row(task, config, size, measure_batch(request, plan.repeats)))
    return {
        "rows": rows,
        "pays_up_to": [_pays_up_to(list(series)) for _, series in groupby(rows, _series)],
        "temperature": plan.temperature,
        "max_new_tokens": plan.max_new_tokens,
    }


def _config(plan: Plan, method: str, draft_length: int) -> DecodingConfig:
    sampling = {"temperature": plan.temperature, "max_new_tokens": plan.max_new_tokens}
    return method_named(method).usual(draft_length, **sampling)


def _request(
    plan: Plan, task: str, config: DecodingConfig, size: int, options: BatchOptions
) -> BatchRequest:
    prompts = held_out_rows(task, size)
    first = RaceRequest(plan.pair, prompts[0], config, task, plan.device, plan.dtype)
    return BatchRequest(first, prompts, options)


def _row(
    task: str, config: DecodingConfig, size: int, measured: BatchMeasurement
) -> dict[str, Any]:
    typical = measured.typical
    low, high = measured.spread
    return {
        "task": task,
        "method": config.method,
        "draft_length": config.draft_length,
        "batch_size": size,
        "baseline_tokens_per_second": typical.baseline.tokens_per_second,
        "tokens_per_second": typical.speculative.tokens_per_second,
        "speedup": measured.speedup,
        "speedup_spread": [low, high],
        "acceptance_rate": acceptance_rate(measured.rounds),
        "block_efficiency": block_efficiency(measured.rounds),
        "slot_waste": typical.speculative.slot_waste,
    }


def _series(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["task"], row["method"], row["draft_length"]


def _pays_up_to(series: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The end of the winning streak from the smallest size on."""
    task, method, draft_length = _series(series[0])
    size = 0
    for row in sorted(series, key=lambda each: each["batch_size"]):
        if row["speedup"] <= 1:
            break
        size = row["batch_size"]
    return {"task": task, "method": method, "draft_length": draft_length, "batch_size": size}
