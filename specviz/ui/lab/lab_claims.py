"""The lab's claims: the list, and the measurement of one claim.

Claims share measurements, which the server keeps for all users while it runs. Each measurement
names the machine that made it. Kinds of message: `line`, `claim`, `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from functools import cache
from typing import Any, ClassVar

from specviz.claims.all_claims import CLAIMS, claim_numbered
from specviz.claims.claim import Claim, MeasuredFinding, Setting, finding_report
from specviz.errors import InputError, short
from specviz.lessons import read_lessons
from specviz.models.pair_catalog import BUNDLED, Pair, pair_named
from specviz.slices import Tell, give_way, progress_lines
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message

BUDGET = "short"


class LabClaims:
    """All claims, and the results that were measured for them."""

    def __init__(self) -> None:
        self._judged: dict[int, MeasuredFinding] = {}
        self._known: dict[Setting, dict[str, Any]] = {}
        # Facts about the machine that measured; empty until the first measurement.
        self.measured_on: dict[str, str] = {}

    def reports(self) -> dict[str, Any]:
        return {"claims": [self.report(claim) for claim in CLAIMS.values()], "budget": self.budget}

    def report(self, claim: Claim) -> dict[str, Any]:
        """Return the report of a claim, with the title of the lesson about it."""
        lesson = {"name": claim.lesson, "title": _lesson_titles()[claim.lesson]}
        return claim.report(self._judged.get(claim.number)) | {"lesson": lesson}

    def tried(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return {"theory": theory's answer for the numbers that a user typed}.

        The question is {"number": the claim's number in the list, "numbers": {name: typed text}}.
        Raises InputError if a number breaks a rule.
        """
        claim, typed = _claim(question.get("number")), question.get("numbers")
        if not isinstance(typed, dict) or not all(isinstance(each, str) for each in typed.values()):
            raise InputError(f"numbers must be an object from name to text, got {short(typed)}")
        return {"theory": finding_report(claim.tried(typed))}

    @property
    def budget(self) -> str:
        """Return a text that says how much the measurement of one claim decodes."""
        from specviz.experiments.benchmark.claim_measuring import BUDGETS

        size = BUDGETS[BUDGET]
        return (
            f"{size.prompts} prompts a point, {size.max_new_tokens} tokens each, "
            f"{size.repeats} repeats"
        )

    def order(self, number: object) -> ClaimOrder:
        """Return the job that measures a claim.

        Raises InputError if no claim has this number, or if the claim cannot be measured.
        """
        claim = _claim(number)
        if not claim.settings:
            raise InputError(f"claim {claim.number} cannot be measured: it {claim.reason}")
        return ClaimOrder(self, claim)

    def measure(self, claim: Claim, tell: Tell) -> None:
        """Measure a claim; reuse the results that earlier claims have already measured.

        The call returns only after the measurement. Meanwhile it passes lines about its progress to
        `tell`.
        """
        from specviz.experiments.benchmark.claim_measuring import BUDGETS, ClaimMeasuring

        measuring = ClaimMeasuring(BUDGETS[BUDGET], progress=tell, known=self._known)
        self._judged[claim.number] = claim.judge(measuring.results(claim.settings))
        self.measured_on = measuring.measured_on


class ClaimOrder(LabOrder):
    """A job that measures one claim on the bundled pair."""

    title: ClassVar[str] = "a claim"

    def __init__(self, claims: LabClaims, claim: Claim) -> None:
        self._claims, self._claim = claims, claim

    @property
    def pair(self) -> Pair:
        return pair_named(BUNDLED)

    def messages(self, stop: threading.Event) -> Generator[Message]:
        for line in progress_lines(lambda tell: self._claims.measure(self._claim, tell), stop):
            if line is None:
                give_way()
            else:
                yield {"kind": "line", "text": line}
        found = self._claims.report(self._claim)
        if found["measured"]:
            yield {"kind": "claim", "claim": found, "place": self._claims.measured_on}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def _claim(number: object) -> Claim:
    text = str(number)
    return claim_numbered(int(text) if text.isdecimal() and len(text) < 4 else 0)


@cache
def _lesson_titles() -> dict[str, str]:
    return {lesson.name: lesson.title for lesson in read_lessons()}
