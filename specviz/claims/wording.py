"""How numbers are written inside the claims' sentences."""

from __future__ import annotations


def percent(share: float, decimals: int = 0) -> str:
    """With a space before the sign, as everywhere in the app.

    >>> percent(0.87), percent(0.0034, 2)
    ('87 %', '0.34 %')
    """
    return f"{100 * share:.{decimals}f} %"
