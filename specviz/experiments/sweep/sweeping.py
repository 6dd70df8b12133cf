"""Measures a method over a grid of settings, in blocks that alternate between the lanes.

A block runs all prompts of a point in one lane: baseline, speculative, speculative, baseline, … so
that a drift of the machine hits both alike; speedups compare neighbours. How far blocks differ by
chance is measured by running the baseline against itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from statistics import mean, median
from typing import Any

from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError, whole_between
from specviz.experiments.run.batch_race import run_rows, warm_up_rows
from specviz.experiments.run.blocks import alternating, run_lanes, warm_up
from specviz.experiments.run.racing import Race, RaceRequest
from specviz.experiments.sweep.sweep_axis import Value, axis_named
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.metrics.measured_costs import Costs, measured_costs, theory_band
from specviz.metrics.round_totals import RoundTotals
from specviz.metrics.run_summary import TheoryBand
from specviz.records import BASELINE, SPECULATIVE, Trace
from specviz.slices import give_way
from specviz.theory import waiting

MAX_POINTS = 512
MAX_REPEATS = 100
FIRST = ("draft-length", "method")  # a method's own shape is cut to the draft length, and reset
ROUND_PARTS = ("draft_prefill_seconds", "draft_seconds", "verify_seconds", "host_seconds")
PARTS = ("prefill_seconds", *ROUND_PARTS)  # of the seconds of a speculative lane
Place = tuple[tuple[str, Value], ...]  # of a point: each axis with its value


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """What to measure: every combination of the axes' values, the last axis fastest."""

    setting: SweepSetting
    axes: tuple[tuple[str, tuple[Value, ...]], ...]
    repeats: int = 2

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        if not 1 <= len(names) <= 2 or len(set(names)) != len(names):
            raise InputError(f"axis must be one or two different ones, got {', '.join(names)}")
        whole_between(self.repeats, "repeat", 1, MAX_REPEATS)
        if len(self.places) > MAX_POINTS:
            raise InputError(f"axis must make at most {MAX_POINTS} points, got {len(self.places)}")
        for place in self.places:
            self.setting_at(place)

    @property
    def places(self) -> tuple[Place, ...]:
        names = [name for name, _ in self.axes]
        grid = product(*(values for _, values in self.axes))
        return tuple(tuple(zip(names, values, strict=True)) for values in grid)

    def setting_at(self, place: Place) -> SweepSetting:
        """InputError where a value breaks a rule."""
        setting, values = self.setting, dict(place)
        for name in (*FIRST, *values.keys() - set(FIRST)):
            if name in values:
                setting = axis_named(name).apply(setting, values[name])
        return setting

    def check_methods(self) -> None:
        """InputError where a point's method does not take its settings."""
        for place in self.places:
            config = self.setting_at(place).config
            method_named(config.method).check(config)


@dataclass(frozen=True, slots=True)
class SweepStep:
    """Progress: points done, of how many; the seconds that are likely left, None at first.

    `point` is the JSON-able result where this step ended one.
    """

    done: int
    points: int
    seconds_left: float | None
    point: dict[str, Any] | None = None


class Sweep:
    """One run of a sweep. Iterate it once; closing the iterator ends the race under way."""

    def __init__(
        self, plan: SweepPlan, known: Mapping[Place, dict[str, Any]] | None = None
    ) -> None:
        """`known` points, of a sweep that was cut off, are not measured again."""
        self.plan = plan
        self.points = dict(known or {})
        self._runs = self._all_runs = 0
        self._began = 0.0

    def __iter__(self) -> Iterator[SweepStep]:
        self._began = time.perf_counter()
        places = [place for place in self.plan.places if place not in self.points]
        settings = map(self.plan.setting_at, places)
        self._all_runs = 2 * self.plan.repeats * sum(each.batches for each in settings)
        for place in places:
            yield from self._measure(place)

    def _measure(self, place: Place) -> Iterator[SweepStep]:
        setting = self.plan.setting_at(place)
        groups, shared = setting.groups, setting.batch
        meter = PointMeter()
        warm_up_rows(groups[0], shared)
        for repeat in range(self.plan.repeats):
            for lane in alternating(repeat):
                for group in groups:
                    meter.add_rows(lane, run_rows(group, lane, shared))
                    self._runs += 1
                    yield self._step()
            meter.end_block()
        self.points[place] = {"setting": dict(place), **meter.result()}
        yield replace(self._step(), point=self.points[place])

    def _step(self) -> SweepStep:
        done, points = len(self.points), len(self.plan.places)
        left = self._all_runs - self._runs
        spent = time.perf_counter() - self._began
        return SweepStep(done, points, spent / self._runs * left if self._runs else None)


