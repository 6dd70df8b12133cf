"""The sweeps of the lab's page.

A new sweep is described by a form. A sweep in a file can be shown, and also finished if the user
stopped it. Every question and file is checked. Kinds of message: `plan` and `point` (each is a line
of the file that `sweep --output` writes), `progress`, `noise`, `end`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from specviz.decoding.drafters.registry import OPTIONS, method_named
from specviz.errors import InputError, read_whole, short, sized
from specviz.experiments.run.repeats import DEFAULT_REPEATS
from specviz.experiments.sweep.sweep_axis import AXES, Axis, Value, axis_named
from specviz.experiments.sweep.sweep_file import (
    Point,
    batch_of,
    describe,
    json_object,
    read_points,
)
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import MAX_REPEATS, Place, Sweep, SweepPlan, noise_ratios
from specviz.models.files.loading import DEVICES, DTYPES
from specviz.models.pair_catalog import Pair, custom_pair, pair_named
from specviz.prompts import prompt_from_json
from specviz.records import BATCH, SETTINGS, RunSetting
from specviz.slices import until_stopped
from specviz.trace_file.config_fields import decode_settings
from specviz.ui.lab.lab_order import LabOrder, prompt_warnings
from specviz.ui.lab.lab_setting import MOST_TEXT, lab_setting
from specviz.ui.messages import Message
from specviz.ui.settings_form import refusal
from specviz.ui.setup import number_bounds, setting_bounds, setting_entry

DEFAULTS = {"axis": "draft-length", "values": "1-8", "repeats": DEFAULT_REPEATS}
MAX_CHARACTERS = 4_000_000
# The largest number of characters of one field of a sweep, written as JSON. The longest axis that
# the form can send has about 700.
MAX_WRITTEN = 800
TYPES = {  # field -> its type, for the fields that are not settings of a run
    **dict.fromkeys(("prompts", "repeats"), (int,)),
    "prompt_tokens": (int, type(None)),
}
_BATCH_HINTS = {
    "batch_size": "Prompts decoded together in one forward pass; 1 is no batch.",
    "speculate_up_to": "Drafting stops while more sequences than this are running; 0 measures the "
    "best number during the run.",
    "draft_budget": "The largest number of tokens drafted in a round for all sequences together; "
    "0 is no limit.",
}
CHOICES = {"device": DEVICES, "dtype": tuple(DTYPES)}


def sweep_offer() -> dict[str, Any]:
    """Return the axes that the page lists, the fields of a batch, and the initial values."""
    listed = [
        {
            "name": axis.name,
            "title": axis.title,
            "usual": axis.usual,
            "settings": axis.refused_as,
            "bounds": _bounds(axis),
            "methods": axis.methods,
        }
        for axis in AXES.values()
    ]
    return {"axes": listed, "batch": list(map(_batch_field, BATCH.values())), "defaults": DEFAULTS}


def _batch_field(setting: RunSetting) -> dict[str, Any]:
    """Return the form's field for one batch setting.

    While the axis `axis` of the field is swept, the axis replaces the field.
    """
    assert setting.axis is not None
    return setting_entry(setting) | {"axis": setting.axis.name, "hint": _BATCH_HINTS[setting.name]}


def _bounds(axis: Axis) -> dict[str, Any] | None:
    """Return the bounds of an axis with numbers as values, or None if the values are names."""
    setting = SETTINGS.get(axis.setting) or BATCH.get(axis.setting)
    if setting is not None and setting.is_bounded:
        return setting_bounds(setting)
    if option := OPTIONS.get(axis.setting):
        return number_bounds(option.low, option.high)
    return number_bounds(1, None) if axis.is_whole else None


@dataclass(frozen=True, slots=True)
class SweepOrder(LabOrder):
    """A job that measures a sweep.

    If the sweep was interrupted, `known` holds the points and `noise` the noise ratios that were
    measured before. They are not measured again.
    """

    title: ClassVar[str] = "a sweep"

    plan: SweepPlan
    known: Mapping[Place, Point] = field(default_factory=dict)
    noise: tuple[float, ...] = ()

    @property
    def pair(self) -> Pair:
        return self.plan.setting.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        yield {"kind": "plan", "line": header_line(self.plan)}
        setting = self.plan.setting
        own = setting.texts[: setting.prompts]
        yield from prompt_warnings(setting.pair, setting.device, setting.dtype, own)
        yield from self._noise(stop)
        for step in until_stopped(Sweep(self.plan, self.known), stop):
            if step.point is not None:
                yield {"kind": "point", "line": json.dumps(step.point)}
            yield {
                "kind": "progress",
                "done": step.done,
                "points": step.points,
                "seconds_left": step.seconds_left,
            }
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}

    def _noise(self, stop: threading.Event) -> Iterator[Message]:
        """Measure by how much the speed of the baseline varies.

        The baseline is timed twice in each pair of measurements. The final message has the ratio of
        the two speeds of each pair.
        """
        ratios = list(self.noise)
        missing = max(0, self.plan.repeats - len(ratios))
        pairs = until_stopped(noise_ratios(self.plan.setting, missing), stop)
        while len(ratios) < self.plan.repeats and not stop.is_set():
            yield {"kind": "progress", "noise": len(ratios), "repeats": self.plan.repeats}
            ratio = next(pairs, None)
            if ratio is None:
                break
            ratios.append(ratio)
        if ratios:
            yield {"kind": "noise", "noise": ratios}


def sweep_order(question: Mapping[str, Any]) -> SweepOrder:
    """Return the job that measures a new sweep, or the missing points of an interrupted sweep.

    The question for a new sweep is {"form", "prompts", "axes", "repeats", "batch"}. `lab_setting`
    reads the prompts and the form, which holds the method and its draft length. "batch" and each of
    its settings may be missing. The question for an interrupted sweep is {"file", "noise"}.
    """
    if "file" in question:
        sweep = checked_sweep(question["file"])
        return SweepOrder(sweep.plan, sweep.known, noise_of(question.get("noise")))
    repeats = read_whole(question.get("repeats"), "repeats", 1, MAX_REPEATS)
    setting = _setting(question)
    axes = tuple(map(_axis, _axes(question.get("axes"))))
    plan = SweepPlan(setting, axes, repeats)
    _check_methods(plan)
    return SweepOrder(plan)


def noise_of(given: object) -> tuple[float, ...]:
    """Return the noise ratios that the page kept, or () if they cannot be ratios of two speeds."""
    ratios = given if isinstance(given, list) and len(given) <= 100 else []
    are_ratios = all(isinstance(each, float | int) and 0 < each < 100 for each in ratios)
    return tuple(map(float, ratios)) if are_ratios else ()


def _setting(question: Mapping[str, Any]) -> SweepSetting:
    """Return the sweep's setting, with the method's default tree shape and rule."""
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
        texts=found.own_prompts,
        **batch_of(_batch(question.get("batch", {}))),
    )


def _batch(given: object) -> dict[str, int]:
    """Return the batch settings: name -> number.

    The table BATCH has the allowed names and the bounds of the numbers.
    """
    if not isinstance(given, dict) or not given.keys() <= BATCH.keys():
        raise InputError(f"batch settings must be among {', '.join(BATCH)}, got {short(given)}")
    return {name: BATCH[name].read(value) for name, value in given.items()}


def _axes(given: object) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise InputError(
            f"axes must be a list of objects, each with a name and values, got {short(given)}"
        )
    return given


def _axis(given: Mapping[str, Any]) -> tuple[str, tuple[Value, ...]]:
    name, values = str(given.get("name")), str(given.get("values"))
    if max(len(name), len(values)) > MOST_TEXT:
        raise InputError(f"axes must have values of at most {MOST_TEXT} characters")
    return name, axis_named(name).values(values)


def _check_methods(plan: SweepPlan) -> None:
    """Raise InputError if a point's method rejects its settings, or cannot run on the pair."""
    plan.check_methods()
    for place in plan.places:
        setting = plan.setting_at(place)
        method = method_named(setting.config.method)
        if sentence := refusal(setting.pair, method):
            raise InputError(f"method {method.name} {sentence}")


