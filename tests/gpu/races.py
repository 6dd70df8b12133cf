"""Races of the pairs on this machine, and step times of their models and of transformers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from specviz import trace_file
from specviz.decoding.drafters.registry import method_named
from specviz.experiments.benchmark.step_costs import step_costs
from specviz.experiments.run.blocks import measure
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import Pair, pair_named
from specviz.models.pair_check import needs_missing
from specviz.prompts import held_out_prompt
from tests.gpu.probe_results import Results
from tests.gpu.scale import Scale
from tests.gpu.step import Measure

TASK = "code"
HEATS = (0.0, 0.8)
DRAFT_LENGTH = 5


def parts(scale: Scale, results: Results) -> Iterator[tuple[str, Measure]]:
    pairs = [pair for pair in map(pair_named, scale.pairs) if pair.is_here]
    for pair in pairs:
        yield f"{pair.name} steps", partial(one_token, scale, pair)
    for heat in HEATS:
        for method in scale.methods:
            for pair in pairs:
                if not any(needs_missing(pair, method_named(method).needs)):
                    name = f"{pair.name} {method} {heat:g}"
                    yield name, partial(race, scale, results, pair, method, heat)


def one_token(scale: Scale, pair: Pair) -> dict[str, Any]:
    """Measure the time of one token: our model with and without capture, and transformers.

    The result also has the memory bandwidth.
    """
    costs = step_costs(pair, scale.device, scale.dtype, scale.race_repeats, lambda line: None)
    return {"bandwidth": costs.bandwidth, "models": [asdict(each) for each in costs.models]}


def race(scale: Scale, results: Results, pair: Pair, method: str, heat: float) -> dict[str, Any]:
    """Race a method with its baseline and save the trace."""
    config = method_named(method).usual(
        DRAFT_LENGTH, temperature=heat, max_new_tokens=scale.race_tokens
    )
    prompt = held_out_prompt(TASK, 1, pair.instruct)
    request = RaceRequest(pair, prompt, config, TASK, scale.device, scale.dtype)
    found = measure(request, scale.race_repeats)
    trace_file.save(
        found.trace, str(results.folder / f"trace-{pair.name}-{method}-{heat:g}.json.gz")
    )
    numbers = found.typical
    ours, plain = numbers.speculative, numbers.baseline
    return {
        "speedup": found.speedup,
        "speedup_spread": list(found.spread),
        "theory_speedup": numbers.theory_speedup,
        "acceptance_rate": ours.acceptance_rate,
        "block_efficiency": ours.block_efficiency,
        "identical": numbers.identical,
        "margin": numbers.first_divergence.margin if numbers.first_divergence else None,
        "tokens_per_second": ours.tokens_per_second,
        "baseline_tokens_per_second": plain.tokens_per_second,
        "draft_seconds": ours.draft_seconds,
        "verify_seconds": ours.verify_seconds,
        "host_seconds": ours.host_seconds,
    }
