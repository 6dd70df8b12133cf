"""The theory of speculative decoding: formulas, mean times of requests, and the memory bound.

The formulas use the letters of Leviathan et al. (arXiv 2211.17192), and v:

- a is the acceptance rate, and K is the draft length.
- c is the time of a draft forward / the time of a target forward.
- v is the extra time for verifying K + 1 tokens instead of one, in target forwards.
- T is the mean number of tokens per target forward, the result of `expected_tokens`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

from specviz.errors import InputError, number_between, short, whole_between
from specviz.forward_curve import ForwardCurve
from specviz.records import MAX_DRAFT_LENGTH

# `waiting` is exact for at most this number of tokens. For more tokens, `waiting` approximates the
# number of rounds by a normal distribution.
EXACT_ROWS_TOKENS = 64
# `expected_seconds` is exact for at most this number of tokens. For more tokens, it adds a constant
# time per further token: the mean time of a round divided by the mean number of tokens in a round.
EXACT_TOKENS = 256
MAX_BATCH = 1024

# Formulas for tokens per target forward, speedup and best draft length. All of them assume that
# every drafted token is accepted independently with the same probability a (i.i.d.). Real
# acceptance falls with depth and changes along a text, so measured values differ.


def expected_tokens(a: float, K: int) -> float:
    """Return the tokens per target forward, T = (1 - a^(K+1)) / (1 - a), for i.i.d. acceptance.

    This is 1 + a + … + a^K, the sum of the probabilities that each depth is reached (arXiv
    2211.17192, eq. 1). For a = 1 it is K + 1. A draft length of 0 means plain decoding.

    >>> round(expected_tokens(0.8, 5), 2)
    3.69
    """
    number_between(a, "a", 0, 1)
    whole_between(K, "K", 0)
    return math.fsum(a**depth for depth in range(K + 1))


def expected_accepted(a: float, K: int) -> float:
    """Return the accepted tokens per round, T - 1 = a (1 - a^K) / (1 - a), for i.i.d. acceptance.

    The number is smaller than a K, because a rejection drops all tokens that were drafted after the
    rejected one. For a = 0.8 and K = 5 it is 2.69 instead of 4.

    >>> round(expected_accepted(0.8, 5), 2)
    2.69
    """
    return expected_tokens(a, K) - 1


def round_cost(K: int, c: float, v: float = 0.0) -> float:
    """Return the time of one round, in units of a target forward: 1 + K c + v.

    >>> round(round_cost(5, 0.1), 2)
    1.5
    """
    whole_between(K, "K", 0)
    number_between(c, "c", 0)
    number_between(v, "v", 0)
    return 1 + K * c + v


def speedup(a: float, K: int, c: float, v: float = 0.0) -> float:
    """Return the speedup per token, T / (1 + K c + v), for i.i.d. acceptance.

    This is theorem 3.8 of arXiv 2211.17192 with v added. The paper assumes that the target verifies
    K + 1 tokens in the time of one token. With a result below 1, speculation is slower than plain
    decoding.

    >>> round(speedup(0.8, 5, 0.1), 2)
    2.46
    """
    return expected_tokens(a, K) / round_cost(K, c, v)


def best_draft_length(a: float, c: float, v: float = 0.0) -> int:
    """Return the K from 1 to 32 with the highest speedup.

    If several K have the highest speedup, return the smallest of them.

    The function assumes that acceptance is i.i.d. and that v is the same for every K. Even the best
    K may be slower than plain decoding, so compare its speedup with 1.

    >>> best_draft_length(0.8, 0.1), best_draft_length(0.3, 0.5)
    (6, 1)
    """
    return max(range(1, MAX_DRAFT_LENGTH + 1), key=lambda length: speedup(a, length, c, v))


def break_even_acceptance(K: int, c: float, v: float = 0.0) -> float | None:
    """Return the acceptance rate above which speculation is faster than plain decoding.

    Return None if speculation is never faster.

    The result solves T(a, K) = 1 + K c + v for a. T grows with a from 1 to K + 1, so bisection
    finds it.

    >>> round(break_even_acceptance(1, 0.3), 6)  # T = 1 + a
    0.3
    >>> break_even_acceptance(4, 1.5) is None  # costs 7 forwards, yields at most 5 tokens
    True
    """
    whole_between(K, "K", 1)
    cost = round_cost(K, c, v)
    if cost > K + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, K) < cost else (low, middle)
    return high


# The functions below compute the mean time of a request. They assume that all rounds of a request
# are independent and have the same probabilities of acceptance. The formula for the speedup assumes
# an endless output, but in the last rounds of a short output fewer levels can be drafted. The
# functions below include that effect exactly.


def expected_seconds(tokens: int, survival: Sequence[float], costs: Sequence[float]) -> float:
    """Return the mean time to write `tokens` (>= 0) tokens in rounds that draft K levels.

    The last rounds draft fewer levels. survival[d - 1] is the probability that at least d
    levels are accepted, d = 1 … K, and does not rise. costs[k] is the time of a round with k
    levels, k = 0 … K. If n tokens are left, one of them is the extra token, so k = min(K, n - 1). A
    round that accepts A of these levels emits A + 1 tokens:

    time(n) = costs[k] + sum over a of P(min(A, k) = a) time(n - a - 1), time(0) = 0

    >>> expected_seconds(3, [1.0, 1.0], [1.0, 1.0, 1.0])  # 3 tokens per round
    1.0
    >>> expected_seconds(4, [0.0], [1.0, 1.5])  # no draft is accepted
    5.5
    """
    _check_rounds(tokens, survival, costs)
    times = [0.0]
    for left in range(1, min(tokens, EXACT_TOKENS) + 1):
        levels = min(len(survival), left - 1)
        chances = _chances(survival[:levels])
        rest = (p * times[left - a - 1] for a, p in enumerate(chances))
        times.append(costs[levels] + math.fsum(rest))
    beyond = max(0, tokens - EXACT_TOKENS)
    return times[-1] + beyond * costs[-1] / (1 + math.fsum(survival))


def waiting(rows: int, tokens: int, survival: Sequence[float]) -> float:
    """Return how much longer a batch of `rows` (>= 1) requests takes than a mean request.

    The result is the number of rounds of the longest request / the mean number of rounds.

    All requests write `tokens` tokens and have the same acceptance. A batch ends when its longest
    request ends, so the other requests wait. Up to EXACT_ROWS_TOKENS tokens the value is exact: a
    recursion gives the distribution of a request's number of rounds. For more tokens, the central
    limit theorem for renewals is used (Feller, volume 2, chapter XI): n tokens take about N(n / mu,
    n sigma^2 / mu^3) rounds, where mu and sigma^2 are mean and variance of the tokens in a round.
    The largest of B = `rows` normal numbers is near the quantile (B - 3/8) / (B + 1/4) (Blom 1958).
    The error is at most 5 % for acceptance rates up to 0.9.

    >>> waiting(1, 50, [0.5, 0.25]), waiting(64, 1, [0.5, 0.25])
    (1.0, 1.0)
    >>> round(waiting(16, 50, [0.5, 0.25]), 2), round(waiting(16, 100, [0.5, 0.25]), 2)
    (1.16, 1.11)
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}")
    _check_rounds(tokens, survival, [0.0] * (len(survival) + 1))
    if tokens <= EXACT_ROWS_TOKENS:
        return _exact_waiting(rows, _rounds_distribution(tokens, survival))
    mean = 1 + math.fsum(survival)
    squares = math.fsum(p * (1 + a) ** 2 for a, p in enumerate(_chances(survival)))
    deviations = NormalDist().inv_cdf((rows - 0.375) / (rows + 0.25))
    return 1 + deviations * math.sqrt(max(0.0, squares - mean**2) / (mean * tokens))


