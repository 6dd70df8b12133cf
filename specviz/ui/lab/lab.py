"""The server side of the lab, a page with several panels.

It answers a panel's question at once, or adds the panel's measurement to the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from specviz.errors import InputError, short
from specviz.experiments.bug_zoo.laboratory import MAX_DRAWS
from specviz.experiments.sweep.sweep_file import csv_text
from specviz.experiments.sweep.sweep_setting import MAX_PROMPTS
from specviz.experiments.sweep.sweeping import MAX_REPEATS
from specviz.records import BATCH
from specviz.ui.answers import Question, answers
from specviz.ui.lab.lab_advice import SECONDS, advice_offer, advice_order
from specviz.ui.lab.lab_batch import batch_order
from specviz.ui.lab.lab_costs import BOUNDS, daily_costs
from specviz.ui.lab.lab_losslessness import losslessness_order, zoo_offer
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.lab.lab_peers import peers_order
from specviz.ui.lab.lab_setting import PROMPTS, TOKENS, own_prompts
from specviz.ui.lab.lab_sweeps import noise_of, read_sweep, sweep_offer, sweep_order
from specviz.ui.lab.lab_views import SweepViews
from specviz.ui.setup import number_bounds, setting_bounds

if TYPE_CHECKING:
    from specviz.ui.lab.lab_claims import LabClaims

Take = Callable[[Mapping[str, Any]], LabOrder]
# A function that queues a job under the ticket of its question.
TakePlace = Callable[[Question, LabOrder], Question]


def lab_offer() -> dict[str, Any]:
    """Return what the lab's page needs at its start: defaults, axes and bounds."""
    setting = {"prompts": PROMPTS, "tokens": TOKENS}
    bounds = {
        "prompts": number_bounds(1, MAX_PROMPTS),
        "repeats": number_bounds(1, MAX_REPEATS),
        "batch_size": setting_bounds(BATCH["batch_size"]),
        "draws": number_bounds(1, MAX_DRAWS),
        "seconds": number_bounds(*SECONDS, is_whole=False),
        **{name: number_bounds(*ends, is_whole=False) for name, ends in BOUNDS.items()},
    }
    return {
        "setting": setting,
        "bounds": bounds,
        "sweep": sweep_offer(),
        "advice": advice_offer(),
        "zoo": zoo_offer(),
    }


class Lab:
    """The handlers of the lab's page; one object per app, shared by all sessions."""

    def __init__(self, take: TakePlace) -> None:
        self._take = take
        self._orders: dict[str, Take] = {
            "sweep": sweep_order,
            "batch": batch_order,
            "peers": peers_order,
            "advice": advice_order,
            "losslessness": losslessness_order,
            "claim": lambda question: self._claims.order(question.get("number")),
        }

    @cached_property
    def _claims(self) -> LabClaims:
        """All claims, with the results that were measured for them.

        They are loaded at the first question, because loading takes a while.
        """
        from specviz.ui.lab.lab_claims import LabClaims

        return LabClaims()

    @answers
    def measure(self, question: Question) -> Question:
        """Check a measurement of the lab and add it to the queue.

        The job is {"what": its kind, …}, with the fields that jobs of this kind have.
        """
        take = self._orders.get(str(question["what"]))
        if take is None:
            names = ", ".join(self._orders)
            raise InputError(f"'what' must be one of {names}, got {short(question['what'])}")
        return self._take(question, take(question))

    @answers
    def prompts(self, question: Question) -> Question:
        """Return {"count"}: how many prompts the user's own text holds."""
        return {"count": len(own_prompts(question))}

    @answers
    def draw(self, question: Question) -> Question:
        """Return the charts and sentences of a sweep.

        The question is {"file": the text of the sweep's file, "noise": its noise ratios, "picked":
        the index of the point to show, or null}. Raises InputError if the file holds no sweep.
        """
        sweep = read_sweep(question["file"])
        picked = question.get("picked")
        views = SweepViews(
            sweep, noise_of(question.get("noise")), picked if isinstance(picked, int) else None
        )
        return views.answer()

    @answers
    def table(self, question: Question) -> Question:
        """Return the sweep in a file's text as a table in CSV format."""
        return {"csv": csv_text(read_sweep(question["file"]).points, "\n")}

    @answers
    def costs(self, question: Question) -> Question:
        return daily_costs(question)

    @answers
    def claims(self, question: Question) -> Question:
        """Return every claim, with theory's answer and the results that were measured so far."""
        return self._claims.reports()

    @answers
    def try_claim(self, question: Question) -> Question:
        """Return theory's answer for the user's own numbers: see `LabClaims.tried`."""
        return self._claims.tried(question)