def noise_ratios(setting: SweepSetting, repeats: int) -> Iterator[float]:
    """Ratios of the baseline's tokens per second in neighbouring blocks: 1 but for noise."""
    requests = setting.requests
    if repeats:
        warm_up(requests[0])
    for _ in range(repeats):
        first, second = _baseline_rate(requests), _baseline_rate(requests)
        yield second / first


def _baseline_rate(requests: Sequence[RaceRequest]) -> float:
    """Of one block."""
    meter = PointMeter()
    for request in requests:
        meter.add(BASELINE, run_lanes(request, [BASELINE]))
        give_way()
    return meter.baseline_rate


class _LaneSums:
    """Tokens and own seconds of one lane."""

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0
        self.first_seconds: list[float] = []  # to the first token: of the prefill

    def add(self, tokens: int, first_seconds: float, seconds: float) -> None:
        self.tokens += tokens
        self.seconds += first_seconds + seconds
        self.first_seconds.append(first_seconds)

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class _Block:
    """Both lanes over all prompts; `parts` of the speculative lane's seconds, by PARTS."""

    baseline: _LaneSums
    speculative: _LaneSums
    parts: Mapping[str, float]

    @property
    def speedup(self) -> float:
        return self.speculative.rate / self.baseline.rate


def _common_rate(lanes: Sequence[_LaneSums]) -> float:
    """All tokens over all seconds, as the mean seconds of the parts have it."""
    return sum(each.tokens for each in lanes) / sum(each.seconds for each in lanes)


