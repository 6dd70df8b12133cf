"""Checked claims as text for a terminal.

Takes what `claims --json` would print.
"""

from __future__ import annotations

import textwrap
from typing import Any

from specviz.commands.console import table

WIDTH = 100
_LEGEND = (
    "holds under conditions: true in a usual setting that the claim does not name, or in a part of "
    "it. undecided: nothing but a measurement decides it, and none is here or it is too close. "
    "here: what a measurement on this machine says."
)


def claims_text(result: dict[str, Any]) -> str:
    """All claims as a table, then those that were measured or asked for by number."""
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
    hint = "`claims --number N` tells one in full, `--measure` runs the nearest setting."
    notes = [textwrap.fill(each, WIDTH) for each in (f"{texts}.", _LEGEND, hint)]
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
        _named("claim", f"{claim['said']} From {texts}."),
        _named("verdict", f"{claim['verdict']}, by {claim['decided_by']}"),
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
        WIDTH,
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
    """Three significant digits, whole from 1000 on.

    >>> _digits(0.00338), _digits(2.4595, "x"), _digits(8192, "tokens")
    ('0.00338', '2.46x', '8,192 tokens')
    """
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text + unit if unit == "x" else f"{text} {unit}".rstrip()
