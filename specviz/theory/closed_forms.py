"""Closed forms of speculative decoding: tokens per target forward, speedup, best draft length.

All forms assume that every drafted token is accepted independently with the same probability a
(i.i.d.). Real acceptance falls with depth and comes in streaks, so measured values differ.

Letters, after Leviathan et al. (arXiv 2211.17192): a acceptance rate, K draft length,
c = draft forward / target forward, v = extra cost of verifying K + 1 tokens over one, in forwards.
"""

from __future__ import annotations

import math

from specviz.errors import InputError
from specviz.records import MAX_DRAFT_LENGTH


def _is_finite(value: object) -> bool:
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return is_int or (isinstance(value, float) and math.isfinite(value))


def _check_probability(name: str, value: float) -> None:
    if not _is_finite(value) or not 0 <= value <= 1:
        raise InputError(f"{name} must be from 0 to 1, got {value!r}")


def _check_length(name: str, value: int, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InputError(f"{name} must be an integer of at least {low}, got {value!r}")


def _check_cost(name: str, value: float) -> None:
    if not _is_finite(value) or value < 0:
        raise InputError(f"{name} must be a number of at least 0, got {value!r}")


def expected_tokens(a: float, K: int) -> float:
    """Tokens per target forward: T = (1 - a^(K+1)) / (1 - a), i.i.d. acceptance assumed.

    The sum 1 + a + … + a^K of "depth k is reached" over all depths (2211.17192, eq. 1); K + 1
    where a = 1. A draft length of 0 is plain decoding.

    >>> round(expected_tokens(0.8, 5), 2)
    3.69
    """
    _check_probability("a", a)
    _check_length("K", K, 0)
    return math.fsum(a**depth for depth in range(K + 1))


def expected_accepted(a: float, K: int) -> float:
    """Drafted tokens accepted per round: T - 1 = a (1 - a^K) / (1 - a), i.i.d. acceptance assumed.

    Not a K: a rejection drops everything drafted after it. For a = 0.8 and K = 5 the difference is
    2.69 against 4.

    >>> round(expected_accepted(0.8, 5), 2)
    2.69
    """
    return expected_tokens(a, K) - 1


def round_cost(K: int, c: float, v: float = 0.0) -> float:
    """Time of one round in target forwards: 1 + K c + v.

    >>> round(round_cost(5, 0.1), 2)
    1.5
    """
    _check_length("K", K, 0)
    _check_cost("c", c)
    _check_cost("v", v)
    return 1 + K * c + v


def speedup(a: float, K: int, c: float, v: float = 0.0) -> float:
    """Time per token of plain decoding over speculative: T / (1 + K c + v), i.i.d. assumed.

    2211.17192, theorem 3.8, with v added: there verifying K + 1 tokens costs as much as one.
    Below 1 speculation loses.

    >>> round(speedup(0.8, 5, 0.1), 2)
    2.46
    """
    return expected_tokens(a, K) / round_cost(K, c, v)


def best_draft_length(a: float, c: float, v: float = 0.0) -> int:
    """The K from 1 to 32 with the highest speedup, the shortest of equals; i.i.d. assumed.

    v counts as the same for every K. The answer is the best of the lengths, which still may lose:
    compare its speedup with 1.

    >>> best_draft_length(0.8, 0.1), best_draft_length(0.3, 0.5)
    (6, 1)
    """
    return max(range(1, MAX_DRAFT_LENGTH + 1), key=lambda length: speedup(a, length, c, v))


def break_even_acceptance(K: int, c: float, v: float = 0.0) -> float | None:
    """The acceptance rate above which speculation pays, None where it never does; i.i.d. assumed.

    Solves T(a, K) = 1 + K c + v for a. T grows from 1 to K + 1 with a, so bisection finds it.

    >>> round(break_even_acceptance(1, 0.3), 6)  # T = 1 + a
    0.3
    >>> break_even_acceptance(4, 1.5) is None  # costs 7 forwards, yields 5 tokens at the most
    True
    """
    _check_length("K", K, 1)
    cost = round_cost(K, c, v)
    if cost > K + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, K) < cost else (low, middle)
    return high
