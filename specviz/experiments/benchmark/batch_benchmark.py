"""A benchmark by batch size: the speedup over plain decoding of the same batch.

It also finds the batch size up to which a method is faster. Batch size B uses the first B held-out
prompts of a task, and repeats them if there are fewer. Every size is measured in alternating blocks
of both lanes. This module does not know how the numbers are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby, product
from typing import Any

from specviz.decoding.batch_options import BatchOptions
from specviz.errors import InputError
from specviz.experiments.benchmark.batching import BatchMeasurement, measure_batch
from specviz.experiments.benchmark.benchmark import Plan, check_prompts, none_runs, time_left
from specviz.experiments.run.batch_race import BatchRequest
from specviz.experiments.run.racing import RaceRequest
from specviz.metrics import acceptance_rate, block_efficiency, draft_utilization
from specviz.records import BASELINE, SPECULATIVE, DecodingConfig


def batch_benchmark(
    plan: Plan,
    sizes: Sequence[int],
    options: BatchOptions,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure each task, method, draft length and batch size; return one row for each.

    `pays_up_to` has one entry per task, method and draft length: the largest batch size up to which
    all speedups are above 1, or 0 if there is none.
    """
    rows: list[dict[str, Any]] = []
    refusals: dict[str, str] = {}
    series = list(product(plan.tasks, plan.methods, plan.draft_lengths))
    configs = [plan.config_of(method, draft_length) for _, method, draft_length in series]
    check_prompts(plan, max(sizes))
    began = time.perf_counter()
    for number, ((task, method, draft_length), config) in enumerate(
        zip(series, configs, strict=True)
    ):
        left = ""
        if rows:
            spent = time.perf_counter() - began
            left = f", {time_left(spent / number * (len(series) - number))}"
        try:
            for size in sizes:
                where = f"{task or 'your prompts'}, {method}, K {draft_length}"
                progress(f"{where}: batch of {size}{left}")
                request = _request(plan, task, config, size, options)
                rows.append(_row(task, config, size, measure_batch(request, plan.repeats)))
        except InputError as error:
            refusals.setdefault(method, " ".join(str(error).split()))
    if not rows:
        raise none_runs(plan.methods, refusals[plan.methods[0]])
    return {
        "rows": rows,
        "refusals": [{"method": name, "why": why} for name, why in refusals.items()],
        "pays_up_to": [_pays_up_to(list(series)) for _, series in groupby(rows, _series)],
        "pair": plan.pair.name,
        "temperature": plan.temperature,
        "max_new_tokens": plan.max_new_tokens,
        **dict(plan.method_settings),
    }


def _request(
    plan: Plan, task: str | None, config: DecodingConfig, size: int, options: BatchOptions
) -> BatchRequest:
    prompts = plan.rows_of(task, size)
    first = RaceRequest(plan.pair, prompts[0], config, task, plan.device, plan.dtype)
    return BatchRequest(first, prompts, options)


def _row(
    task: str | None, config: DecodingConfig, size: int, measured: BatchMeasurement
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
        "remark": measured.repeats.remark,
        "acceptance_rate": acceptance_rate(measured.rounds),
        "draft_utilization": draft_utilization(measured.rounds),
        "block_efficiency": block_efficiency(measured.rounds),
        "slot_waste": typical.speculative.slot_waste,
        "step_seconds": measured.full_seconds(BASELINE),
        "round_seconds": measured.full_seconds(SPECULATIVE),
        "baseline_ttft_seconds": measured.prefill_seconds(BASELINE),
        "ttft_seconds": measured.prefill_seconds(SPECULATIVE),
    }


def _series(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["task"], row["method"], row["draft_length"]


def _pays_up_to(series: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the largest batch size up to which every speedup in `series` is above 1.

    The batch size is 0 if there is none. All rows have the same task, method and draft length.
    """
    task, method, draft_length = _series(series[0])
    size = 0
    for row in sorted(series, key=lambda each: each["batch_size"]):
        if row["speedup"] <= 1:
            break
        size = row["batch_size"]
    return {"task": task, "method": method, "draft_length": draft_length, "batch_size": size}
