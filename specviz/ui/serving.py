"""What the page Serve asks: a plan's size with its charts, requests that arrive by chance,
configurations of serving engines, and what an engine that runs counts.

No model is loaded for it, and nothing is kept: every question is answered by itself.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from specviz.errors import InputError, short
from specviz.figures.batch_speedup import batch_speedup_figure
from specviz.figures.serving_charts import load_figure, memory_figure
from specviz.models.files.config_bounds import check_numbers
from specviz.sizing.forward_time import GPUS
from specviz.sizing.published import trust
from specviz.sizing.serving_plan import FIELDS, Field, ServingPlan, read_plan
from specviz.sizing.shape import EAGLE, MODELS, N_GRAM, shape_of_config
from specviz.sizing.simulated_load import by_load
from specviz.sizing.sized_plan import SizedPlan
from specviz.sizing.sizing_answer import size
from specviz.ui.answers import Question, answers
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

OWN = "own"  # a choice of target and draft: by the configuration beside it
LONGEST_CONFIG = 100_000  # characters
SIMULATIONS = 2  # at once: each takes about a second of the processor
WAITING = 6  # for those, each in a thread of those that answer all questions
_TITLES = {
    **{name: shape.title for name, shape in MODELS.items()},
    **{name: gpu.title for name, gpu in GPUS.items()},
    EAGLE: "an EAGLE head on the target",
    N_GRAM: "n-grams of the prompt, no model",
    OWN: "of your own: its config.json",
}
_MODELS = ("target", "draft")


def serving_offer() -> dict[str, Any]:
    """The form's fields, how far to trust its answers, and the data sheets, for a lesson's too."""
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
    """As the form holds it."""
    if field.default is None:
        return ""
    return str(field.default) if field.choices else f"{field.default:g}"


class Serving:
    """One per app; shared by all sessions."""

    def __init__(self) -> None:
        self._simulations = threading.BoundedSemaphore(SIMULATIONS)
        self._asked = threading.BoundedSemaphore(SIMULATIONS + WAITING)

    @answers
    def size(self, question: Question) -> Question:
        """{"plan": fields by name, "target_config", "draft_config"} -> its size and two charts, and
        the fields of a configuration that it comes to.
        """
        plan = _plan(question)
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
        """A plan under its load, simulated: two charts and their numbers; none where none fits."""
        plan = _plan(question)
        if not self._asked.acquire(blocking=False):
            raise InputError("other loads are being simulated: try again in a moment")
        try:
            with self._simulations:
                results = by_load(SizedPlan(plan))
        finally:
            self._asked.release()
        return {
            "results": results,
            "load": plan.load,
            "figures": {
                "first": load_figure(results, "first_token_p95", plan.first_token_limit),
                "token": load_figure(results, "token_p95", plan.token_limit),
            },
        }

    @answers
    def configuration(self, question: Question) -> Question:
        """See `configuration_answer`."""
        return configuration_answer(question)

    @answers
    def translation(self, question: Question) -> Question:
        """See `translated_answer`."""
        return translated_answer(question)

    @answers
    def attach(self, question: Question) -> Question:
        """See `attached_answer`."""
        return attached_answer(question)

    @answers
    def reading(self, question: Question) -> Question:
        """See `reading_answer`."""
        return reading_answer(question)

    @answers
    def written(self, question: Question) -> Question:
        """See `written_answer`."""
        return written_answer(question)


def _names(question: Mapping[str, Any]) -> dict[str, Any]:
    """Of target and draft, the defaults where none is given."""
    return {name: question["plan"].get(name, FIELDS[name].default) for name in _MODELS}


def _plan(question: Mapping[str, Any]) -> ServingPlan:
    fields = question["plan"]
    if not isinstance(fields, dict):
        raise InputError(f"plan must be an object, got {short(fields)}")
    given = dict(fields)
    shapes = {}
    for name in _MODELS:
        if given.get(name) == OWN:
            del given[name]
            shapes[name] = shape_of_config(_config(question, name), "your own")
    return read_plan(given, shapes.get("target"), shapes.get("draft"))


def _config(question: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What was pasted as a config.json, its numbers bounded."""
    text = question.get(f"{name}_config")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{name} must be a preset or have its config.json pasted, got none")
    if len(text) > LONGEST_CONFIG:
        raise InputError(f"{name} must have a config.json of at most {LONGEST_CONFIG:,} characters")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(
            f"{name} must have a config.json that is JSON, got {short(text)}"
        ) from None
    if not isinstance(config, dict):
        raise InputError(f"{name} must have a config.json that is an object, got {short(config)}")
    check_numbers("your own", config)
    return config
