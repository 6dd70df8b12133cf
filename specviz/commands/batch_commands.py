"""What `race` and `bench` do with a batch size: from parsed options to one JSON-able result.

Knows nothing of parsing or printing.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specviz import trace_file
from specviz.commands.prompt_options import chosen_prompts
from specviz.decoding.batch_options import MAX_BATCH_SIZE, BatchOptions
from specviz.errors import InputError
from specviz.experiments.benchmark.batch_benchmark import batch_benchmark
from specviz.experiments.benchmark.batch_report import batch_report
from specviz.experiments.benchmark.batching import measure_batch
from specviz.experiments.benchmark.benchmark import Plan
from specviz.experiments.run.batch_race import BatchRequest
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import Pair
from specviz.records import DecodingConfig
from specviz.typed_settings import parse_integers

Progress = Callable[[str], None]


def race_batch(
    options: Namespace, pair: Pair, config: DecodingConfig, progress: Progress
) -> dict[str, Any]:
    """Both lanes over all rows in alternating blocks."""
    task, prompts = chosen_prompts(options, options.batch_size)
    first = RaceRequest(pair, prompts[0], config, task, options.device, options.dtype)
    request = BatchRequest(first, prompts, batch_options(options))
    measured = measure_batch(request, options.repeat, progress)
    report = batch_report(request, measured)
    if options.trace:
        files = trace_files(options)
        for row, trace, name in zip(report["rows"], measured.traces, files, strict=True):
            trace_file.save(trace, name)
            row["trace"] = name
    return report


def bench_batch(options: Namespace, plan: Plan, progress: Progress) -> dict[str, Any]:
    """A table by batch size."""
    sizes = parse_integers("batch-size", options.batch_size)
    if not sizes:
        raise InputError("batch-size must name at least one size, such as 1,2,4,8, got none")
    for size in sizes:
        _check_size(size)
    return batch_benchmark(plan, sizes, batch_options(options), progress)


def batch_options(options: Namespace) -> BatchOptions:
    """Those that were typed; without a batch they are refused, not dropped."""
    typed = {
        name: getattr(options, name)
        for name in ("speculate_up_to", "draft_budget")
        if getattr(options, name) is not None
    }
    if typed and options.batch_size is None:
        raise InputError(f"{next(iter(typed))} must be given with batch-size, got it alone")
    return BatchOptions(**typed)


def trace_files(options: Namespace) -> list[str]:
    """Where `race` saves what it measured: one file, or one per row. InputError for a bad size."""
    size = options.batch_size
    if size is not None:
        _check_size(size)
    if options.trace is None:
        return []
    return [options.trace] if size is None else [_row_file(options.trace, i) for i in range(size)]


def _row_file(name: str, row: int) -> str:
    """A row's own file.

    >>> _row_file("runs/race.json.gz", 2)
    'runs/race-row2.json.gz'
    """
    path = Path(name)
    stem, dot, ending = path.name.partition(".")
    return str(path.with_name(f"{stem}-row{row}{dot}{ending}"))


def _check_size(size: int) -> None:
    if not 1 <= size <= MAX_BATCH_SIZE:
        raise InputError(f"batch-size must be an integer from 1 to {MAX_BATCH_SIZE}, got {size}")