class PointMeter:
    """Add a block's races, both lanes in any order, then end the block; `result()` at the end."""

    def __init__(self) -> None:
        self._block = {lane: _LaneSums() for lane in (BASELINE, SPECULATIVE)}
        self._blocks: list[_Block] = []
        self._first_seconds: dict[str, list[float]] = {lane: [] for lane in (BASELINE, SPECULATIVE)}
        self._totals = RoundTotals()
        self._decided = RoundTotals()  # of the first block: others repeat its draws, so its text
        self._step_seconds = 0.0
        self._steps = 0
        self._prompt_tokens: list[int] = []
        self._drafter_bytes: int | None = None
        self._cache_bytes: int | None = None  # None where it was not seen
        self._rows = 1  # decoded together
        self._parts = dict.fromkeys(PARTS, 0.0)  # of the block, of whole batches

    def add(self, lane: str, race: Race) -> None:
        """One prompt's run of one lane."""
        self.add_rows(lane, (race.trace(),))

    def add_rows(self, lane: str, traces: Sequence[Trace]) -> None:
        """One lane's run of prompts that were decoded together.

        A row's seconds are those of the whole batch: the batch's time is that of its longest row.
        """
        if lane == BASELINE:
            self._add_baseline(traces)
        else:
            self._add_speculative(traces)

    def _add_baseline(self, traces: Sequence[Trace]) -> None:
        lanes = [trace.lane(BASELINE) for trace in traces]
        longest = max(lanes, key=lambda lane: len(lane.steps))
        assert longest.prefill is not None
        seconds = sum(step.seconds for step in longest.steps)
        self._step_seconds += seconds
        self._steps += len(longest.steps)
        tokens = sum(len(lane.emitted_ids) for lane in lanes)
        self._block[BASELINE].add(tokens, longest.prefill.seconds, seconds)

    def _add_speculative(self, traces: Sequence[Trace]) -> None:
        longest = max(traces, key=lambda trace: len(trace.rounds))
        assert longest.prefill is not None
        self._rows = len(traces)
        for trace in traces:
            for each in trace.rounds:
                self._totals.add(each)
                if not self._blocks:
                    self._decided.add(each)
            self._prompt_tokens.append(len(trace.prompt_ids))
            self._drafter_bytes = trace.main.drafter_bytes
            self._add_cache(trace.main.drafter_cache_bytes)
        self._parts["prefill_seconds"] += longest.prefill.seconds
        for each in longest.rounds:
            for name in ROUND_PARTS:
                self._parts[name] += getattr(each, name)
        seconds = sum(each.seconds for each in longest.rounds)
        tokens = sum(len(trace.emitted_ids) for trace in traces)
        self._block[SPECULATIVE].add(tokens, longest.prefill.seconds, seconds)

    def _add_cache(self, held: int | None) -> None:
        """The most that any text needed."""
        if held is not None:
            self._cache_bytes = max(held, self._cache_bytes or 0)

    @property
    def baseline_rate(self) -> float:
        """Tokens per second of the block so far."""
        return self._block[BASELINE].rate

    def end_block(self) -> None:
        """Both lanes have decoded every prompt once."""
        self._blocks.append(_Block(self._block[BASELINE], self._block[SPECULATIVE], self._parts))
        for lane, sums in self._block.items():
            self._first_seconds[lane] += sums.first_seconds
        self._parts = dict.fromkeys(PARTS, 0.0)
        self._block = {lane: _LaneSums() for lane in (BASELINE, SPECULATIVE)}

    def result(self) -> dict[str, Any]:
        """JSON-able; speedups one per block. Rates and the seconds of the parts are those of the
        middle blocks, so that the parts add up to what the rate says of a token.

        Texts, rounds and what was accepted are those of the first block: a repeat makes the same
        draws, so it is no further evidence and must make no interval narrower.
        """
        decided, middle = self._decided, self._middle_blocks()
        speedups = [block.speedup for block in self._blocks]
        baseline_rate = _common_rate([block.baseline for block in middle])
        rate = _common_rate([block.speculative for block in middle])
        costs = self._costs()
        band = self._theory(costs) if costs else None
        return {
            "speedup": rate / baseline_rate,
            "speedup_spread": [min(speedups), max(speedups)],
            "speedups": speedups,
            "baseline_tokens_per_second": baseline_rate,
            "tokens_per_second": rate,
            "baseline_ttft_seconds": median(self._first_seconds[BASELINE]),
            "ttft_seconds": median(self._first_seconds[SPECULATIVE]),
            "prompt_tokens": mean(self._prompt_tokens),
            "texts": self._texts,
            "rounds": decided.rounds,
            "acceptance_rate": decided.acceptance_rate,
            "rejection_rate": decided.rejection_rate,
            "draft_utilization": decided.draft_utilization,
            "block_efficiency": decided.block_efficiency,
            "acceptance_by_depth": [asdict(each) for each in decided.acceptance_by_depth],
            "cost_ratio": costs.c if costs else None,
            "verify_overhead": costs.v if costs else None,
            "theory_speedup": band.expected if band else None,
            "theory_band": [band.low, band.high] if band else None,
            **{name: mean(block.parts[name] for block in middle) for name in PARTS},
            "drafter_bytes": self._drafter_bytes,
            "drafter_cache_bytes": self._cache_bytes,
        }

    def _middle_blocks(self) -> list[_Block]:
        """The block of the middle speedup; of an even number of blocks the two in the middle."""
        ordered = sorted(self._blocks, key=lambda block: block.speedup)
        half = (len(ordered) - 1) // 2
        return ordered[half : len(ordered) - half]

    @property
    def _texts(self) -> int:
        """Of one block."""
        return len(self._prompt_tokens) // len(self._blocks)

    def _costs(self) -> Costs | None:
        if not self._steps:
            return None
        return measured_costs(self._totals, self._step_seconds / self._steps)

    def _theory(self, costs: Costs) -> TheoryBand:
        """At the measured acceptance and costs; a batch ends with its longest row."""
        band, decided = theory_band(self._decided, costs), self._decided
        rate, longest = decided.acceptance_rate or 0.0, max(decided.rounds_by_draft_length)
        tokens = round(decided.tokens / self._texts)
        survival = [rate**depth for depth in range(1, longest + 1)]
        waits = waiting(self._rows, tokens, survival)
        return TheoryBand(band.low / waits, band.expected / waits, band.high / waits)
