"""Measures a method over a grid of settings, in blocks that alternate between the lanes.

A block runs all prompts of a point in one lane: baseline, speculative, speculative, baseline, … so
that a drift of the machine hits both alike; speedups compare neighbours. How far blocks differ by
chance is told by the baseline beside itself. Knows nothing of how the numbers are shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from specviz.decoding.race import Lane
from specviz.errors import InputError
from specviz.experiments.run.batch_race import run_rows, warm_up_rows
from specviz.experiments.run.blocks import alternating, run_lanes, warm_up
from specviz.experiments.sweep.sweep_axis import Value, axis_named
from specviz.experiments.sweep.sweep_point import PointMeter
from specviz.experiments.sweep.sweep_setting import SweepSetting

MAX_POINTS = 512
MAX_REPEATS = 100
FIRST = ("draft-length", "method")  # a method's own shape is cut to the draft length, and reset
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
        if not 1 <= self.repeats <= MAX_REPEATS:
            raise InputError(
                f"repeat must be an integer from 1 to {MAX_REPEATS}, got {self.repeats}"
            )
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
    """One sweep in the making. Iterate it once; closing the iterator ends the run under way."""

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
        groups = self.plan.setting_at(place).groups
        meter = PointMeter()
        warm_up_rows(groups[0])
        for repeat in range(self.plan.repeats):
            for lane in alternating(repeat):
                for group in groups:
                    meter.add_rows(lane, run_rows(group, lane))
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


def measure_noise(setting: SweepSetting, repeats: int) -> list[float]:
    """The baseline's tokens per second over its own, of neighbouring blocks: 1 but for chance."""
    requests = setting.requests
    warm_up(requests[0])
    rates = []
    for _ in range(2 * repeats):
        races = [run_lanes(request, [Lane.BASELINE]) for request in requests]
        meter = PointMeter()
        for race in races:
            meter.add(Lane.BASELINE, race)
        rates.append(meter.baseline_rate)
    return [second / first for first, second in zip(rates[::2], rates[1::2], strict=True)]