@dataclass(frozen=True, slots=True)
class SweepSoFar:
    """A sweep's plan, and the points measured so far, in the plan's order."""

    plan: SweepPlan
    known: Mapping[Place, Point]

    @property
    def points(self) -> list[Point]:
        return [self.known[place] for place in self.plan.places if place in self.known]


def read_sweep(text: object) -> SweepSoFar:
    """Read a sweep from a file's text; an incomplete last line is ignored.

    Raises InputError if the text is no sweep.
    """
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise InputError(
            f"file must be a text of at most {MAX_CHARACTERS:,} characters, got {sized(text)}"
        )
    header, *lines = text.split("\n")
    plan = _plan(json_object(header))
    return SweepSoFar(plan, read_points(plan, lines[:-1], "file"))


def checked_sweep(text: object) -> SweepSoFar:
    """Read a sweep that can be measured.

    Raises InputError if a method rejects its settings or cannot run on its pair.
    """
    sweep = read_sweep(text)
    _check_methods(sweep.plan)
    return sweep


def header_line(plan: SweepPlan) -> str:
    return json.dumps(describe(plan))


def _plan(header: dict[str, Any] | None) -> SweepPlan:
    """Rebuild the plan from `header`, the first line of a file.

    Then write a header for this plan and compare it with `header`. A difference shows that `header`
    has an unknown field.
    """
    if header is None:
        raise InputError(
            "file must be a sweep's file (sweep --output writes one), but its first line is not "
            "a sweep's"
        )
    try:
        plan = _built(header)
    except InputError as error:
        raise InputError(f"file cannot be used: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError(
            "file must be a sweep's file (sweep --output writes one), but its first line lacks a "
            "field of a sweep or has a wrong value"
        ) from None
    if json.loads(header_line(plan)) != header:
        raise InputError(
            "file must be a sweep's file of this version, but its first line has fields of another "
            "version: run the sweep again"
        )
    return plan


