"""Runs of every method, first on a tiny model and then on the meta device.

The meta device computes no numbers, so its run receives the numbers of the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
import torch

from specviz.decoding import autoregressive, batch
from specviz.decoding.batch_options import BatchOptions
from specviz.decoding.drafters.base import HostTransfer
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.drafters.self_draft import BITS
from specviz.decoding.drafters.tree_budget import NODES
from specviz.decoding.speculative import SpeculativeRun
from specviz.decoding.target import cache_capacity
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, Drawing
from tests.decoding.batch_runs import batch_parts
from tests.decoding.conftest import tiny_model
from tests.decoding.tiny_parts import parts_for
from tests.rehearsal.shapes import Shape, model_of, parts_of
from tests.rehearsal.stand_in import META, StandIn, Tape, stand_in_for_cuda, watching

# Options that are fixed, because their default values depend on measured times or on weights.
SIZES = {NODES: 6, BITS: 8}
PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)
ROUNDS = 2


def config_of(method: Method, kind: Drawing, **changes: Any) -> DecodingConfig:
    """Return a configuration for a few rounds, with a fixed instead of a measured tree size."""
    settings: dict[str, Any] = {
        "draft_length": 3,
        "branching": method.default_branching,
        "drawing": kind,
        "max_new_tokens": 24,
        "temperature": 0.9,
        "seed": 5,
        "options": tuple((each.name, SIZES[each]) for each in method.options if each in SIZES),
    }
    return DecodingConfig(method=method.name, **(settings | changes))


def tiny_pair(kind: Any = CapturedModel) -> tuple[Any, Any]:
    """Return the tiny target and the tiny draft on which runs are recorded."""
    return tiny_model(1, 3, "tiny target", kind=kind), tiny_model(2, 1, "tiny draft", kind=kind)


Script = Callable[[Any, Parts, StandIn], Any]


def rehearsed(
    script: Script,
    pair: tuple[Shape, Shape],
    dtype: torch.dtype,
    patch: pytest.MonkeyPatch,
    kind: Any = CapturedModel,
) -> tuple[StandIn, Any]:
    """Run a script on a tiny pair, then on the meta device with the recorded numbers.

    Returns the mode that watched the second run, and the script's result.
    """
    stand_in_for_cuda(patch)
    tape = Tape()
    patch.setattr(HostTransfer, "to_host", lambda transfer, each: tape.to_host(transfer, each))
    target, draft = tiny_pair(kind)
    with watching(StandIn(torch.device("cpu"), tape)) as mode:
        script(target, parts_for(target, draft), mode)
    tape.rewind()
    with watching(StandIn(META, tape, dtype)) as mode:
        models = [model_of(shape, dtype, kind) for shape in pair]
        found = script(models[0], parts_of(pair[0], *models), mode)
    assert tape.is_at_end
    return mode, found


@dataclass(frozen=True, slots=True)
class RoundCost:
    """The launches, uploads and waits of the host in one round."""

    operations: int
    uploads: int
    copies: int  # the copies to the host that the decoder itself counts
    # names of the operations for which the host waits, without the counted copies
    waits: tuple[str, ...]


def single(config: DecodingConfig, prompt: Sequence[int] = PROMPT) -> Script:
    """Return a script that runs the prefill and ROUNDS rounds of one prompt."""

    def script(target: Any, parts: Parts, mode: StandIn) -> list[RoundCost]:
        drafter = make_drafter(Setup(target, parts, config, cache_capacity(prompt, config)))
        run = SpeculativeRun(target, drafter, prompt, config, ())
        run.prefill()
        costs = [_cost(run.round, run.target.transfer, mode) for _ in range(ROUNDS)]
        drafter.close()
        return costs

    return script


def several(config: DecodingConfig) -> Script:
    """Return a script of a batch: the prefill and ROUNDS rounds of rows with different lengths."""

    def script(target: Any, parts: Parts, mode: StandIn) -> list[RoundCost]:
        rows, drafter, *settings = batch_parts(target, parts, config)
        run = batch.BatchRun(rows, drafter, batch.new_rows(*settings, ()), BatchOptions())
        run.prefill()
        costs = []
        for _ in range(ROUNDS):
            costs.append(_cost(run.round, rows.transfer, mode))
        drafter.close()
        return costs

    return script


def both_lanes(config: DecodingConfig, prompt: Sequence[int]) -> Script:
    """Return a script of a race; the baseline's cache is kept while the other lane runs."""

    def script(target: Any, parts: Parts, mode: StandIn) -> None:
        plain = autoregressive.decode(target, prompt, config)
        for _ in islice(plain, 1 + ROUNDS):
            pass
        single(config, prompt)(target, parts, mode)
        plain.close()

    return script


def baseline(config: DecodingConfig) -> Script:
    """Return a script that runs the prefill and ROUNDS steps of the baseline."""

    def script(target: Any, parts: Parts, mode: StandIn) -> None:
        for _ in islice(autoregressive.decode(target, PROMPT, config), 1 + ROUNDS):
            pass

    return script


def _cost(step: Callable[[], object], transfer: HostTransfer, mode: StandIn) -> RoundCost:
    before = mode.operations, mode.uploads, transfer.count, len(mode.waits)
    with mode.in_a_round():
        step()
    return RoundCost(
        mode.operations - before[0],
        mode.uploads - before[1],
        transfer.count - before[2],
        tuple(mode.waits[before[3] :]),
    )
