"""Read all claims from claims.toml: number -> claim."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specviz.claims import measured_rules, theory_rules
from specviz.claims.claim import (
    Account,
    Batches,
    Claim,
    ClaimKind,
    Clocks,
    Distributions,
    Exactness,
    Grid,
    LibraryLength,
    Noise,
    Setting,
    TableRow,
)
from specviz.claims.own_numbers import OwnNumber
from specviz.claims.sentences import ChoiceTemplate, ListTemplate, Templates
from specviz.errors import InputError

_FILE = Path(__file__).with_name("claims.toml")
_EXPERIMENTS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (Grid, Batches, Clocks, Exactness, Distributions, Noise, LibraryLength)
}


def claim_numbered(number: int) -> Claim:
    """Return the claim with this number. Raises InputError if there is none."""
    if number not in CLAIMS:
        raise InputError(f"number must be a whole number from 1 to {max(CLAIMS)}, got {number}")
    return CLAIMS[number]


def _read() -> dict[int, Claim]:
    data = _with_tuples(tomllib.loads(_FILE.read_text(encoding="utf-8")))
    settings = {name: _setting(fields) for name, fields in data["settings"].items()}
    claims = (_claim(entry, data["texts"], settings) for entry in data["claims"])
    return {claim.number: claim for claim in claims}


def _claim(
    entry: Mapping[str, Any], texts: Mapping[str, str], settings: Mapping[str, Setting]
) -> Claim:
    theory, measured = entry["theory"], entry.get("measured")
    if measured is None:
        others: dict[str, Any] = {"reason": entry["not_measurable"]}
    else:
        others = {
            "settings": tuple(settings[name] for name in measured["settings"]),
            "measured_rule": measured_rules.RULES[measured["rule"]],
            "measured_account": _account(measured),
        }
    return Claim(
        entry["number"],
        entry["title"],
        entry["said"],
        tuple((letter, texts[letter]) for letter in entry["texts"]),
        ClaimKind(entry["kind"]),
        entry.get("numbers", {}),
        theory_rules.RULES[theory["rule"]],
        _account(theory),
        entry["lesson"],
        tuple(OwnNumber(**fields) for fields in entry["own"]),
        entry.get("example", {}),
        **others,
    )


def _account(entry: Mapping[str, Any]) -> Account:
    wording = Templates(
        {name: ListTemplate(**fields) for name, fields in entry.get("lists", {}).items()},
        {name: _choice(fields) for name, fields in entry.get("choices", {}).items()},
    )
    return Account(
        entry["sentence"],
        tuple(TableRow(**row) for row in entry.get("rows", ())),
        wording,
        entry.get("answer", ""),
    )


def _choice(fields: Mapping[str, str]) -> ChoiceTemplate:
    texts = {name: text for name, text in fields.items() if name != "by"}
    return ChoiceTemplate(fields["by"], texts)


def _setting(fields: Mapping[str, Any]) -> Setting:
    others = {name: value for name, value in fields.items() if name != "experiment"}
    setting: Setting = _EXPERIMENTS[fields["experiment"]](**others)
    return setting


def _with_tuples(value: Any) -> Any:
    """Return the data with a tuple in place of each list, so that no code can change the data."""
    if isinstance(value, dict):
        return {name: _with_tuples(each) for name, each in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


CLAIMS: dict[int, Claim] = _read()