def _rounds_distribution(tokens: int, survival: Sequence[float]) -> list[float]:
    """Return, for r = 0 … tokens, the probability that a row (sequence) needs exactly r rounds."""
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
    """Return the mean rounds of the longest of `rows` requests / the mean rounds of one request.

    `distribution[r]` is the probability that a request needs r rounds. Both means are computed as
    sums over r of P(more than r rounds).
    """
    ended = [min(1.0, each) for each in accumulate(distribution)][:-1]
    mean = math.fsum(1 - each for each in ended)
    return math.fsum(1 - each**rows for each in ended) / mean if mean else 1.0


def _chances(survival: Sequence[float]) -> list[float]:
    """Return, for a = 0 … K, the probability that exactly `a` levels are accepted."""
    reached = (1.0, *survival, 0.0)
    return [reached[a] - reached[a + 1] for a in range(len(survival) + 1)]


def _check_rounds(tokens: int, survival: Sequence[float], costs: Sequence[float]) -> None:
    if tokens < 0:
        raise InputError(f"tokens must be at least 0, got {tokens}")
    falls = all(low <= high for high, low in zip((1.0, *survival), survival, strict=False))
    if not falls or any(not 0 <= each <= 1 for each in survival):
        raise InputError(f"survival must be probabilities that do not rise, got {tuple(survival)}")
    if len(costs) != len(survival) + 1 or any(not each >= 0 for each in costs):
        raise InputError(
            f"costs must be {len(survival) + 1} numbers of at least 0, got {tuple(costs)}"
        )


