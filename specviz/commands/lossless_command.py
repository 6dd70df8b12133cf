"""The command `lossless`: it tests whether the emitted tokens follow the target's distribution."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import facts
from specviz.commands.flags import (
    add_config_flags,
    add_pair_flags,
    chosen_config,
    chosen_pair,
)
from specviz.decoding.drafters.registry import method_named
from specviz.errors import whole_between
from specviz.experiments.run.losslessness import held_out_contexts, measure_losslessness
from specviz.models.pair_catalog import BUNDLED
from specviz.models.pair_loading import load_pair

_MAX_SAMPLES = 1_000_000


def _add_flags(parser: ArgumentParser) -> None:
    many_draws = (
        "a pair of models by its name; `specviz models` lists them (default %(default)s, "
        "which is quick)"
    )
    add_pair_flags(parser, default=BUNDLED, help=many_draws)
    add_config_flags(parser, temperature=1.0)
    parser.add_argument(
        "--samples",
        type=int,
        default=2000,
        metavar="N",
        help="number of rounds to sample (default %(default)s)",
    )


def lossless(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Sample many rounds after the beginnings of held-out prompts, and test their tokens."""
    whole_between(options.samples, "samples", 100, _MAX_SAMPLES)
    config = chosen_config(options)
    needs = method_named(config.method).needs
    loaded = load_pair(chosen_pair(options), options.device, options.dtype, needs)
    contexts = held_out_contexts(loaded.codec)
    found = measure_losslessness(loaded, config, contexts, options.samples, progress)
    return {
        **asdict(found),
        "verdict": found.verdict,
        "context_tokens": [len(context) for context in contexts],
        "method": config.method,
        "drawing": config.drawing.value,
        "rule": config.rule,
        "temperature": config.temperature,
    }


COMMAND = Command(
    lossless,
    facts,
    _add_flags,
    example="--method draft-tree --drawing without-replacement --temperature 1",
)
