"""A sweep as the page asks for it and hears of it: its noise, then point by point.

Trusts nothing of a question. Kinds of message: `plan` and `point` (each a line of the file that
the command line writes), `progress`, `noise`, `end`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError, short
from specviz.experiments.sweep.sweep_axis import AXES, Value, axis_named
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import Place, Sweep, SweepPlan, measure_noise
from specviz.models.pair_catalog import Pair
from specviz.ui.batches import Message
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.lab.lab_setting import MOST_TEXT, lab_setting
from specviz.ui.lab.lab_sweep_file import Point, header_line, read_sweep
from specviz.ui.settings_form import refusal

DEFAULTS = {"axis": "draft-length", "values": "1-8", "repeats": 2}


def sweep_offer() -> dict[str, Any]:
    """The axes as the page lists them, and what it begins with."""
    listed = [
        {
            "name": axis.name,
            "title": axis.title,
            "usual": axis.usual,
            "settings": axis.refused_as,
        }
        for axis in AXES.values()
    ]
    return {"axes": listed, "defaults": DEFAULTS}


@dataclass(frozen=True, slots=True)
class SweepOrder(LabOrder):
    """`known` points and `noise`, of a sweep that was cut off, are not measured again."""

    title: ClassVar[str] = "a sweep"

    plan: SweepPlan
    known: Mapping[Place, Point] = field(default_factory=dict)
    noise: tuple[float, ...] = ()

    @property
    def pair(self) -> Pair:
        return self.plan.setting.pair

    def messages(self, stop: threading.Event) -> Iterator[Message]:
        yield {"kind": "plan", "line": header_line(self.plan)}
        yield from self._noise(stop)
        for step in () if stop.is_set() else Sweep(self.plan, self.known):
            if step.point is not None:
                yield {"kind": "point", "line": json.dumps(step.point)}
            yield {
                "kind": "progress",
                "done": step.done,
                "points": step.points,
                "seconds_left": step.seconds_left,
            }
            if stop.is_set():
                break
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}

    def _noise(self, stop: threading.Event) -> Iterator[Message]:
        """The baseline beside itself, a pair of blocks at a time, so that a stop is heard."""
        ratios = list(self.noise)
        while len(ratios) < self.plan.repeats and not stop.is_set():
            yield {"kind": "progress", "noise": len(ratios), "repeats": self.plan.repeats}
            ratios += measure_noise(self.plan.setting, 1)
        if ratios:
            yield {"kind": "noise", "noise": ratios}


def sweep_order(question: Mapping[str, Any]) -> SweepOrder:
    """{"form", "prompts", "axes", "repeats"}, or {"file", "noise"} of a sweep to be finished.

    Form and prompts as `lab_setting` takes them, with the method and its draft length in the form.
    """
    if "file" in question:
        sweep = read_sweep(question["file"])
        _check_methods(sweep.plan)
        return SweepOrder(sweep.plan, sweep.known, noise_of(question.get("noise")))
    repeats = _count(question, "repeats")
    setting = _setting(question)
    axes = tuple(map(_axis, _axes(question.get("axes"))))
    plan = SweepPlan(setting, axes, repeats)
    _check_methods(plan)
    return SweepOrder(plan)


def noise_of(given: object) -> tuple[float, ...]:
    """Ratios near 1, as this page kept them; none where they are not."""
    ratios = given if isinstance(given, list) and len(given) <= 100 else []
    are_ratios = all(isinstance(each, float | int) and 0 < each < 100 for each in ratios)
    return tuple(map(float, ratios)) if are_ratios else ()


def _setting(question: Mapping[str, Any]) -> SweepSetting:
    """With the shape and the rule that the method has by itself."""
    found = lab_setting(question, has_method=True)
    given = found.config
    config = method_named(given.method).usual(given.draft_length, **given.beside_method)
    return SweepSetting(
        found.pair,
        config,
        found.task,
        len(found.prompts),
        None,
        found.device,
        found.dtype,
        texts=() if found.task else found.prompts,
    )


def _axes(given: object) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise InputError("axes must be a list, each with a name and values")
    return given


def _axis(given: Mapping[str, Any]) -> tuple[str, tuple[Value, ...]]:
    name, values = str(given.get("name")), str(given.get("values"))
    if max(len(name), len(values)) > MOST_TEXT:
        raise InputError(f"axes must have values of at most {MOST_TEXT} characters")
    return name, axis_named(name).values(values)


def _count(question: Mapping[str, Any], name: str) -> int:
    value = question.get(name)
    try:
        return int(str(value))
    except ValueError:
        raise InputError(f"{name} must be a whole number, got {short(value)}") from None


def _check_methods(plan: SweepPlan) -> None:
    """InputError where a point's method does not take its settings, or its pair cannot do it."""
    for place in plan.places:
        setting = plan.setting_at(place)
        method = method_named(setting.config.method)
        method.check(setting.config)
        if sentence := refusal(setting.pair, method):
            raise InputError(f"method {method.name} {sentence}")
