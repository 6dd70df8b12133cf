"""What each command does: from parsed options to one JSON-able result.

Knows nothing of parsing or printing.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specviz import trace_file
from specviz.commands.batch_commands import batch_options, bench_batch, race_batch, trace_files
from specviz.commands.listing import list_methods, list_pairs, report_pair
from specviz.commands.prompt_options import chosen_prompt
from specviz.decoding.drafters.registry import DRAFTERS, method_named
from specviz.errors import InputError
from specviz.experiments.benchmark.benchmark import Plan, benchmark
from specviz.experiments.run.blocks import Measurement, measure
from specviz.experiments.run.losslessness import measure_losslessness
from specviz.experiments.run.racing import RaceRequest
from specviz.inflation.inflate import inflate, read_shape
from specviz.models.files.hub import local_folder
from specviz.models.pair_catalog import BUNDLED, Pair, custom_pair, pair_named
from specviz.models.pair_loading import load_pair
from specviz.prompts import TASKS, held_out_prompt, held_out_prompts
from specviz.records import DecodingConfig
from specviz.typed_settings import parse_integers, parse_kind

Progress = Callable[[str], None]
_CONTEXT_TOKENS = 24
MAX_REPEATS = 1000
MAX_SAMPLES = 1_000_000


def race(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Both lanes in alternating blocks."""
    _check_integer("repeat", options.repeat, 1, MAX_REPEATS)
    batch_options(options)
    for name in trace_files(options):
        check_writable("trace file", name)
    if options.batch_size is not None:
        return race_batch(options, chosen_pair(options), chosen_config(options), progress)
    task, prompt = chosen_prompt(options)
    request = RaceRequest(
        chosen_pair(options), prompt, chosen_config(options), task, options.device, options.dtype
    )
    measured = measure(request, options.repeat, progress)
    if options.trace:
        trace_file.save(measured.trace, options.trace)
    return _race_result(measured, request)


def methods(options: Namespace, progress: Progress) -> list[dict[str, Any]]:
    """The registry."""
    return list_methods()


def models(options: Namespace, progress: Progress) -> list[dict[str, Any]]:
    """Every named pair, the report on two models that may become one, or a model made larger."""
    if options.inflate is not None:
        return [_inflated(options)]
    if options.shape or options.model:
        raise InputError("shape and model must be given with inflate, got them alone")
    if options.check is None:
        return list_pairs()
    pair = custom_pair(*options.check)
    return [report_pair(pair, options.device, options.dtype)]


def _inflated(options: Namespace) -> dict[str, Any]:
    """The same function in a larger shape, as a folder for --target or --draft."""
    folder = local_folder(options.model or pair_named(BUNDLED).target)
    if folder is None:
        raise InputError(f"model must be a folder to be inflated, got {options.model!r}")
    sizes = dict(_named_integers("shape", options.shape))
    shape = read_shape(folder).with_sizes(sizes)
    size = inflate(folder, Path(options.inflate), shape)
    return {"inflated": options.inflate, "bytes": size, **asdict(shape)}


def lossless(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Emitted tokens against the target's exact distribution, behind the beginnings of held-out
    prompts.
    """
    _check_integer("samples", options.samples, 100, MAX_SAMPLES)
    config = chosen_config(options)
    needs = method_named(config.method).needs
    loaded = load_pair(chosen_pair(options), options.device, options.dtype, needs)
    prompts = ((task, held_out_prompt(task, 1)) for task in TASKS)
    contexts = [loaded.codec.encode(prompt, task)[:_CONTEXT_TOKENS] for task, prompt in prompts]
    found = measure_losslessness(loaded, config, contexts, options.samples, progress)
    return {
        **asdict(found),
        "verdict": found.verdict,
        "method": config.method,
        "rule": config.tree_kind.value,
        "temperature": config.temperature,
    }


def bench(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Every method and draft length on every task."""
    _check_integer("repeat", options.repeat, 1, MAX_REPEATS)
    _check_integer("prompts", options.prompts, 1, len(held_out_prompts(TASKS[0])))
    lengths = parse_integers("draft-lengths", options.draft_lengths)
    if not lengths:
        raise InputError("draft-lengths must be at least one number, got none")
    plan = Plan(
        pair=chosen_pair(options),
        tasks=_words("tasks", options.tasks),
        methods=tuple(DRAFTERS) if options.methods is None else _words("methods", options.methods),
        draft_lengths=lengths,
        temperature=options.temperature,
        max_new_tokens=options.max_new_tokens,
        prompts=options.prompts,
        repeats=options.repeat,
        device=options.device,
        dtype=options.dtype,
    )
    batch_options(options)
    if options.batch_size is not None:
        return bench_batch(options, plan, progress)
    return benchmark(plan, progress)


def _words(name: str, text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise InputError(f"{name} must be at least one name, got {text!r}")
    return words


def _race_result(measured: Measurement, request: RaceRequest) -> dict[str, Any]:
    numbers, trace = asdict(measured.typical), measured.trace
    low, high = measured.spread
    return {
        "baseline": {**numbers["baseline"], "text": measured.baseline_text},
        "speculative": {**numbers["speculative"], "text": measured.text},
        "speedup": measured.speedup,
        "speedup_spread": [low, high],
        "theory_speedup": numbers["theory_speedup"],
        "lossless": request.config.tree_kind.is_lossless,
        "identical": numbers["identical"],
        "first_divergence": numbers["first_divergence"],
        "device": trace.device,
        "dtype": trace.dtype,
        "pair": request.pair.name,
        "method": trace.config.method,
    }


def chosen_pair(options: Namespace) -> Pair:
    if options.target is None and options.draft is None:
        return pair_named(options.pair)
    if options.target is None or options.draft is None:
        raise InputError("target and draft must be given together, got only one of them")
    return custom_pair(options.target, options.draft)


def chosen_config(options: Namespace) -> DecodingConfig:
    method = method_named(options.method)
    branching = method.default_branching[: max(1, options.draft_length)]
    return DecodingConfig(
        method=method.name,
        draft_length=options.draft_length,
        branching=branching
        if options.branching is None
        else parse_integers("branching", options.branching),
        tree_kind=parse_kind("rule", options.rule or "", method.kinds),
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
        max_new_tokens=getattr(options, "max_new_tokens", DecodingConfig().max_new_tokens),
        options=_method_options(options.option),
    )


def _method_options(given: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """`["nodes=16"]` -> (("nodes", 16),); which names there are the method says."""
    return _named_integers("option", given)


def _named_integers(option: str, given: Sequence[str]) -> tuple[tuple[str, int], ...]:
    parsed: dict[str, int] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not name or not value.lstrip("-").isdecimal() or not value.isascii() or len(value) > 9:
            raise InputError(f"{option} must be NAME=INTEGER, such as nodes=16, got {text!r}")
        parsed[name] = int(value)
    return tuple(parsed.items())


def check_writable(what: str, name: str) -> None:
    """Before the measurement: a place that cannot be written must not cost its result."""
    try:
        Path(name).open("ab").close()
    except OSError as error:
        raise InputError(f"{what} {name!r} cannot be written: {error.strerror}") from None


def _check_integer(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InputError(f"{name} must be an integer from {low} to {high}, got {value}")
