"""What `claims` does: from parsed options to one JSON-able result.

Knows nothing of parsing or printing.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from specviz.claims.all_claims import CLAIMS, claim_numbered
from specviz.claims.claim import Claim, MeasuredFinding
from specviz.errors import InputError
from specviz.experiments.benchmark.claim_measuring import BUDGETS, ClaimMeasuring

Progress = Callable[[str], None]
DEFAULT_BUDGET = "short"


def claims(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Every claim or one; with --measure also what is so here. Ctrl-C keeps what is done."""
    budget = _budget(options)
    chosen = tuple(CLAIMS.values()) if options.number is None else (claim_numbered(options.number),)
    if budget is None:
        return claims_result(chosen, {}, None, None, True)
    measuring = ClaimMeasuring(BUDGETS[budget], options.device, options.dtype, progress)
    place = measuring.place
    measured, complete = judge_claims(chosen, measuring, progress)
    return claims_result(chosen, measured, budget, place, complete)


def judge_claims(
    chosen: Sequence[Claim], measuring: ClaimMeasuring, progress: Progress
) -> tuple[dict[int, MeasuredFinding], bool]:
    """Judgements by number, and whether all are there.

    Ctrl-C ends it early; a claim whose setting cannot run here is left out and said.
    """
    measured: dict[int, MeasuredFinding] = {}
    asked = [claim for claim in chosen if claim.settings]
    try:
        for claim in asked:
            progress(f"claim {claim.number}: {claim.title}")
            try:
                measured[claim.number] = claim.judge(measuring.results(claim.settings))
            except InputError as error:
                progress(f"claim {claim.number} cannot be measured: {error}")
    except KeyboardInterrupt:
        return measured, False
    return measured, len(measured) == len(asked)


def claims_result(
    chosen: Sequence[Claim],
    measured: dict[int, MeasuredFinding],
    budget: str | None,
    place: dict[str, str] | None,
    complete: bool,
) -> dict[str, Any]:
    return {
        "claims": [claim.report(measured.get(claim.number)) for claim in chosen],
        "budget": budget,
        "measured_on": place,
        "complete": complete,
    }


def shortfall(result: dict[str, Any]) -> str | None:
    """Why not all is there that was asked for."""
    if result["complete"]:
        return None
    done = sum(each["measured"] is not None for each in result["claims"])
    asked = sum(each["not_measurable"] is None for each in result["claims"])
    return f"{done} of {asked} claims measured"


def _budget(options: Namespace) -> str | None:
    """The one to measure with, None where nothing is to be measured."""
    budget: str | None = options.budget
    if not options.measure:
        if budget is not None:
            raise InputError(f"budget must be given with measure, got {budget!r} alone")
        return None
    if budget is not None and budget not in BUDGETS:
        raise InputError(f"budget must be one of {', '.join(BUDGETS)}, got {budget!r}")
    return budget or DEFAULT_BUDGET
