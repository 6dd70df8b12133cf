"""The command `bench`: it compares methods, and decoding by Transformers, by task or batch size."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.engine_serving import engine_with
from specviz.commands.flags import (
    MAX_REPEATS,
    add_any_method_flags,
    add_batch_flags,
    add_flag,
    add_framing_flags,
    add_pair_flags,
    add_prompt_count_flag,
    add_prompt_file_flag,
    chosen_batch,
    chosen_for_any_method,
    chosen_framing,
    chosen_pair,
    warn_of_template,
)
from specviz.decoding.batch_options import BatchOptions
from specviz.decoding.drafters.registry import DRAFTERS, check_methods
from specviz.engines.model_deployment import EngineMethod
from specviz.errors import InputError, short, whole_between
from specviz.experiments.benchmark.batch_benchmark import batch_benchmark
from specviz.experiments.benchmark.benchmark import Plan, benchmark
from specviz.experiments.run.repeats import DEFAULT_REPEATS
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.models.threads import thread_count
from specviz.prompts import held_out_prompts, read_prompts, tasks
from specviz.records import BATCH, SETTINGS, read_integers
from specviz.serving.engine_address import EngineAddress
from specviz.serving.llama_cpp.llama_cpp_process import ENGINE, check_installed

_DEFAULT_PROMPTS = 3
# The largest number of earlier outputs to copy from; vLLM keeps as many requests by default.
MAX_EARLIER = 10_000


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    parser.add_argument(
        "--tasks",
        metavar="NAMES",
        help="tasks to measure, separated by commas (default all, or none with --prompt-file)",
    )
    add_prompt_file_flag(parser)
    add_framing_flags(parser)
    parser.add_argument(
        "--methods", metavar="NAMES", help="methods to measure, separated by commas (default all)"
    )
    parser.add_argument(
        "--draft-lengths",
        default="3,5",
        metavar="K,K",
        help="draft lengths to measure, separated by commas (default %(default)s)",
    )
    add_any_method_flags(parser)
    add_prompt_count_flag(parser, _DEFAULT_PROMPTS)
    add_flag(
        parser,
        SETTINGS["temperature"],
        help="sampling temperature; the methods of the library transformers run only at 0",
    )
    add_flag(parser, SETTINGS["max_new_tokens"])
    parser.add_argument(
        "--repeat",
        type=int,
        default=DEFAULT_REPEATS,
        metavar="N",
        help="number of passes; a pass runs every method once, and every second pass runs them in "
        "reverse order (default %(default)s)",
    )
    parser.add_argument(
        "--earlier-outputs",
        type=int,
        default=0,
        metavar="N",
        help="let the methods suffix and hybrid also copy from the last N outputs that they wrote "
        "in the same pass (default none)",
    )
    parser.add_argument(
        "--peer",
        metavar="NAME",
        help=f"also measure this engine in every pass: {ENGINE}; specviz starts it with the "
        "target in F32 and with as many threads as specviz uses (default no engine)",
    )
    by_size = "batch sizes to measure, such as 1,2,4,8 (default one prompt at a time)"
    add_batch_flags(parser, type=str, help=by_size)


def bench(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Measure every method with every draft length on every task."""
    whole_between(options.repeat, "repeat", 1, MAX_REPEATS)
    _check_earlier_outputs(options)
    texts = read_prompts(options.prompt_file, "prompt-file") if options.prompt_file else ()
    count = options.prompt_count
    if count is None:
        count = len(texts) or _DEFAULT_PROMPTS
    pair = chosen_pair(options)
    first = tasks(pair.instruct)[0]
    whole_between(count, "prompt-count", 1, len(texts or held_out_prompts(first, pair.instruct)))
    lengths = read_integers("draft-lengths", options.draft_lengths)
    if not lengths:
        raise InputError("draft-lengths must have at least one number, such as 3,5, got none")
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
        earlier_outputs=options.earlier_outputs,
        method_settings=chosen_for_any_method(options),
    )
    warn_of_template(plan.pair, options, plan.prompts_of(None) if texts else (), progress)
    batch = chosen_batch(options)
    if options.peer is not None:
        return _bench_with_engine(plan, options, progress)
    if options.batch_size is not None:
        return _by_batch_size(plan, options.batch_size, batch, progress)
    return benchmark(plan, progress)


