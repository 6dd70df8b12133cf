"""The lab's server side: what its cards ask, each answered or taken into the queue.

Knows the cards' questions by name; the runs are those of the whole page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from specviz.errors import InputError
from specviz.ui.answers import Question, answers
from specviz.ui.lab.lab_advice import advice_offer, advice_order
from specviz.ui.lab.lab_costs import told_costs
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.lab.lab_peers import peers_order
from specviz.ui.lab.lab_setting import PROMPTS, TOKENS, own_prompts
from specviz.ui.lab.lab_sweep_file import csv_text, read_sweep
from specviz.ui.lab.lab_sweeps import noise_of, sweep_offer, sweep_order
from specviz.ui.lab.lab_views import SweepViews
from specviz.ui.runs import Runs

if TYPE_CHECKING:
    from specviz.ui.lab.lab_claims import LabClaims

Take = Callable[[Mapping[str, Any]], LabOrder]


def lab_offer() -> dict[str, Any]:
    """What the page's lab needs to know before anything is asked."""
    setting = {"prompts": PROMPTS, "tokens": TOKENS}
    return {"setting": setting, "sweep": sweep_offer(), "advice": advice_offer()}


class Lab:
    """One per app; shared by all sessions."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._orders: dict[str, Take] = {
            "sweep": sweep_order,
            "peers": peers_order,
            "advice": advice_order,
            "claim": lambda question: self._claims.order(question.get("number")),
        }

    @cached_property
    def _claims(self) -> LabClaims:
        """Made when they are first asked for: they take a while to load."""
        from specviz.ui.lab.lab_claims import LabClaims

        return LabClaims()

    @answers
    def measure(self, question: Question) -> Question:
        """Check an order, {"what": …} and its own fields, and take a place in the queue."""
        take = self._orders.get(str(question["what"]))
        if take is None:
            raise InputError(f"what must be one of {', '.join(self._orders)}")
        self._runs.join(str(question["ticket"]), take(question))
        return {}

    @answers
    def prompts(self, question: Question) -> Question:
        """How many prompts a text of one's own holds: {"count"}."""
        return {"count": len(own_prompts(question))}

    @answers
    def draw(self, question: Question) -> Question:
        """{"file", "noise", "picked"} -> the sweep's charts and words; refuses what is no sweep."""
        sweep = read_sweep(question["file"])
        picked = question.get("picked")
        views = SweepViews(
            sweep, noise_of(question.get("noise")), picked if isinstance(picked, int) else None
        )
        return views.told()

    @answers
    def table(self, question: Question) -> Question:
        """The sweep of a file's text as CSV."""
        return {"csv": csv_text(read_sweep(question["file"]))}

    @answers
    def costs(self, question: Question) -> Question:
        return told_costs(question)

    @answers
    def claims(self, question: Question) -> Question:
        """Every claim, with theory's answer and what was measured so far."""
        return self._claims.reports()
