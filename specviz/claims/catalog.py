"""All claims, by number."""

from __future__ import annotations

from specviz.claims import (
    advice,
    ladders,
    limits,
    machines,
    multiples,
    pairs,
    programs,
    ranges,
    rules,
    serving,
)
from specviz.claims.claim import Claim
from specviz.errors import InputError

_MODULES = (
    advice,
    ladders,
    limits,
    machines,
    multiples,
    pairs,
    programs,
    ranges,
    rules,
    serving,
)
CLAIMS: dict[int, Claim] = {
    claim.number: claim
    for claim in sorted(
        (claim for module in _MODULES for claim in module.CLAIMS), key=lambda each: each.number
    )
}


def claim_numbered(number: int) -> Claim:
    """InputError for a number that there is not."""
    if number not in CLAIMS:
        raise InputError(f"number must be an integer from 1 to {max(CLAIMS)}, got {number}")
    return CLAIMS[number]
