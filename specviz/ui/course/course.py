"""The course's server side: what its lessons are, and what their widgets have run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specviz.errors import InputError
from specviz.lessons import read_lessons, read_widgets
from specviz.models.pair_loading import is_loaded
from specviz.trace_file import encode
from specviz.ui.answers import Question, answers
from specviz.ui.course.batch_order import batch_order
from specviz.ui.course.deployment_answer import deployment_answer
from specviz.ui.course.engine_orders import no_engine, quantised_order, servers_order
from specviz.ui.course.lesson_recordings import recorded
from specviz.ui.course.lesson_sweeps import lesson_sweep
from specviz.ui.course.pair_orders import forwards_order, head_order, rounding_order
from specviz.ui.course.race_order import race_order
from specviz.ui.course.slider_answers import roofline_answer, theory_answer
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
    "head": head_order,
    "race": race_order,
    "quantised": quantised_order,
    "servers": servers_order,
}


def course_offer() -> dict[str, Any]:
    """All lessons, what each widget offers to them, what was recorded for them, and why no engine
    is started here, for the page.
    """
    return {
        "lessons": [encode(lesson) for lesson in read_lessons()],
        "widgets": [encode(widget) for widget in read_widgets().values()],
        "recorded": recorded(),
        "no_engine": no_engine(),
    }


class Course:
    """One per app; shared by all sessions."""

    def __init__(self, take: TakePlace) -> None:
        self._take = take

    @answers
    def drive(self, question: Question) -> Question:
        """Check an order, {"what": …} and its own fields, and take a place in the queue."""
        take = ORDERS.get(str(question["what"]))
        if take is None:
            raise InputError(f"what must be one of {', '.join(ORDERS)}")
        return self._take(question, take(question))

    @answers
    def theory(self, question: Question) -> Question:
        """See `theory_answer`."""
        return theory_answer(question)

    @answers
    def roofline(self, question: Question) -> Question:
        """See `roofline_answer`."""
        return roofline_answer(question)

    @answers
    def deployment(self, question: Question) -> Question:
        """See `deployment_answer`."""
        return deployment_answer(question)

    @answers
    def ready(self, question: Question) -> Question:
        """{"form": the pair} -> whether its target is in memory, so that a run begins at once."""
        return {"is_ready": is_loaded(form_pair(question["form"]))}
