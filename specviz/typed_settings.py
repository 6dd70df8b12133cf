"""Settings as people type them, on the command line and in the page's form, to checked values.

Knows nothing of where a text was typed; each error names the setting, the rule and the value.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.errors import InputError
from specviz.records import ProposalKind

MOST_DIGITS = 9  # of a number in a list: far beyond every bound


def parse_integers(name: str, text: str) -> tuple[int, ...]:
    """Numbers with commas between; an empty text is an empty tuple.

    >>> parse_integers("branching", " 3, 2 "), parse_integers("branching", "")
    ((3, 2), ())
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) <= MOST_DIGITS for part in parts):
        raise InputError(f"{name} must be integers with commas, such as 3,2, got {text!r}")
    return tuple(map(int, parts))


def parse_kind(name: str, text: str, kinds: Sequence[ProposalKind]) -> ProposalKind:
    """One of `kinds`, those of a method; an empty text is the first.

    >>> parse_kind("rule", "", [ProposalKind.IID])
    <ProposalKind.IID: 'iid'>
    """
    for kind in kinds:
        if text in ("", kind.value):
            return kind
    allowed = ", ".join(kind.value for kind in kinds)
    raise InputError(f"{name} must be one of {allowed} for this method, got {text!r}")
