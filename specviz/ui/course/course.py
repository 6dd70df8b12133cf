"""The server side of the course: its lessons, and the measurements that their widgets start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specviz.errors import InputError, short
from specviz.lessons import read_lessons, read_widgets
from specviz.models.pair_loading import is_loaded
from specviz.trace_file import encode
from specviz.ui.answers import Question, answers
from specviz.ui.course.batch_order import batch_order
from specviz.ui.course.block_orders import blocks_order, two_words_answer
from specviz.ui.course.copy_orders import copies_order
from specviz.ui.course.deployment_answer import deployment_answer
from specviz.ui.course.engine_orders import no_engine, quantised_order, servers_order
from specviz.ui.course.forced_orders import forced_order
from specviz.ui.course.lesson_recordings import recorded
from specviz.ui.course.lesson_sweeps import lesson_sweep
from specviz.ui.course.pair_orders import forwards_order, head_order, rounding_order
from specviz.ui.course.race_order import race_order
from specviz.ui.course.slider_answers import forward_line_answer, theory_answer
from specviz.ui.course.stop_orders import stops_order
from specviz.ui.course.typed_order import typed_order
from specviz.ui.lab.lab import TakePlace
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.settings_form import form_pair

Take = Callable[[Mapping[str, Any]], LabOrder]
ORDERS: dict[str, Take] = {
    "typed": typed_order,
    "forwards": forwards_order,
    "sweep": lesson_sweep,
    "rounding": rounding_order,
    "batch": batch_order,
    "blocks": blocks_order,
    "copies": copies_order,
    "forced": forced_order,
    "stops": stops_order,
    "head": head_order,
    "race": race_order,
    "quantised": quantised_order,
    "servers": servers_order,
}


def course_offer() -> dict[str, Any]:
    """Return all data that the course's page needs when it opens.

    The data are all lessons, their widgets, the recorded measurements, and the reason why no engine
    can be started.
    """
    return {
        "lessons": [encode(lesson) for lesson in read_lessons()],
        "widgets": [encode(widget) for widget in read_widgets().values()],
        "recorded": recorded(),
        "no_engine": no_engine(),
    }


class Course:
    """The handlers of the course's page; one object per app, shared by all sessions."""

    def __init__(self, take: TakePlace) -> None:
        self._take = take

    @answers
    def drive(self, question: Question) -> Question:
        """Check a job of a lesson and add it to the queue.

        The job is {"what": its kind, …}, with the fields that jobs of this kind have.
        """
        take = ORDERS.get(str(question["what"]))
        if take is None:
            names = ", ".join(ORDERS)
            raise InputError(f"'what' must be one of {names}, got {short(question['what'])}")
        return self._take(question, take(question))

    @answers
    def theory(self, question: Question) -> Question:
        return theory_answer(question)

    @answers
    def forward_line(self, question: Question) -> Question:
        return forward_line_answer(question)

    @answers
    def deployment(self, question: Question) -> Question:
        return deployment_answer(question)

    @answers
    def two_words(self, question: Question) -> Question:
        return two_words_answer(question)

    @answers
    def ready(self, question: Question) -> Question:
        """Return whether the target model that the page's form names is already in memory."""
        return {"is_ready": is_loaded(form_pair(question["form"]))}
