"""The mean time of a request whose rounds are alike and independent, its short end included.

Theory's speedup holds for endless outputs. The last rounds of a short one have no room for all
levels, which follows here exactly. Pure arithmetic; knows no run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from specviz.errors import InputError

EXACT_TOKENS = 256  # from here on the time grows by the mean round's cost per token


def expected_seconds(tokens: int, survival: Sequence[float], costs: Sequence[float]) -> float:
    """Time to write `tokens` (>= 0) by rounds that draft K levels, fewer where fewer are left.

    survival[d - 1] is the chance that at least d levels pass, d = 1 … K, and does not rise;
    costs[k] what a round of k levels takes, k = 0 … K. The extra token takes one of the n that are
    left, so k = min(K, n - 1); a round in which A of these pass emits A + 1 tokens:

        time(n) = costs[k] + sum over a of P(min(A, k) = a) time(n - a - 1), time(0) = 0

    >>> expected_seconds(3, [1.0, 1.0], [1.0, 1.0, 1.0])  # 3 tokens, 3 a round
    1.0
    >>> expected_seconds(4, [0.0], [1.0, 1.5])  # nothing passes: a round per token
    5.5
    """
    _check(tokens, survival, costs)
    times = [0.0]
    for left in range(1, min(tokens, EXACT_TOKENS) + 1):
        levels = min(len(survival), left - 1)
        chances = _chances(survival[:levels])
        rest = (p * times[left - a - 1] for a, p in enumerate(chances))
        times.append(costs[levels] + math.fsum(rest))
    beyond = max(0, tokens - EXACT_TOKENS)
    return times[-1] + beyond * costs[-1] / (1 + math.fsum(survival))


def waiting(rows: int, tokens: int, survival: Sequence[float]) -> float:
    """Rounds of the longest of `rows` (>= 1) requests over those of a mean one; all write `tokens`.

    A batch ends with its last row. By the central limit theorem for renewals (Feller, volume 2,
    chapter XI) a row takes about N(n / mu, n sigma^2 / mu^3) rounds for n tokens, where mu and
    sigma^2 are mean and variance of a round's tokens; the largest of B normal draws lies about
    the quantile (B - 3/8) / (B + 1/4) (Blom 1958). Rows count as equally easy to draft for.

    >>> waiting(1, 50, [0.5, 0.25])
    1.0
    >>> round(waiting(16, 50, [0.5, 0.25]), 2)
    1.16
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}")
    mean = 1 + math.fsum(survival)
    squares = math.fsum(p * (1 + a) ** 2 for a, p in enumerate(_chances(survival)))
    deviations = NormalDist().inv_cdf((rows - 0.375) / (rows + 0.25))
    return 1 + deviations * math.sqrt(max(0.0, squares - mean**2) / (mean * max(1, tokens)))


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
