"""A sweep measures a method over a grid of settings, in blocks that alternate between the lanes.

A block runs all prompts of a point in one lane: baseline, speculative, speculative, baseline, … If
the machine slowly gets faster or slower, this therefore affects both lanes alike, and speedups
compare neighbouring blocks. Comparing the baseline with itself shows how far blocks differ by
chance.
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
from specviz.experiments.run.repeats import DEFAULT_REPEATS
from specviz.experiments.sweep.sweep_axis import Value, axis_named
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.metrics.measured_costs import Costs, measured_costs, theory_band
from specviz.metrics.round_totals import RoundTotals
from specviz.metrics.run_summary import TheoryBand
from specviz.metrics.running_mean import RunningMean
from specviz.metrics.speedup_curve import exceeds
from specviz.records import BASELINE, SPECULATIVE, Trace
from specviz.slices import give_way
from specviz.theory import waiting

MAX_POINTS = 512
MAX_REPEATS = 100
# A new draft length cuts the tree, and a new method replaces the tree. So these axes apply before
# any axis that sets the tree.
FIRST = ("draft-length", "method")
ROUND_PARTS = ("draft_prefill_seconds", "draft_seconds", "verify_seconds", "host_seconds")
# The parts into which the seconds of a speculative lane are split.
PARTS = ("prefill_seconds", *ROUND_PARTS)
Place = tuple[tuple[str, Value], ...]  # one point of the grid: each axis with its value


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The plan of a sweep: every combination of the axes' values.

    The values of the last axis change fastest.
    """

    setting: SweepSetting
    axes: tuple[tuple[str, tuple[Value, ...]], ...]
    repeats: int = DEFAULT_REPEATS

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        if not 1 <= len(names) <= 2 or len(set(names)) != len(names):
            raise InputError(f"axis must name one or two different axes, got {', '.join(names)}")
        whole_between(self.repeats, "repeat", 1, MAX_REPEATS)
        if len(self.places) > MAX_POINTS:
            raise InputError(
                f"axis values must give at most {MAX_POINTS} points together, got "
                f"{len(self.places)}"
            )
        for place in self.places:
            self.setting_at(place)

    @property
    def places(self) -> tuple[Place, ...]:
        names = [name for name, _ in self.axes]
        grid = product(*(values for _, values in self.axes))
        return tuple(tuple(zip(names, values, strict=True)) for values in grid)

    def setting_at(self, place: Place) -> SweepSetting:
        """Return the setting at a point. Raises InputError if a value breaks a rule."""
        setting, values = self.setting, dict(place)
        for name in (*FIRST, *values.keys() - set(FIRST)):
            if name in values:
                setting = axis_named(name).apply(setting, values[name])
        return setting

    def check_methods(self) -> None:
        """Raise InputError if the method of some point rejects that point's settings."""
        for place in self.places:
            config = self.setting_at(place).config
            method_named(config.method).check(config)


@dataclass(frozen=True, slots=True)
class SweepStep:
    """A progress step: the finished points, all points, and the expected remaining seconds.

    `point` is the JSON-ready result if this step finished a point.
    """

    done: int
    points: int
    seconds_left: float | None
    point: dict[str, Any] | None = None


class Sweep:
    """One run of a sweep: iterate over it once; closing the iterator ends the current race."""

    def __init__(
        self, plan: SweepPlan, known: Mapping[Place, dict[str, Any]] | None = None
    ) -> None:
        """Prepare the plan without its `known` points, which an interrupted sweep has measured."""
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
        for repeat in range(2 * self.plan.repeats):
            if repeat >= self.plan.repeats:
                if not meter.is_disturbed:
                    break
                self._all_runs += 2 * len(groups)
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
    """Yield the baseline's speed in one block divided by its speed in the block before.

    Without noise, every ratio is 1.
    """
    requests = setting.requests
    if repeats:
        warm_up(requests[0])
    for _ in range(repeats):
        first, second = _baseline_rate(requests), _baseline_rate(requests)
        yield second / first


def _baseline_rate(requests: Sequence[RaceRequest]) -> float:
    meter = PointMeter()
    for request in requests:
        meter.add(BASELINE, run_lanes(request, [BASELINE]))
        give_way()
    return meter.baseline_rate


class _LaneSums:
    """The sum of the tokens of one lane, and of its seconds on the lane's own clock."""

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0
        self.first_seconds: list[float] = []  # seconds to the first token, of each run

    def add(self, tokens: int, first_seconds: float, seconds: float) -> None:
        self.tokens += tokens
        self.seconds += first_seconds + seconds
        self.first_seconds.append(first_seconds)

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class _Block:
    """One block of both lanes over all prompts.

    `parts` splits the seconds of the speculative lane.
    """

    baseline: _LaneSums
    speculative: _LaneSums
    parts: Mapping[str, float]

    @property
    def speedup(self) -> float:
        return self.speculative.rate / self.baseline.rate