def _check_earlier_outputs(options: Namespace) -> None:
    """Raise InputError if earlier outputs cannot be shared in this benchmark."""
    earlier = whole_between(options.earlier_outputs, "earlier-outputs", 0, MAX_EARLIER)
    if earlier and options.batch_size is not None:
        raise InputError(
            f"earlier-outputs must be 0 with batch-size, because all texts are decoded at the same "
            f"time, got {earlier}"
        )
    if earlier and options.temperature > 0:
        raise InputError(
            f"temperature must be 0 with earlier-outputs, because all prompts share their random "
            f"draws, got {options.temperature:g}"
        )


def _bench_with_engine(plan: Plan, options: Namespace, progress: Progress) -> dict[str, Any]:
    """Start an engine and measure it in the same passes as the methods.

    Raises InputError for a setting in which the engine would not do the same work as
    the methods.
    """
    if options.peer != ENGINE:
        raise InputError(
            f"peer must be {ENGINE}, the only engine that specviz can start, got {options.peer!r}"
        )
    if options.batch_size is not None:
        raise InputError(
            "peer must not be given with batch-size, because the peer decodes one text at a time"
        )
    if plan.temperature != 0:
        raise InputError(f"temperature must be 0 with 'peer', got {plan.temperature:g}")
    if plan.dtype != "float32":
        raise InputError(f"dtype must be float32 with 'peer', got {plan.dtype!r}")
    if plan.device not in ("auto", "cpu"):
        raise InputError(f"device must be cpu or auto with 'peer', got {short(plan.device)}")
    # These checks come before loading and converting the weights, which takes several seconds.
    check_methods(plan.methods)
    for task in plan.tasks:
        plan.known(task)
    check_installed()
    plan = replace(plan, device="cpu")
    # Loading the pair sets the number of torch's threads. The engine must use the same number.
    load_pair(plan.pair, plan.device, plan.dtype, frozenset())
    threads = thread_count()
    with engine_with(plan.pair, EngineMethod.NONE, 1, threads=threads) as engine:
        progress(f"{ENGINE} ({engine.version}) runs on {threads} threads")
        return benchmark(replace(plan, engine=EngineAddress.of(engine.url)), progress)


def _tasks(options: Namespace, pair: Pair, has_texts: bool) -> tuple[str | None, ...]:
    if options.tasks is None:
        return (None,) if has_texts else tasks(pair.instruct)
    if has_texts:
        raise InputError("tasks and prompt-file must not be given together")
    return _words("tasks", options.tasks)


def _words(name: str, text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise InputError(f"{name} must have at least one name, got {short(text)}")
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
    """Return tables: measurements, batch sizes up to which drafts pay, and refused methods."""
    rows = result["rows"]
    parts = [table([_shown(row) for row in rows])]
    if any("speedup" in row and "baseline_tokens_per_second" not in row for row in rows):
        parts.append(_HOW)
    if "pays_up_to" in result:
        parts.append("pays up to a batch of\n" + table(result["pays_up_to"]))
    if "engine" in result:
        parts.append(f"over {ENGINE}, tokens per second\n" + table(result["engine"]))
    if result["refusals"]:
        parts.append("\n".join(f"{each['method']}: {each['why']}" for each in result["refusals"]))
    return "\n\n".join(parts)


_HOW = (
    "A speedup is the median over passes of the ratio to the baseline in the same pass, so it may "
    "differ from the ratio of the two medians of tokens/s."
)
# Field -> its title in all tables. The title of any other field is its name with spaces.
_TITLES = {
    "tokens_per_second": "tokens/s",
    "baseline_tokens_per_second": "baseline tokens/s",
    "speedup_spread": "spread",
    "block_efficiency": "tokens/forward",
}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as the table shows it: with megabytes instead of bytes.

    The rate of each single pass is left out; `--json` prints it.
    """
    shown = {
        _TITLES.get(name, name.replace("_", " ")): value
        for name, value in row.items()
        if name not in ("rates", "extra_bytes")
    }
    if "extra_bytes" not in row:
        return shown
    size = row["extra_bytes"]
    return shown | {"extra MB": None if size is None else size / 1e6}


COMMAND = Command(
    bench,
    bench_text,
    _add_flags,
    example="--pair bundled --methods draft-model --batch-size 1,2,4,8",
)
