"""What the page Serve asks: a plan's size with its charts, requests that arrive by chance,
configurations of serving engines, and what an engine that runs counts.

No model is loaded for it, and nothing is kept: every question is answered by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.figures.batch_speedup import batch_speedup_figure
from specviz.figures.serving_charts import load_figure, memory_figure
from specviz.models.files.config_bounds import bounded_config, read_config_file
from specviz.models.files.hub import HUB_ID, fetch_configuration
from specviz.models.pair_catalog import check_offered
from specviz.sizing.forward_time import GPUS
from specviz.sizing.measured_times import MeasuredPlan, MeasuredTimes, read_measured
from specviz.sizing.published import trust
from specviz.sizing.serving_plan import FIELDS, Field, ServingPlan, read_plan
from specviz.sizing.shape import EAGLE, MODELS, N_GRAM, ModelShape, shape_of_config
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

OWN = "own"  # a choice of target and draft: by what is typed beside it
LONGEST_CONFIG = 100_000  # characters
SIMULATIONS = 2  # at once: each takes about a second of the processor
WAITING = 6  # for those, each in a thread of those that answer all questions
FETCHES = 4  # configurations that are fetched at once, each in such a thread
_TITLES = {
    **{name: shape.title for name, shape in MODELS.items()},
    **{name: gpu.title for name, gpu in GPUS.items()},
    EAGLE: "an EAGLE head on the target",
    N_GRAM: "n-grams of the prompt, no model",
    OWN: "of your own: Hub name or config.json",
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
        self._fetches = threading.BoundedSemaphore(FETCHES)

    @answers
    def size(self, question: Question) -> Question:
        """{"plan": fields by name, "target_config", "draft_config": a name on the Hub, or pasted,
        "measured": {"name", "text"} of a file that `read_measured` takes, if any}
        -> its size and two charts, and the fields of a configuration that it comes to.
        """
        plan = self._found(question).plan
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
        """A plan under its load, simulated: two charts and their numbers; none where none fits.

        `measured` says by what its times are measured, a sentence each; nothing where computed.
        """
        found = self._found(question)
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
            "measured": found.measured.told(plan) if isinstance(found, MeasuredPlan) else [],
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

    def _found(self, question: Mapping[str, Any]) -> SizedPlan:
        """With the times of the file that comes with it: of its simulation, and of nothing else."""
        times, fields = _times(question.get("measured")), question["plan"]
        if not isinstance(fields, dict):
            raise InputError(f"plan must be an object, got {short(fields)}")
        plan = self._plan(question, fields)
        return SizedPlan(plan) if times is None else MeasuredPlan(plan, times)

    def _plan(self, question: Mapping[str, Any], fields: Mapping[str, Any]) -> ServingPlan:
        own = [name for name in _MODELS if fields.get(name) == OWN]
        given = {name: value for name, value in fields.items() if name not in own}
        shapes = {name: self._shape(name, _typed(question, name)) for name in own}
        return read_plan(given, shapes.get("target"), shapes.get("draft"))

    def _shape(self, name: str, text: str) -> ModelShape:
        """Of a repository of the Hub or of a pasted config.json, never of a file of this server."""
        if not _is_repository(text) and not text.startswith("{"):
            raise InputError(
                f"{name} must be a repository of the Hub, such as owner/model, or a config.json, "
                f"got {short(text)}"
            )
        try:
            if _is_repository(text):
                return shape_of_config(self._fetched(name, text), text)
            return shape_of_config(bounded_config("your own", text), "your own")
        except InputError as error:  # the page sets it under the field that it begins with
            sentence = str(error)
            raise InputError(
                sentence if sentence.startswith(f"{name} ") else f"{name} {sentence}"
            ) from None

    def _fetched(self, name: str, repository: str) -> dict[str, Any]:
        environment = Environment.read()
        check_offered({name: repository}, environment)
        if not self._fetches.acquire(blocking=False):
            raise InputError(f"{name} must wait: other models are being fetched, try again")
        try:
            return read_config_file(repository, fetch_configuration(repository, environment))
        finally:
            self._fetches.release()


def _times(given: Any) -> MeasuredTimes | None:
    if given is None:
        return None
    name, text = (
        (given.get(key) for key in ("name", "text")) if isinstance(given, dict) else ("", 0)
    )
    if not isinstance(name, str) or not isinstance(text, str):
        raise InputError(f"measured must be a file's name and text, got {short(given)}")
    return read_measured(text, name)


def _names(question: Mapping[str, Any]) -> dict[str, Any]:
    """Of target and draft, as presets or on the Hub; the defaults where none is given."""
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


def _is_repository(text: str) -> bool:
    """Whether it is owner/name; who types one passes names without an owner, which exist too."""
    return "/" in text and HUB_ID.fullmatch(text) is not None
