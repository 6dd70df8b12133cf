"""What follows from a claim's numbers: the cost ratio behind a speedup, the acceptance it needs.

Pure arithmetic on top of `theory`; i.i.d. acceptance assumed throughout.
"""

from __future__ import annotations

from collections.abc import Callable

from specviz import theory
from specviz.forward_curve import ForwardCurve

TOLERANCE = 0.1  # of the claimed number: nearer is agreement
USUAL_COST_RATIO = 0.1  # c where a claim names none: a draft of a tenth of the target's time
USUAL_COST_RATIOS = tuple(step / 200 for step in range(4, 61))  # 0.02 to 0.3: c of usual pairs


def agrees(claimed: float, found: float) -> bool:
    """Within a tenth of what is claimed.

    >>> agrees(4, 3.69), agrees(4, 2.69)
    (True, False)
    """
    return abs(found - claimed) <= TOLERANCE * abs(claimed)


def some_usual_cost(fits: Callable[[float], bool]) -> bool:
    """Whether one usual c, the same for all that a claim says, makes its numbers come out.

    The one condition that is granted to claims that name no c.

    >>> some_usual_cost(lambda c: agrees(3.0, 4 / (1 + 5 * c)))
    True
    """
    return any(map(fits, USUAL_COST_RATIOS))


def cost_ratio(tokens: float, speedup: float, K: int) -> float:
    """c that makes `tokens` per round into this speedup, with v = 0.

    >>> round(cost_ratio(3.69, 2.46, 5), 2)
    0.1
    """
    return (tokens / speedup - 1) / K


def needed_acceptance(speedup: float, K: int, c: float) -> float | None:
    """The acceptance rate that gives this speedup (>= 1); None where none does.

    >>> round(needed_acceptance(2.46, 5, 0.1) or 0, 2)
    0.8
    """
    return theory.break_even_acceptance(K, 0.0, speedup * theory.round_cost(K, c) - 1)


def short_output_speedup(tokens: int, a: float, K: int, c: float) -> float:
    """At the least so much, on average, for `tokens` new tokens of which prefill gives the first.

    M = tokens - 1 are left. The last round overshoots by K at the most, so by Wald's identity the
    rounds number (M + K) / T at the most: theory's speedup times M / (M + K). The prefill, which
    both ways of decoding share, is not counted.

    >>> round(short_output_speedup(49, 0.8, 5, 0.1), 2)
    2.23
    """
    left = tokens - 1
    return theory.speedup(a, K, c) * left / (left + K)


def whole_speedup(speedup: float, prefill_share: float) -> float:
    """Of a request that spends this share of its plain time in the prefill (Amdahl).

    >>> round(whole_speedup(2.0, 0.5), 2)
    1.33
    """
    return 1 / (prefill_share + (1 - prefill_share) / speedup)


def ideal_curve(tokens_per_read: float, seconds: float = 1.0) -> ForwardCurve:
    """A forward that reads weights for `seconds` and computes so many tokens in that time."""
    ridge = round(tokens_per_read)
    return ForwardCurve((1, ridge, 2 * ridge), (seconds, seconds, 2 * seconds))
