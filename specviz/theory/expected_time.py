"""The mean time of a request whose rounds are alike and independent, its short end included.

The closed form of the speedup holds for endless outputs. The last rounds of a short one have no
room for all levels, which is counted exactly here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from statistics import NormalDist

from specviz.errors import InputError

EXACT_ROWS_TOKENS = 64  # of a batch's rows; beyond, a normal distribution stands for their rounds'
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

    A batch ends with its last row; rows count as equally easy to draft for. Exact up to
    EXACT_ROWS_TOKENS, by the recursion of `expected_seconds` over whole distributions. Beyond, by
    the central limit theorem for renewals (Feller, volume 2, chapter XI), a row takes about
    N(n / mu, n sigma^2 / mu^3) rounds for n tokens, where mu and sigma^2 are mean and variance of a
    round's tokens, and the largest of B normal draws lies about the quantile (B - 3/8) / (B + 1/4)
    (Blom 1958): within 5 % for acceptance rates up to 0.9.

    >>> waiting(1, 50, [0.5, 0.25]), waiting(64, 1, [0.5, 0.25])
    (1.0, 1.0)
    >>> round(waiting(16, 50, [0.5, 0.25]), 2), round(waiting(16, 100, [0.5, 0.25]), 2)
    (1.16, 1.11)
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}")
    _check(tokens, survival, [0.0] * (len(survival) + 1))
    if tokens <= EXACT_ROWS_TOKENS:
        return _exact_waiting(rows, _rounds_distribution(tokens, survival))
    mean = 1 + math.fsum(survival)
    squares = math.fsum(p * (1 + a) ** 2 for a, p in enumerate(_chances(survival)))
    deviations = NormalDist().inv_cdf((rows - 0.375) / (rows + 0.25))
    return 1 + deviations * math.sqrt(max(0.0, squares - mean**2) / (mean * tokens))


def _rounds_distribution(tokens: int, survival: Sequence[float]) -> list[float]:
    """P(a row takes r rounds), r = 0 … tokens."""
    distributions = [[1.0]]
    for left in range(1, tokens + 1):
        chances = _chances(survival[: left - 1])
        distribution = [0.0] * (left + 1)
        for passed, chance in enumerate(chances):
            for rounds, p in enumerate(distributions[left - passed - 1]):
                distribution[rounds + 1] += chance * p
        distributions.append(distribution)
    return distributions[-1]


def _exact_waiting(rows: int, distribution: Sequence[float]) -> float:
    """Mean of the largest of `rows` draws over the mean of one; both are sums of P(more than r)."""
    ended = [min(1.0, each) for each in accumulate(distribution)][:-1]
    mean = math.fsum(1 - each for each in ended)
    return math.fsum(1 - each**rows for each in ended) / mean if mean else 1.0


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