def _built(header: dict[str, Any]) -> SweepPlan:
    _check_fields(header)
    setting = SweepSetting(
        _pair(header),
        decode_settings(header["config"], "config"),
        header["task"],
        header["prompts"],
        header["prompt_tokens"],
        header["device"],
        header["dtype"],
        texts=tuple(map(prompt_from_json, header.get("texts", []))),
        **batch_of(header.get("batch", {})),
    )
    axes = tuple(
        (name, axis_named(name).values(",".join(map(str, values))))
        for name, values in header["axes"]
    )
    return SweepPlan(setting, axes, header["repeats"])


def _check_fields(header: dict[str, Any]) -> None:
    """Check the fields that are not settings of a run, and the length of all fields.

    Raises ValueError, TypeError or KeyError, which `_plan` replaces by a sentence that quotes no
    field. Later checks quote a wrong field as a whole, so no field may be very long.
    """
    for name, types in TYPES.items():
        if type(header[name]) not in types:
            raise TypeError(name)
    for name, known in CHOICES.items():
        if header[name] not in known:
            raise ValueError(name)
    if any(len(json.dumps(field, ensure_ascii=False)) > MAX_WRITTEN for field in _quoted(header)):
        raise ValueError("header")


def _quoted(header: dict[str, Any]) -> list[Any]:
    """Return the fields that an error message may quote as a whole."""
    fields = [header[name] for name in header.keys() - {"axes", "texts", "config"}]
    names = [name for name, _ in header["axes"]]
    return [*fields, *header["config"].values(), *header["axes"], names]


def _pair(header: dict[str, Any]) -> Pair:
    """Return the pair that a sweep's header describes, by a name or by its models' sources."""
    if "target" in header:
        heads = {role: header[role] for role in ("eagle", "medusa") if role in header}
        return custom_pair(header["target"], header["draft"], **heads)
    return pair_named(header["pair"])
