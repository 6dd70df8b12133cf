"""The command `claims`: it compares popular claims with theory, or with its own measurements."""

from __future__ import annotations

import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from specviz.claims.all_claims import CLAIMS, claim_numbered
from specviz.claims.claim import Claim, MeasuredFinding
from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.flags import add_machine_flags
from specviz.errors import InputError
from specviz.experiments.benchmark.claim_measuring import BUDGETS, ClaimMeasuring

_DEFAULT_BUDGET = "short"
_WIDTH = 100
_LEGEND = (
    "holds under conditions: true in a usual setting that the claim does not name, or in part. "
    "undecided: only a measurement can decide it, and there is none here or it is too close. "
    "here: the result of a measurement on this machine."
)


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--number",
        type=int,
        metavar="N",
        help="show only the claim with this number, in full (default all claims, in short)",
    )
    parser.add_argument(
        "--measure", action="store_true", help="also run the measurements that decide the claims"
    )
    budgets = ", ".join(
        f"{name} ({each.prompts} x {each.max_new_tokens} tokens)" for name, each in BUDGETS.items()
    )
    parser.add_argument(
        "--budget",
        metavar="NAME",
        help="for --measure: how many prompts are decoded for a claim, and how many tokens each: "
        f"{budgets} (default {_DEFAULT_BUDGET})",
    )
    add_machine_flags(parser)


def claims(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Return all claims or one of them; `--measure` also measures them and adds the verdicts.

    Ctrl+C ends the measurement and keeps the claims that are already measured.
    """
    budget = _budget(options)
    chosen = tuple(CLAIMS.values()) if options.number is None else (claim_numbered(options.number),)
    if budget is None:
        return claims_result(chosen, {}, None, None, True)
    measuring = ClaimMeasuring(BUDGETS[budget], options.device, options.dtype, progress)
    measured_on = measuring.measured_on
    measured, complete = judge_claims(chosen, measuring, progress)
    return claims_result(chosen, measured, budget, measured_on, complete)


def judge_claims(
    chosen: Sequence[Claim], measuring: ClaimMeasuring, progress: Progress
) -> tuple[dict[int, MeasuredFinding], bool]:
    """Measure claims; return each judgement by the claim's number, and whether all were measured.

    Ctrl+C ends the measurement early. If a claim cannot be measured on this machine, a progress
    line says why.
    """
    measured: dict[int, MeasuredFinding] = {}
    measurable = [claim for claim in chosen if claim.settings]
    try:
        for claim in measurable:
            progress(f"claim {claim.number}: {claim.title}")
            try:
                measured[claim.number] = claim.judge(measuring.results(claim.settings))
            except InputError as error:
                progress(f"claim {claim.number} cannot be measured: {error}")
    except KeyboardInterrupt:
        return measured, False
    return measured, len(measured) == len(measurable)


def claims_result(
    chosen: Sequence[Claim],
    measured: dict[int, MeasuredFinding],
    budget: str | None,
    measured_on: dict[str, str] | None,
    complete: bool,
) -> dict[str, Any]:
    return {
        "claims": [claim.report(measured.get(claim.number)) for claim in chosen],
        "budget": budget,
        "measured_on": measured_on,
        "complete": complete,
    }


def shortfall(result: dict[str, Any]) -> str | None:
    """Return one line if the command should have measured a claim and did not."""
    if result["complete"]:
        return None
    done = sum(each["measured"] is not None for each in result["claims"])
    measurable = sum(each["not_measurable"] is None for each in result["claims"])
    return f"{done} of {measurable} claims measured"


def _budget(options: Namespace) -> str | None:
    """Return the name of the budget, a key of BUDGETS, or None without `--measure`.

    The budget decides how many prompts and tokens each measurement decodes."""
    budget: str | None = options.budget
    if not options.measure:
        if budget is not None:
            raise InputError(f"budget must be given together with 'measure', got {budget!r} alone")
        return None
    if budget is not None and budget not in BUDGETS:
        raise InputError(f"budget must be one of {', '.join(BUDGETS)}, got {budget!r}")
    return budget or _DEFAULT_BUDGET


def claims_text(result: dict[str, Any]) -> str:
    """Return a table of all claims, then each measured claim in full.

    If the user asks for a single claim, return this claim in full.
    """
    claims = result["claims"]
    if len(claims) == 1:
        return _whole(claims[0])
    rows = [
        {
            "no.": each["number"],
            "from": " ".join(source["letter"] for source in each["sources"]),
            "claim": each["title"],
            "verdict": each["verdict"],
            "by": each["decided_by"],
            "here": _here(each),
        }
        for each in claims
    ]
    measured = [_whole(each) for each in claims if each["measured"]]
    sources = {source["letter"]: source["title"] for each in claims for source in each["sources"]}
    texts = "; ".join(f"{letter}: {title}" for letter, title in sorted(sources.items()))
    hint = "`claims --number N` shows one in full, `--measure` runs the nearest setting."
    notes = [textwrap.fill(each, _WIDTH) for each in (f"{texts}.", _LEGEND, hint)]
    return "\n\n".join([table(rows), *notes, *measured])


def _here(claim: dict[str, Any]) -> str:
    if claim["measured"]:
        return str(claim["measured"]["verdict"])
    return "not measurable" if claim["not_measurable"] else "-"


def _whole(claim: dict[str, Any]) -> str:
    theory, measured = claim["theory"], claim["measured"]
    texts = ", ".join(f"{each['letter']} ({each['title']})" for each in claim["sources"])
    parts = [
        f"{claim['number']}. {claim['title']}",
        _named("claim", f"{claim['said']} In substance, not word for word, from {texts}."),
        _named("verdict", f"{claim['verdict']}, by {claim['decided_by']}"),
        _named("answer", claim["answer"]),
        _named("theory", theory["sentence"]),
    ]
    if theory["numbers"]:
        parts.append(_indented(table([_number(each) for each in theory["numbers"]])))
    if measured:
        parts.append(_named("here", f"{measured['verdict']}. {measured['sentence']}"))
        parts.append(_indented(table([_figure(each) for each in measured["figures"]])))
    elif claim["not_measurable"]:
        parts.append(_named("here", f"not measured: it {claim['not_measurable']}"))
    return "\n".join(parts)


def _named(name: str, text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=f"  {name:8} ",
        subsequent_indent=" " * 11,
        break_on_hyphens=False,
    )


def _indented(text: str) -> str:
    return textwrap.indent(text, " " * 11)


def _number(number: dict[str, Any]) -> dict[str, str]:
    return {
        "name": number["name"],
        "theory": _digits(number["value"], number["unit"]),
        "claimed": "-" if number["claimed"] is None else _digits(number["claimed"], number["unit"]),
    }


def _figure(figure: dict[str, Any]) -> dict[str, str]:
    spread = figure["spread"]
    return {
        "name": figure["name"],
        "measured": _digits(figure["value"], figure["unit"]),
        "spread": "-" if spread is None else " to ".join(_digits(each) for each in spread),
    }


def _digits(value: float, unit: str = "") -> str:
    """Return a number with three significant digits.

    A number from 1,000 on keeps all digits before its decimal point.

    >>> _digits(0.00338), _digits(2.4595, "x"), _digits(8192, "tokens")
    ('0.00338', '2.46x', '8,192 tokens')
    """
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text + unit if unit == "x" else f"{text} {unit}".rstrip()


COMMAND = Command(
    claims,
    claims_text,
    _add_flags,
    shortfall,
    example="--number 12 --measure",
)
