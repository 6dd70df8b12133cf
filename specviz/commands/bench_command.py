"""`bench`: methods x tasks beside the library's own decoding, or methods x batch sizes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.flags import (
    FILE_HELP,
    MAX_REPEATS,
    add_batch_flags,
    add_flag,
    add_framing_flags,
    add_pair_flags,
    chosen_batch,
    chosen_framing,
    chosen_pair,
    warn_of_template,
)
from specviz.decoding.batch_options import BatchOptions
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.errors import InputError, whole_between
from specviz.experiments.benchmark.batch_benchmark import batch_benchmark
from specviz.experiments.benchmark.benchmark import Plan, benchmark
from specviz.models.pair_catalog import Pair
from specviz.prompts import held_out_prompts, read_prompts, tasks
from specviz.records import BATCH, SETTINGS, read_integers

_DEFAULT_PROMPTS = 3


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    parser.add_argument("--tasks", help="with commas (default all, none with --prompt-file)")
    parser.add_argument("--prompt-file", metavar="FILE", help=f"your own texts: {FILE_HELP}")
    add_framing_flags(parser)
    parser.add_argument("--methods", help="with commas (default all)")
    parser.add_argument("--draft-lengths", default="3,5", help="K, with commas")
    parser.add_argument(
        "--prompts", type=int, help="so many of each task (default 3), or of the file (default all)"
    )
    add_flag(parser, SETTINGS["temperature"], help="peers run at 0 only")
    add_flag(parser, SETTINGS["max_new_tokens"])
    parser.add_argument("--repeat", type=int, default=2, help="passes, in alternating order")
    by_size = "a table by batch size instead: 1,2,4,8"
    add_batch_flags(parser, type=str, help=by_size)


def bench(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Measure every method and draft length on every task."""
    whole_between(options.repeat, "repeat", 1, MAX_REPEATS)
    texts = read_prompts(options.prompt_file, "prompt-file") if options.prompt_file else ()
    count = options.prompts
    if count is None:
        count = len(texts) or _DEFAULT_PROMPTS
    pair = chosen_pair(options)
    first = tasks(pair.instruct)[0]
    whole_between(count, "prompts", 1, len(texts or held_out_prompts(first, pair.instruct)))
    lengths = read_integers("draft-lengths", options.draft_lengths)
    if not lengths:
        raise InputError("draft-lengths must be at least one number, got none")
    plan = Plan(
        pair=pair,
        tasks=_tasks(options, pair, bool(texts)),
        methods=tuple(DRAFTERS) if options.methods is None else _words("methods", options.methods),
        draft_lengths=lengths,
        temperature=options.temperature,
        max_new_tokens=options.max_new_tokens,
        prompts=count,
        repeats=options.repeat,
        device=options.device,
        dtype=options.dtype,
        texts=texts,
        framing=chosen_framing(options),
    )
    warn_of_template(plan.pair, options, plan.prompts_of(None) if texts else (), progress)
    batch = chosen_batch(options)
    if options.batch_size is not None:
        return _by_batch_size(plan, options.batch_size, batch, progress)
    return benchmark(plan, progress)


def _tasks(options: Namespace, pair: Pair, has_texts: bool) -> tuple[str | None, ...]:
    if options.tasks is None:
        return (None,) if has_texts else tasks(pair.instruct)
    if has_texts:
        raise InputError("tasks and prompt-file must not be given together")
    return _words("tasks", options.tasks)


def _words(name: str, text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise InputError(f"{name} must be at least one name, got {text!r}")
    return words


def _by_batch_size(
    plan: Plan, text: str, batch: BatchOptions, progress: Progress
) -> dict[str, Any]:
    sizes = read_integers("batch-size", text)
    if not sizes:
        raise InputError("batch-size must name at least one size, such as 1,2,4,8, got none")
    for size in sizes:
        BATCH["batch_size"].check(size)
    return batch_benchmark(plan, sizes, batch, progress)


def bench_text(result: dict[str, Any]) -> str:
    """A row per measurement, where batches pay, and which methods could not run."""
    parts = [table([_shown(row) for row in result["rows"]])]
    if "pays_up_to" in result:
        parts.append("pays up to a batch of\n" + table(result["pays_up_to"]))
    if result["refusals"]:
        parts.append("\n".join(f"{each['method']}: {each['why']}" for each in result["refusals"]))
    return "\n\n".join(parts)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Bytes in megabytes; the single passes are for --json."""
    shown = {name: value for name, value in row.items() if name not in ("rates", "extra_bytes")}
    if "extra_bytes" not in row:
        return shown
    size = row["extra_bytes"]
    return shown | {"extra MB": None if size is None else size / 1e6}


COMMAND = Command(
    bench,
    bench_text,
    _add_flags,
)
