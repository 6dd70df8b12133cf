"""The mean time of a request whose rounds are alike and independent, its short end included.

Theory's speedup holds for endless outputs. A short one drafts past its end and has a prefill that
nothing shortens; both follow here exactly. Pure arithmetic; knows no run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from specviz.errors import InputError

EXACT_TOKENS = 256  # from here on the time grows by the mean round's cost per token


def expected_seconds(tokens: int, survival: Sequence[float], costs: Sequence[float]) -> float:
    """Time to write `tokens` (>= 0) by rounds that draft K levels, fewer where fewer are left.

    survival[d - 1] is the chance that at least d levels pass, d = 1 … K, and does not rise;
    costs[k] what a round of k levels takes, k = 0 … K. With k = min(K, n) a round accepts A levels
    and emits min(A + 1, n) tokens:

        time(n) = costs[k] + sum over a of P(min(A, k) = a) time(n - a - 1), time(n <= 0) = 0

    >>> expected_seconds(3, [1.0, 1.0], [1.0, 1.0, 1.0])  # 3 tokens, 3 a round
    1.0
    >>> expected_seconds(4, [0.0], [1.0, 1.5])  # nothing passes: a round per token
    6.0
    """
    _check(tokens, survival, costs)
    times = [0.0]
    for left in range(1, min(tokens, EXACT_TOKENS) + 1):
        levels = min(len(survival), left)
        chances = _chances(survival[:levels])
        rest = (p * times[max(0, left - a - 1)] for a, p in enumerate(chances))
        times.append(costs[levels] + math.fsum(rest))
    beyond = max(0, tokens - EXACT_TOKENS)
    return times[-1] + beyond * costs[-1] / (1 + math.fsum(survival))


def _chances(survival: Sequence[float]) -> list[float]:
    """P(exactly a levels pass), a = 0 … K."""
    reached = (1.0, *survival, 0.0)
    return [reached[a] - reached[a + 1] for a in range(len(survival) + 1)]


def _check(tokens: int, survival: Sequence[float], costs: Sequence[float]) -> None:
    if tokens < 0:
        raise InputError(f"tokens must be at least 0, got {tokens}")
    falls = all(low <= high for high, low in zip((1.0, *survival), survival, strict=False))
    if not falls or any(not 0 <= each <= 1 for each in survival):
        raise InputError(f"survival must be chances that do not rise, got {tuple(survival)}")
    if len(costs) != len(survival) + 1 or any(not each >= 0 for each in costs):
        raise InputError(
            f"costs must be {len(survival) + 1} numbers of at least 0, got {tuple(costs)}"
        )
