"""A claim, what theory says and what was measured, as one JSON-able value."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz.claims.claim import Claim, Judgement
from specviz.claims.setting import Setting


def report(claim: Claim, measured: Judgement | None = None) -> dict[str, Any]:
    """`measured` is None where nothing was; `not_measurable` says why nothing can be."""
    found = claim.theory()
    return {
        "number": claim.number,
        "title": claim.title,
        "said": claim.said,
        "sources": [{"letter": text.name, "title": text.value} for text in claim.texts],
        "kind": claim.kind.value,
        "decided_by": claim.kind.decided_by,
        "verdict": claim.verdict(measured).value,
        "theory": {
            "sentence": found.sentence,
            "numbers": [asdict(number) for number in found.numbers],
        },
        "settings": [_setting(setting) for setting in claim.settings],
        "not_measurable": claim.reason or None,
        "measured": None if measured is None else _judgement(measured),
    }


def _setting(setting: Setting) -> dict[str, Any]:
    fields = {name: _plain(value) for name, value in asdict(setting).items()}
    return {"experiment": type(setting).__name__.lower(), **fields}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _judgement(measured: Judgement) -> dict[str, Any]:
    return {
        "verdict": measured.verdict.value,
        "sentence": measured.sentence,
        "figures": [
            {**asdict(figure), "spread": None if figure.spread is None else list(figure.spread)}
            for figure in measured.figures
        ],
    }