def _common_rate(lanes: Sequence[_LaneSums]) -> float:
    """Return the tokens per second of one lane over several blocks.

    `lanes` has the lane's sums in each block. The result is all tokens divided by all seconds. It
    agrees with the mean seconds of PARTS, which add up to the time per token. A mean of the blocks'
    rates would not agree with them.
    """
    return sum(each.tokens for each in lanes) / sum(each.seconds for each in lanes)


class PointMeter:
    """A meter of one point: add the runs of both lanes in any order, then end the block."""

    def __init__(self) -> None:
        self._block = {lane: _LaneSums() for lane in (BASELINE, SPECULATIVE)}
        self._blocks: list[_Block] = []
        self._first_seconds: dict[str, list[float]] = {lane: [] for lane in (BASELINE, SPECULATIVE)}
        self._totals = RoundTotals()
        # The totals of the first block. The later blocks use the same random draws, so they have
        # the same texts and add no information.
        self._decided = RoundTotals()
        self._steps = RunningMean()  # seconds per step of the baseline
        self._prompt_tokens: list[int] = []
        self._drafter_bytes: int | None = None
        self._cache_bytes: int | None = None  # bytes of the drafter's caches; None if unknown
        self._rows = 1  # number of prompts that the point decodes together
        # Seconds of each part in this block, summed over batches.
        self._parts = dict.fromkeys(PARTS, 0.0)

    def add(self, lane: str, race: Race) -> None:
        """Add the times of one prompt's run to those of its lane, the baseline or the method."""
        self.add_rows(lane, (race.trace(),))

    def add_rows(self, lane: str, traces: Sequence[Trace]) -> None:
        """Add the run of several prompts that were decoded together in one lane.

        A batch takes as long as its longest row, so the seconds are those of the longest row.
        """
        if lane == BASELINE:
            self._add_baseline(traces)
        else:
            self._add_speculative(traces)

    def _add_baseline(self, traces: Sequence[Trace]) -> None:
        lanes = [trace.lane(BASELINE) for trace in traces]
        longest = max(lanes, key=lambda lane: len(lane.steps))
        assert longest.prefill is not None
        for step in longest.steps:
            self._steps.add(step.seconds)
        seconds = sum(step.seconds for step in longest.steps)
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
        if held is not None:
            self._cache_bytes = max(held, self._cache_bytes or 0)

    @property
    def baseline_rate(self) -> float:
        """Return the baseline's tokens per second in the current block so far."""
        return self._block[BASELINE].rate

    def end_block(self) -> None:
        """End the block, after both lanes have decoded every prompt once."""
        self._blocks.append(_Block(self._block[BASELINE], self._block[SPECULATIVE], self._parts))
        for lane, sums in self._block.items():
            self._first_seconds[lane] += sums.first_seconds
        self._parts = dict.fromkeys(PARTS, 0.0)
        self._block = {lane: _LaneSums() for lane in (BASELINE, SPECULATIVE)}

    @property
    def is_disturbed(self) -> bool:
        """Return whether the speedup is above the tokens per forward, which is impossible.

        Other work then disturbed the times, and one more block is needed.
        """
        return exceeds(self._speedup, self._decided.block_efficiency)

    @property
    def _speedup(self) -> float:
        middle = self._middle_blocks()
        rate = _common_rate([block.speculative for block in middle])
        return rate / _common_rate([block.baseline for block in middle])

    def result(self) -> dict[str, Any]:
        """Return the point's JSON-ready result, with one speedup per block.

        Rates and parts come from the middle blocks, so that the parts add up to the time per token
        that the rate gives. Texts, rounds and acceptance come from the first block. Other blocks
        repeat its random draws, so they are no further evidence and must not narrow an interval.
        """
        decided, middle = self._decided, self._middle_blocks()
        speedups = [block.speedup for block in self._blocks]
        baseline_rate = _common_rate([block.baseline for block in middle])
        rate = _common_rate([block.speculative for block in middle])
        costs = self._costs()
        band = self._theory(costs) if costs else None
        return {
            "speedup": self._speedup,
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
        """Return the block with the median speedup.

        If the number of blocks is even, return the two blocks in the middle.
        """
        ordered = sorted(self._blocks, key=lambda block: block.speedup)
        half = (len(ordered) - 1) // 2
        return ordered[half : len(ordered) - half]

    @property
    def _texts(self) -> int:
        return len(self._prompt_tokens) // len(self._blocks)

    def _costs(self) -> Costs | None:
        return measured_costs(self._totals, self._steps, self._rows)

    def _theory(self, costs: Costs) -> TheoryBand:
        """Return the lowest, the expected and the highest speedup by theory.

        A batch takes as long as its row with the most rounds. The speedups of a single row are
        therefore divided by `theory.waiting`.
        """
        band, decided = theory_band(self._decided, costs), self._decided
        rate, longest = decided.acceptance_rate or 0.0, max(decided.rounds_by_draft_length)
        tokens = round(decided.tokens / self._texts)
        survival = [rate**depth for depth in range(1, longest + 1)]
        waits = waiting(self._rows, tokens, survival)
        return TheoryBand(band.low / waits, band.expected / waits, band.high / waits)