# A forward over n tokens reads all weights once, in the time m, and computes each token, in the
# time f. The roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009) says that both
# overlap completely, so the forward takes t(n) = max(m, n f). The forwards that this app measures
# take about t(n) = m + n f. While m is larger than n f, more tokens take little extra time, and
# this makes verification cheap. A forward of a batch of B rows has B tokens even without drafts, so
# fewer drafted tokens are cheap. Functions that take a ForwardCurve use measured times.


@dataclass(frozen=True, slots=True)
class ForwardLine:
    """The seconds of a forward as a straight line: m, plus f for each token.

    m is the time that does not depend on the number of tokens, above all the time to read the
    weights. Both are at least 0, and one of them is positive.

    >>> ForwardLine(8.0, 2.0).at(3), ForwardLine(8.0, 2.0).ridge
    (14.0, 4.0)
    """

    read_seconds: float
    token_seconds: float

    def at(self, count: float) -> float:
        """Return the seconds of a forward over `count` tokens."""
        return self.read_seconds + count * self.token_seconds

    @property
    def ridge(self) -> float | None:
        """Return the number of tokens at which reading and arithmetic take the same time.

        With more tokens, arithmetic takes longer than reading. None means that arithmetic takes no
        time.
        """
        return self.read_seconds / self.token_seconds if self.token_seconds > 0 else None


def fitted_line(counts: Sequence[int], seconds: Sequence[float]) -> ForwardLine:
    """Return the line that fits measured forwards best, by least squares of the relative errors.

    Noise may suggest a negative m or f; the function then sets it to 0 and fits the other one.
    `counts` has the numbers of tokens. At least three measurements are needed.

    >>> fit = fitted_line((1, 2, 4, 8), (5.0, 6.0, 8.0, 12.0))
    >>> round(fit.read_seconds, 6), round(fit.token_seconds, 6)
    (4.0, 1.0)
    """
    if len(counts) < 3 or len(counts) != len(seconds):
        raise InputError(
            "counts and seconds must have the same length, at least three,"
            f" got {len(counts)} and {len(seconds)}"
        )
    for time, count in zip(seconds, counts, strict=True):
        _check_positive(seconds=time, counts=count)
    # The relative error of m + n f is m x + f y - 1, with x = 1 / t and y = n / t.
    x = [1 / time for time in seconds]
    y = [count / time for time, count in zip(seconds, counts, strict=True)]
    xx = math.fsum(each * each for each in x)
    yy = math.fsum(each * each for each in y)
    xy = math.fsum(one * other for one, other in zip(x, y, strict=True))
    determinant = xx * yy - xy * xy
    if determinant > 0:
        read = (math.fsum(x) * yy - math.fsum(y) * xy) / determinant
        each = (math.fsum(y) * xx - math.fsum(x) * xy) / determinant
        if read >= 0 and each >= 0:
            return ForwardLine(read, each)
        if read < 0:
            return ForwardLine(0.0, math.fsum(y) / yy)
    return ForwardLine(math.fsum(x) / xx, 0.0)


