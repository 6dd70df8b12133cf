"""The measurements behind the verdicts on claims.

Each measurement runs the setting that is closest to a claim, on the bundled pair. Results are
JSON-ready values; another module judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import singledispatchmethod
from typing import Any

from specviz.claims.claim import (
    Batches,
    Clocks,
    Distributions,
    Exactness,
    Grid,
    LibraryLength,
    Noise,
    Setting,
)
from specviz.decoding.batch_options import BatchOptions
from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError
from specviz.experiments.benchmark.batch_benchmark import batch_benchmark
from specviz.experiments.benchmark.benchmark import Plan
from specviz.experiments.benchmark.peers import LibraryPeer
from specviz.experiments.run.blocks import measure
from specviz.experiments.run.losslessness import (
    held_out_contexts,
    measure_distributions,
    measure_losslessness,
)
from specviz.experiments.run.racing import device_name
from specviz.experiments.sweep.sweep_axis import axis_named
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import Sweep, SweepPlan, noise_ratios
from specviz.metrics import BaselineSummary
from specviz.models.files.loading import resolve_device, resolve_dtype
from specviz.models.pair_catalog import BUNDLED, Pair, pair_named
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.prompts import held_out_prompt

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Budget:
    """The numbers of prompts, of new tokens per prompt, and of repeats for each measured point."""

    prompts: int
    max_new_tokens: int
    repeats: int
    samples: int  # number of rounds to sample for an `Exactness` setting


BUDGETS = {
    "short": Budget(prompts=2, max_new_tokens=32, repeats=3, samples=400),
    "usual": Budget(prompts=5, max_new_tokens=96, repeats=3, samples=2000),
    "long": Budget(prompts=20, max_new_tokens=128, repeats=5, samples=10_000),
}


class ClaimMeasuring:
    """The measurements of settings; a setting that several claims share is measured once."""

    def __init__(
        self,
        budget: Budget,
        device: str = "auto",
        dtype: str = "float32",
        progress: Progress = lambda line: None,
        known: dict[Setting, dict[str, Any]] | None = None,
    ) -> None:
        """Begin with the earlier results in `known`; each new result is added to `known`."""
        self._budget = budget
        self._device = device
        self._dtype = dtype
        self._progress = progress
        self._known = {} if known is None else known

    def results(self, settings: Sequence[Setting]) -> list[dict[str, Any]]:
        """Return the result of each setting, in order. Raises InputError for an invalid setting."""
        for setting in settings:
            if setting not in self._known:
                self._known[setting] = self._measure(setting)
        return [self._known[setting] for setting in settings]

    @property
    def measured_on(self) -> dict[str, str]:
        """Return the names of the pair, the device and the dtype.

        Raises InputError for an unknown device or dtype.
        """
        device = device_name(resolve_device(self._device))
        dtype = str(resolve_dtype(self._dtype)).removeprefix("torch.")
        return {"pair": BUNDLED, "device": device, "dtype": dtype}

    @property
    def _pair(self) -> Pair:
        return pair_named(BUNDLED)

    @singledispatchmethod
    def _measure(self, setting: Setting) -> dict[str, Any]:
        raise AssertionError(f"no experiment for {setting}")

    @_measure.register
    def _(self, setting: Grid) -> dict[str, Any]:
        base = self._setting(setting.method, setting.draft_length, setting.task)
        axis = axis_named(setting.axis)
        plan = SweepPlan(base, ((axis.name, axis.values(setting.values)),), self._budget.repeats)
        points = []
        for step in Sweep(plan):
            if step.point is not None:
                points.append(step.point)
                place = f"{axis.name} {step.point['setting'][axis.name]}"
                self._progress(f"{setting.method}, {place}: {step.point['speedup']:.2f}x")
        return {"points": points}

    @_measure.register
    def _(self, setting: Batches) -> dict[str, Any]:
        plan = Plan(
            self._pair,
            ("code",),
            ("draft-model",),
            (setting.draft_length,),
            max_new_tokens=self._budget.max_new_tokens,
            repeats=self._budget.repeats,
            device=self._device,
            dtype=self._dtype,
        )
        found = batch_benchmark(plan, setting.sizes, BatchOptions(), self._progress)
        # A claim needs the results of all batch sizes. If the pair cannot run one of them, the
        # measurement fails.
        for refusal in found["refusals"]:
            raise InputError(refusal["why"])
        return found

    @_measure.register
    def _(self, setting: Clocks) -> dict[str, Any]:
        return {
            "clocks": [
                self._clocks(method, tokens)
                for method in setting.methods
                for tokens in setting.prompt_tokens
            ]
        }

    def _clocks(self, method: str, prompt_tokens: int | None) -> dict[str, Any]:
        setting = replace(self._setting(method), prompt_tokens=prompt_tokens)
        measured = [measure(request, self._budget.repeats) for request in setting.requests]
        summaries = [summary for each in measured for summary in each.summaries]
        self._progress(f"{method}: times to the first token")
        return {
            "method": method,
            "prompt_tokens": sum(len(m.trace.prompt_ids) for m in measured) / len(measured),
            "ttft_seconds": [each.speculative.ttft_seconds for each in summaries],
            "baseline_ttft_seconds": [each.baseline.ttft_seconds for each in summaries],
            "step_seconds": [_step_seconds(each.baseline) for each in summaries],
        }

    @_measure.register
    def _(self, setting: Exactness) -> dict[str, Any]:
        base = self._setting(setting.method, setting.draft_length)
        config = replace(base.config, temperature=setting.temperature)
        loaded = self._load(setting.method)
        found = measure_losslessness(
            loaded, config, held_out_contexts(loaded.codec), self._budget.samples, self._progress
        )
        return {**asdict(found), "verdict": found.verdict}

    @_measure.register
    def _(self, setting: Distributions) -> dict[str, Any]:
        loaded = self._load("draft-model")
        return {
            "distributions": measure_distributions(
                loaded, held_out_contexts(loaded.codec), setting.temperatures
            )
        }

    @_measure.register
    def _(self, setting: Noise) -> dict[str, Any]:
        return {"noise": list(noise_ratios(self._setting(), self._budget.repeats))}

    @_measure.register
    def _(self, setting: LibraryLength) -> dict[str, Any]:
        ids = self._load("draft-model").codec.encode(held_out_prompt("code", 1), "code")
        ways = {"argument": LibraryPeer.assisted_by_argument, "config": LibraryPeer.assisted}
        counts: dict[str, list[int]] = {}
        for name, decode in ways.items():
            counts[name] = []
            for length in setting.lengths:
                peer = LibraryPeer(self._pair, self._device, self._dtype)
                decode(peer, ids, self._budget.max_new_tokens, length)
                counts[name].append(peer.target_forwards)
        return {"lengths": list(setting.lengths), "target_forwards": counts}

    def _setting(
        self, method: str = "draft-model", draft_length: int = 5, task: str = "code"
    ) -> SweepSetting:
        tokens = self._budget.max_new_tokens
        config = method_named(method).usual(draft_length, max_new_tokens=tokens)
        return SweepSetting(
            self._pair, config, task, self._budget.prompts, None, self._device, self._dtype
        )

    def _load(self, method: str) -> LoadedPair:
        return load_pair(self._pair, self._device, self._dtype, method_named(method).needs)


def _step_seconds(baseline: BaselineSummary) -> float:
    assert baseline.ttft_seconds is not None
    return (baseline.seconds - baseline.ttft_seconds) / max(1, baseline.tokens - 1)
