"""A sweep as the page shows it: charts around one picked point, and its result in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.sweep.sweep_axis import axis_named
from specviz.experiments.sweep.sweep_file import Point, batch_json
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.figures.depth import depth_figure
from specviz.figures.lab_heatmap import lab_heatmap_figure
from specviz.figures.lab_speedup import lab_speedup_figure, noise_range
from specviz.figures.lab_times import lab_times_figure
from specviz.figures.theme import Figure
from specviz.metrics.round_totals import DepthAcceptance
from specviz.records import BATCH
from specviz.ui.lab.lab_setting import prompts_words
from specviz.ui.lab.lab_sweeps import SweepSoFar

# If the speeds of two runs of the baseline differ by more than this factor, the machine is too busy
# to compare the points of a sweep.
BUSY = 1.5


class SweepViews:
    """The charts and sentences of a sweep.

    `picked` is the index of the point to show, in the plan. None shows the fastest point.
    """

    def __init__(self, sweep: SweepSoFar, noise: Sequence[float], picked: int | None) -> None:
        self._sweep, self._noise = sweep, noise
        self._known = {i: sweep.known[p] for i, p in enumerate(self._places) if p in sweep.known}
        speedups = {place: point["speedup"] for place, point in self._known.items()}
        self.best = max(speedups, key=speedups.__getitem__, default=None)
        self.picked = picked if picked in self._known else self.best

    @property
    def _places(self) -> tuple[Any, ...]:
        return self._sweep.plan.places

    @property
    def _axes(self) -> list[int]:
        """Return the indices of the sweep's axes; axes of numbers come before axes of names.

        The charts draw their lines along the first axis of this list.
        """
        axes = self._sweep.plan.axes
        return sorted(range(len(axes)), key=lambda each: isinstance(axes[each][1][0], str))

    def _cell(self, place: int) -> tuple[int, ...]:
        """Return the index of a point's value on each axis, in the order of `_axes`."""
        axes = self._sweep.plan.axes
        values = dict(self._places[place])
        return tuple(axes[each][1].index(values[axes[each][0]]) for each in self._axes)

    @property
    def _line(self) -> dict[int, int]:
        """Return the points that differ from the picked point only along the first axis.

        The result maps a position on that axis to the index of a point.
        """
        picked = self._cell(0 if self.picked is None else self.picked)
        cells = {place: self._cell(place) for place in self._known}
        return {cell[0]: place for place, cell in cells.items() if cell[1:] == picked[1:]}

    def answer(self) -> dict[str, Any]:
        """Return all charts and sentences of the page.

        The field `line` of the result maps a position on the charts' line to the index of a point.
        """
        line = self._line
        figures: dict[str, Figure] = {}
        if self.picked is not None:
            figures = {
                "speedup": self._speedup(line),
                "times": self._times(line),
                "depth": self._depth(self._known[self.picked]),
            }
            if len(self._axes) == 2:
                figures["heatmap"] = self._heatmap()
        cells = {place: self._cell(place) for place in range(len(self._places))}
        return {
            "figures": figures,
            "line": {str(at): place for at, place in line.items()},
            "cells": {",".join(map(str, cell)): place for place, cell in cells.items()},
            "picked": self.picked,
            "picked_rows": self._picked_rows,
            "best": self.best,
            "picked_words": "" if self.picked is None else self.words(self.picked),
            "line_words": self._line_words(),
            "sentence": self.sentence(),
            "noise_words": self._noise_words(),
            "setting": self._setting(),
        }

    @property
    def _picked_rows(self) -> int:
        """Return how many sequences the picked point decodes in one batch."""
        plan = self._sweep.plan
        return (
            plan.setting_at(plan.places[self.picked]).batch_size if self.picked is not None else 0
        )

    def _title(self, axis: int) -> str:
        return axis_named(self._sweep.plan.axes[axis][0]).title

    def _values(self, axis: int) -> tuple[Any, ...]:
        return self._sweep.plan.axes[axis][1]

    def _along(self, line: dict[int, int]) -> tuple[dict[int, Point], int | None]:
        """Return the points on the line of the chart, and the position of the picked one."""
        at = next((each for each, place in line.items() if place == self.picked), None)
        return {each: self._known[place] for each, place in line.items()}, at

    def _speedup(self, line: dict[int, int]) -> Figure:
        axis = self._axes[0]
        points, at = self._along(line)
        return lab_speedup_figure(self._title(axis), self._values(axis), points, self._noise, at)

    def _times(self, line: dict[int, int]) -> Figure:
        axis = self._axes[0]
        points, at = self._along(line)
        return lab_times_figure(self._title(axis), self._values(axis), points, at)

    def _depth(self, point: Point) -> Figure:
        depths = [DepthAcceptance(**each) for each in point["acceptance_by_depth"]]
        return depth_figure(depths, point["acceptance_rate"])

    def _heatmap(self) -> Figure:
        first, second = self._axes
        assert self.picked is not None
        return lab_heatmap_figure(
            (self._title(first), self._title(second)),
            (self._values(first), self._values(second)),
            {_pair(self._cell(place)): point for place, point in self._known.items()},
            _pair(self._cell(self.picked)),
        )

    def words(self, place: int) -> str:
        """Return the values of a point's axes in words: `draft length K 4, temperature 0.7`."""
        words = [_named(name, value) for name, value in self._places[place]]
        if "prompt-length" in dict(self._places[place]) and place in self._known:
            words.append(f"{self._known[place]['prompt_tokens']:.0f} tokens of context")
        return ", ".join(words)

    def _line_words(self) -> str:
        """Return a text with the values that all points on the line share.

        The text is empty if there is only one axis.
        """
        if len(self._axes) == 1 or self.picked is None:
            return ""
        name = self._sweep.plan.axes[self._axes[1]][0]
        return f"at {_named(name, dict(self._places[self.picked])[name])}"

    def _setting(self) -> str:
        """Return in words the settings that all points of the sweep share."""
        plan, setting = self._sweep.plan, self._sweep.plan.setting
        varied = {name for name, _ in plan.axes}
        config = setting.config
        task = None if setting.texts else setting.task
        parts = {
            "pair": setting.pair.title,
            "task": prompts_words(task, setting.prompts),
            "method": method_named(config.method).title,
            "draft-length": f"K {config.draft_length}",
            "temperature": " · ".join(config.sampling_words),
            "output-length": f"{config.max_new_tokens} new tokens",
            **_batch_words(setting),
            "repeats": _counted(plan.repeats, "repeat"),
        }
        if "task" in varied:
            parts["prompts"] = f"{_counted(setting.prompts, 'prompt')} of each task"
        return " · ".join(text for name, text in parts.items() if name not in varied)

    def _noise_words(self) -> str:
        return "{:.2f} to {:.2f}".format(*noise_range(self._noise)) if self._noise else ""

    def sentence(self) -> str:
        """Return a sentence about the fastest point.

        The point's own spread and the machine's noise decide what the sentence says.
        """
        if self.best is None:
            return ""
        best = self._result(self.best)
        least, most = noise_range(self._noise)
        if most > BUSY:
            return (
                f"The machine is too busy to tell: plain decoding compared with itself gives "
                f"{self._noise_words()}. The best was {best}; measure again."
            )
        if self._sweep.plan.repeats == 1:
            return f"The best: {best}, {self._one_repeat_words(self.best)}."
        if not self._noise:
            return f"The best: {best}; the noise of its machine is not known."
        clear = [place for place, point in self._known.items() if point["speedup_spread"][0] > most]
        if self.best in clear:
            return f"Fastest: {best}."
        if clear:
            sure = self._result(max(clear, key=lambda place: self._known[place]["speedup"]))
            return f"Above the noise in every repeat: {sure}; {best} is not."
        if all(point["speedup_spread"][1] < least for point in self._known.values()):
            return f"Speculation loses at every point: the best is {best}."
        return f"No clear gain: the best, {best}, is not above the noise in every repeat."

    def _one_repeat_words(self, place: int) -> str:
        """Return in words how often the point was measured, for a sweep with one repeat.

        The point was measured twice if other work on the machine disturbed the first run.
        """
        point = self._known[place]
        if len(point["speedups"]) == 1:
            return "in one repeat, which has no spread"
        return (
            "measured twice, because other work disturbed the first run: "
            f"its {point['speedups'][0]:.2f}× is impossible with "
            f"{point['block_efficiency']:.2f} tokens per forward"
        )

    def _result(self, place: int) -> str:
        """Return a point's result in words: `1.53× (1.49 to 1.58) at draft length K 4`."""
        point = self._known[place]
        low, high = point["speedup_spread"]
        spread = f" ({low:.2f} to {high:.2f})" if low < high else ""
        return f"{point['speedup']:.2f}×{spread} at {self.words(place)}"


def _batch_words(setting: SweepSetting) -> dict[str, str]:
    """Return the batch settings that differ from their defaults: axis -> value in words."""
    given = batch_json(setting).get("batch", {})
    axes = {name: each.axis.name for name, each in BATCH.items() if each.axis}
    return {axes[name]: _named(axes[name], value) for name, value in given.items()}


def _pair(cell: tuple[int, ...]) -> tuple[int, int]:
    first, second = cell
    return first, second


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _named(name: str, value: object) -> str:
    """Return a value in words: `draft length K 4`. A value that is a name needs no title."""
    if isinstance(value, str):
        return value
    title = axis_named(name).title
    return f"{title[0].lower()}{title[1:]} {value:g}"