def touched_experts(experts: int, active: int, tokens: int) -> float:
    """Return how many of a layer's `experts` a forward over `tokens` tokens reads.

    The number is E (1 - (1 - A / E)^n) for E experts, of which each token uses A, and n tokens. The
    formula assumes that the experts of a token are chosen independently and uniformly. Real models
    prefer some experts, so the true number is a little lower.

    >>> round(touched_experts(8, 2, 1), 1), round(touched_experts(8, 2, 6), 1)
    (2.0, 6.6)
    """
    if not 1 <= active <= experts:
        raise InputError(f"active must be from 1 to {experts} experts, got {active}")
    whole_between(tokens, "tokens", 1)
    return experts * (1 - (1 - active / experts) ** tokens)


def batch_speedup(a: float, K: int, rows: int, target: ForwardCurve, draft: ForwardCurve) -> float:
    """Return the speedup of a batch of B rows that speculate: T t(B) / (t(B (K + 1)) + K d(B)).

    A row is a sequence of the batch, and B is their number, `rows`. T is the result of
    `expected_tokens(a, K)`. t(n) and d(n) are the times of a target and of a draft forward over n
    tokens. The formula assumes i.i.d. acceptance, rows that never wait for each other, no time on
    the host, and times that depend only on the number of tokens (Liu et al., arXiv 2406.14066).

    >>> flat = ForwardCurve((1, 64), (1.0, 1.0))
    >>> round(batch_speedup(0.8, 5, 8, flat, ForwardCurve((1, 64), (0.1, 0.1))), 2)
    2.46
    """
    return (
        expected_tokens(a, K) * target.at(rows) / (target.at(rows * (K + 1)) + K * draft.at(rows))
    )


def largest_paying_batch(a: float, K: int, target: ForwardCurve, draft: ForwardCurve) -> int:
    """Return the largest batch up to which speculation is always faster than plain decoding.

    The result is 0 if even a single sequence is slower with speculation, and at most MAX_BATCH.

    >>> steep = ForwardCurve((1, 2), (1.0, 2.0))
    >>> largest_paying_batch(0.8, 5, steep, ForwardCurve((1, 2), (0.1, 0.1)))
    0
    """
    paying = 0
    while paying < MAX_BATCH and batch_speedup(a, K, paying + 1, target, draft) > 1:
        paying += 1
    return paying


def bandwidth_limit(
    weight_bytes: float, bytes_per_second: float, cache_bytes: float = 0.0
) -> float:
    """Return the largest possible number of tokens per second of one row (sequence).

    Each token must read all weights and the row's KV cache. A mixture of experts reads only its
    active weights.

    >>> round(bandwidth_limit(26.8e9, 3.35e12))
    125
    """
    _check_positive(weight_bytes=weight_bytes, bytes_per_second=bytes_per_second)
    if not math.isfinite(cache_bytes) or cache_bytes < 0:
        raise InputError(f"cache_bytes must be a number of at least 0, got {cache_bytes}")
    return bytes_per_second / (weight_bytes + cache_bytes)


def peak_share(
    tokens: int, bytes_per_weight: float, flops_per_second: float, bytes_per_second: float
) -> float:
    """Return the share of peak arithmetic that a memory-bound forward can use, at most 1.

    The forward reads each weight once and uses it for one multiplication and one addition per
    token. For n tokens it therefore does 2 n / `bytes_per_weight` FLOP per byte that it reads. The
    result is this number divided by the FLOP per byte of which the machine is capable. Attention is
    not counted.

    >>> round(peak_share(1, 2, 989e12, 3.35e12), 4)  # bfloat16 on an H100
    0.0034
    """
    _check_positive(
        tokens=tokens,
        bytes_per_weight=bytes_per_weight,
        flops_per_second=flops_per_second,
        bytes_per_second=bytes_per_second,
    )
    intensity = 2 * tokens / bytes_per_weight
    return min(1.0, intensity * bytes_per_second / flops_per_second)


def _check_positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not math.isfinite(value) or value <= 0:
            raise InputError(f"{name} must be a positive number, got {short(value)}")
