"""Exactness of the bundled pair: both lanes write the same text, with captured steps or without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any
from unittest.mock import patch

from specviz.decoding.drafters.registry import method_named
from specviz.decoding.rules.rule_table import rule_named
from specviz.experiments.run.blocks import run_lanes
from specviz.experiments.run.losslessness import held_out_contexts, measure_losslessness
from specviz.experiments.run.racing import Race, RaceRequest
from specviz.metrics import summarise
from specviz.metrics.run_summary import Divergence
from specviz.models import pair_loading
from specviz.models.files import loading
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.local_model import LocalModel
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_loading import MODELS_IN_MEMORY, Store, load_pair
from specviz.prompts import held_out_prompt
from specviz.records import BASELINE, SPECULATIVE, Prefill, TokenStep
from tests.gpu.probe_results import Results
from tests.gpu.scale import Scale
from tests.gpu.step import PROBLEM, Measure

TASK = "code"
HEATS = (0.0, 0.8)
DRAFT_LENGTH = 4
# If the two best logits are closer than this, a sum in another order may choose another token. Each
# value is well above the rounding error of a logit of about 16.
TIE = {"float32": 1e-3, "bfloat16": 0.25}
_capturing = Store(MODELS_IN_MEMORY)


def parts(scale: Scale, results: Results) -> Iterator[tuple[str, Measure]]:
    for dtype in scale.dtypes:
        for method in scale.methods:
            for heat in HEATS:
                yield f"{method} {dtype} {heat:g}", partial(compare, scale, dtype, method, heat)
    yield "distribution", partial(distribution, scale)


def compare(scale: Scale, dtype: str, method: str, heat: float) -> dict[str, Any]:
    """Run one race with captured steps and one kernel by kernel, and compare them."""
    pair = pair_named(BUNDLED)
    config = method_named(method).usual(
        DRAFT_LENGTH, temperature=heat, max_new_tokens=scale.new_tokens, seed=7
    )
    request = RaceRequest(pair, held_out_prompt(TASK, 1), config, TASK, scale.device, dtype)
    with captured_models():
        captured = run_lanes(request, (BASELINE, SPECULATIVE))
        with uncaptured():
            plain = run_lanes(request, (BASELINE, SPECULATIVE))
    summary = summarise(captured.trace())
    found, rounding = summary.first_divergence, _divergence(captured, plain)
    values: dict[str, Any] = {
        "tokens": summary.speculative.tokens,
        "acceptance_rate": summary.speculative.acceptance_rate,
        # `identical` is None above temperature 0, where the texts of the lanes may differ.
        "is_same_text": summary.identical,
        "first_divergence": asdict(found) if found else None,
        "as_uncaptured": {lane: _alike(captured, plain, lane) for lane in (BASELINE, SPECULATIVE)},
        "captured_divergence": asdict(rounding) if rounding else None,
    }
    problems = []
    if rule_named(config.rule).is_lossless and _is_wrong(found, dtype):
        problems.append(f"the lanes write two texts: {found}")
    if heat == 0 and _is_wrong(rounding, dtype):
        problems.append(f"captured and uncaptured steps write two texts: {rounding}")
    return values | ({PROBLEM: "; ".join(problems)} if problems else {})


def _is_wrong(found: Divergence | None, dtype: str) -> bool:
    """Return whether two texts differ at a token whose margin is too large for rounding errors."""
    return found is not None and (found.margin is None or found.margin > TIE[dtype])


def _alike(one: Race, other: Race, lane: str) -> int:
    """Return how many tokens at the start of the lane `lane` are equal in two races."""
    mine, theirs = one.emitted_ids(lane), other.emitted_ids(lane)
    pairs = enumerate(zip(mine, theirs, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(mine), len(theirs)))


def _divergence(captured: Race, plain: Race) -> Divergence | None:
    """Return where the baselines of two races differ, with the gap of the two best logits there."""
    baseline = captured.trace().lane(BASELINE)
    if baseline.emitted_ids == plain.emitted_ids(BASELINE):
        return None
    index = _alike(captured, plain, BASELINE)
    margins = [
        each.position.margin if isinstance(each, Prefill) else each.margin
        for each in baseline.events
        if isinstance(each, Prefill | TokenStep)
    ]
    return Divergence(index, margins[index] if index < len(margins) else None)


def distribution(scale: Scale) -> dict[str, Any]:
    """Sample rounds on the device, and test their tokens against the target's distribution."""
    method = method_named("draft-model")
    config = method.usual(DRAFT_LENGTH, temperature=0.8)
    with captured_models():
        loaded = load_pair(pair_named(BUNDLED), scale.device, "float32", method.needs)
        contexts = held_out_contexts(loaded.codec)[:1]
        found = measure_losslessness(loaded, config, contexts, scale.samples, lambda line: None)
    values = {"verdict": found.verdict, "p_value": found.p_value, "samples": found.samples}
    return values if found.verdict == "lossless" else values | {PROBLEM: "the output is biased"}


@contextmanager
def captured_models() -> Iterator[None]:
    """Load models inside the `with` block as capturing models, even on a CPU (in a rehearsal).

    The capturing models have their own store. Models that were loaded earlier must not capture CUDA
    graphs.
    """
    kept = patch.object(pair_loading, "_store", _capturing)
    with kept, patch.object(loading, "_own_kind", lambda device: CapturedModel):
        yield


@contextmanager
def uncaptured() -> Iterator[None]:
    """Run capturing models kernel by kernel inside the `with` block.

    Their caches get no graph buffers.
    """
    with patch.object(CapturedModel, "new_cache", LocalModel.new_cache):
        yield
