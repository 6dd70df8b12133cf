"""The page Serve: sizing a plan, simulated arrivals, engine configurations, running engines.

This module loads no model and keeps nothing between two questions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from specviz.errors import InputError, short
from specviz.figures.batch_speedup import batch_speedup_figure
from specviz.figures.serving_charts import load_figure, memory_figure
from specviz.sizing.forward_time import GPUS
from specviz.sizing.measured_times import MeasuredPlan, MeasuredTimes, read_measured
from specviz.sizing.published import trust
from specviz.sizing.serving_plan import FIELDS, Field, ServingPlan, read_plan
from specviz.sizing.shape import EAGLE, MODELS, N_GRAM
from specviz.sizing.simulated_load import by_load
from specviz.sizing.sized_plan import SizedPlan
from specviz.sizing.sizing_answer import size
from specviz.ui.answers import Question, answers, asker
from specviz.ui.engine_answers import (
    configuration_answer,
    engines_offer,
    planned_fields,
    translated_answer,
)
from specviz.ui.engine_watching import (
    attached_answer,
    reading_answer,
    watching_offer,
    written_answer,
)
from specviz.ui.own_models import OwnModels

# In the menus of target and draft, this choice means the model that the visitor names next to the
# menu.
OWN = "own"
LONGEST_CONFIG = 100_000  # largest number of characters in a config.json
# The largest number of simulations at the same time. Each takes about a second of processor time.
SIMULATIONS = 2
# The largest number of questions that wait for a simulation; each occupies one thread.
WAITING = 6
_TITLES = {
    **{name: shape.title for name, shape in MODELS.items()},
    **{name: gpu.title for name, gpu in GPUS.items()},
    EAGLE: "an EAGLE head on the target",
    N_GRAM: "n-grams of the prompt, no model",
    OWN: "of your own: Hub name or config.json",
}
_MODELS = ("target", "draft")


def serving_offer() -> dict[str, Any]:
    """Return the data that the page needs before a visitor enters a plan.

    The data are the form's fields, published measurements that show how accurate the estimates are,
    and the data sheets of GPUs.
    """
    return {
        "fields": [_field(field) for field in FIELDS.values()],
        "trust": trust(),
        "gpus": {
            name: {
                **{"title": gpu.title, "memory": gpu.memory},
                **{"bandwidth": gpu.bandwidth, "arithmetic": gpu.bf16},
            }
            for name, gpu in GPUS.items()
        },
        "engines": engines_offer(),
        "watching": watching_offer(),
    }


def _field(field: Field) -> dict[str, Any]:
    choices = (*field.choices, OWN) if field.name in _MODELS else field.choices
    return {
        "name": field.name,
        "title": field.title,
        "meaning": f"{field.meaning[0].upper()}{field.meaning[1:]}.",
        "unit": field.unit,
        "default": _default(field),
        "choices": [{"name": name, "title": _TITLES.get(name, name)} for name in choices],
        "is_whole": field.is_whole,
    }


def _default(field: Field) -> str:
    if field.default is None:
        return ""
    return str(field.default) if field.choices else f"{field.default:g}"


class Serving:
    """The handlers of the page Serve; one object per app, shared by all sessions."""

    def __init__(self) -> None:
        self._simulations = threading.BoundedSemaphore(SIMULATIONS)
        self._asked = threading.BoundedSemaphore(SIMULATIONS + WAITING)
        self._own_models = OwnModels()

    @answers
    def size(self, question: Question) -> Question:
        """Return a plan's size with two charts, and the fields of its configuration.

        The question is {"plan": {name of a field: value}, "target_config", "draft_config",
        "measured"}. The configs are Hub names or pasted texts of a config.json. "measured" is
        {"name", "text"} of a file of measured times, or null.
        """
        plan = self._sized(question).plan
        found = size(plan)
        gains = [(each["batch"], each["request_speedup"]) for each in found["by_batch"]]
        return {
            "size": found,
            "configuration": planned_fields(plan, found, _names(question)),
            "figures": {
                "batch": batch_speedup_figure(
                    gains, (plan.batch, found["request_speedup"]), found["largest_batch"]
                ),
                "memory": memory_figure(found["memory"]),
            },
        }

    @answers
    def arrivals(self, question: Question) -> Question:
        """Simulate a plan under its load of requests; return two charts and numbers.

        If the plan does not fit, the charts and numbers are empty. `measured` has one sentence for
        each source of measured times; it is empty if all times are computed.
        """
        found = self._sized(question)
        plan = found.plan
        if not self._asked.acquire(blocking=False):
            raise InputError("other loads are being simulated: try again in a moment")
        try:
            with self._simulations:
                results = by_load(found)
        finally:
            self._asked.release()
        return {
            "results": results,
            "load": plan.load,
            "measured": found.measured.sentences(plan) if isinstance(found, MeasuredPlan) else [],
            "figures": {
                "first": load_figure(results, "first_token_p95", plan.first_token_limit),
                "token": load_figure(results, "token_p95", plan.token_limit),
            },
        }

    @answers
    def configuration(self, question: Question) -> Question:
        return configuration_answer(question)

    @answers
    def translation(self, question: Question) -> Question:
        return translated_answer(question)

    @answers
    def attach(self, question: Question) -> Question:
        return attached_answer(question)

    @answers
    def reading(self, question: Question) -> Question:
        return reading_answer(question)

    @answers
    def written(self, question: Question) -> Question:
        return written_answer(question)

    def _sized(self, question: Mapping[str, Any]) -> SizedPlan:
        """Return the plan in the question, with the numbers that are computed from it.

        A file of measured times changes only the simulation of the plan.
        """
        times, fields = _times(question.get("measured")), question["plan"]
        if not isinstance(fields, dict):
            raise InputError(f"plan must be an object, got {short(fields)}")
        plan = self._plan(question, fields)
        return SizedPlan(plan) if times is None else MeasuredPlan(plan, times)

    def _plan(self, question: Mapping[str, Any], fields: Mapping[str, Any]) -> ServingPlan:
        own = [name for name in _MODELS if fields.get(name) == OWN]
        given = {name: value for name, value in fields.items() if name not in own}
        shapes = {
            name: self._own_models.shape(name, _typed(question, name), asker(question))
            for name in own
        }
        return read_plan(given, shapes.get("target"), shapes.get("draft"))


def _times(given: Any) -> MeasuredTimes | None:
    if given is None:
        return None
    name, text = (
        (given.get(key) for key in ("name", "text")) if isinstance(given, dict) else ("", 0)
    )
    if not isinstance(name, str) or not isinstance(text, str):
        raise InputError(
            f"measured must be an object with a file's 'name' and 'text', got {short(given)}"
        )
    return read_measured(text, name)


def _names(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return target and draft as presets or Hub names, or the defaults if none is given."""
    named = {name: question["plan"].get(name, FIELDS[name].default) for name in _MODELS}
    return {
        name: _typed(question, name) if value == OWN else value for name, value in named.items()
    }


def _typed(question: Mapping[str, Any], name: str) -> str:
    text = question.get(f"{name}_config")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{name} must be a preset, a name on the Hub or a config.json, got none")
    if len(text) > LONGEST_CONFIG:
        raise InputError(f"{name} must have a config.json of at most {LONGEST_CONFIG:,} characters")
    return text.strip()
