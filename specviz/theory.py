"""What theory says of speculative decoding: closed forms, mean request times, the memory bound.

Letters, after Leviathan et al. (arXiv 2211.17192): a acceptance rate, K draft length,
c = draft forward / target forward, v = extra cost of verifying K + 1 tokens over one, in forwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

from specviz.errors import InputError, number_between, whole_between
from specviz.forward_curve import ForwardCurve
from specviz.records import MAX_DRAFT_LENGTH

EXACT_ROWS_TOKENS = 64  # of a batch's rows; beyond, a normal distribution stands for their rounds'
EXACT_TOKENS = 256  # from here on the time grows by the mean round's cost per token
MAX_BATCH = 1024

# ---- closed forms: tokens per target forward, speedup, best draft length
#
# All of them assume that every drafted token is accepted independently with the same probability a
# (i.i.d.). Real acceptance falls with depth and comes in streaks, so measured values differ.


def expected_tokens(a: float, K: int) -> float:
    """Tokens per target forward: T = (1 - a^(K+1)) / (1 - a), i.i.d. acceptance assumed.

    The sum 1 + a + … + a^K of "depth k is reached" over all depths (2211.17192, eq. 1); K + 1
    where a = 1. A draft length of 0 is plain decoding.

    >>> round(expected_tokens(0.8, 5), 2)
    3.69
    """
    number_between(a, "a", 0, 1)
    whole_between(K, "K", 0)
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
    whole_between(K, "K", 0)
    number_between(c, "c", 0)
    number_between(v, "v", 0)
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
    whole_between(K, "K", 1)
    cost = round_cost(K, c, v)
    if cost > K + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, K) < cost else (low, middle)
    return high


# ---- the mean time of a request whose rounds are alike and independent, its short end included
#
# The closed form of the speedup holds for endless outputs. The last rounds of a short one have no
# room for all levels, which is counted exactly here.


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
    _check_rounds(tokens, survival, [0.0] * (len(survival) + 1))
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


def _check_rounds(tokens: int, survival: Sequence[float], costs: Sequence[float]) -> None:
    if tokens < 0:
        raise InputError(f"tokens must be at least 0, got {tokens}")
    falls = all(low <= high for high, low in zip((1.0, *survival), survival, strict=False))
    if not falls or any(not 0 <= each <= 1 for each in survival):
        raise InputError(f"survival must be chances that do not rise, got {tuple(survival)}")
    if len(costs) != len(survival) + 1 or any(not each >= 0 for each in costs):
        raise InputError(
            f"costs must be {len(survival) + 1} numbers of at least 0, got {tuple(costs)}"
        )


# ---- what bounds a forward, reading weights or arithmetic, and what that means for speculation
#
# The roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009): a forward over n tokens
# takes t(n) = max(m, n f), with m the time to read all weights once and f the arithmetic of a
# token. While m is the larger, further tokens are nearly free, and verification lives on that. A
# batch of B rows brings B tokens by itself, so it uses this room up. Real times have no sharp
# corner: what takes a ForwardCurve uses measured ones.


@dataclass(frozen=True, slots=True)
class Roofline:
    """Seconds to read all weights once, m, and of the arithmetic of one token, f; both positive.

    >>> Roofline(8.0, 2.0).at(3), Roofline(8.0, 2.0).at(6), Roofline(8.0, 2.0).ridge
    (8.0, 12.0, 4.0)
    """

    read_seconds: float
    token_seconds: float

    def __post_init__(self) -> None:
        _check_positive(read_seconds=self.read_seconds, token_seconds=self.token_seconds)

    def at(self, count: float) -> float:
        """Seconds of a forward over `count` tokens."""
        return max(self.read_seconds, count * self.token_seconds)

    @property
    def ridge(self) -> float:
        """The tokens at which both take equally long: from there on arithmetic binds."""
        return self.read_seconds / self.token_seconds


def fitted_roofline(counts: Sequence[int], seconds: Sequence[float]) -> Roofline:
    """The roofline nearest to measured forwards, by the squares of the logarithms' differences.

    The first times are taken for reading, the others for arithmetic, split wherever that fits best:
    m and f are then geometric means. `counts` rise, three or more of them.

    >>> fit = fitted_roofline((1, 2, 4, 8, 16), (4.0, 4.0, 4.0, 8.0, 16.0))
    >>> round(fit.read_seconds, 6), round(fit.token_seconds, 6)
    (4.0, 1.0)
    """
    if len(counts) < 3 or len(counts) != len(seconds):
        raise InputError(
            "counts and seconds must be three or more each and as many,"
            f" got {len(counts)} and {len(seconds)}"
        )
    for time, count in zip(seconds, counts, strict=True):
        _check_positive(seconds=time, counts=count)
    logs = [math.log(each) for each in seconds]
    per_token = [log - math.log(count) for log, count in zip(logs, counts, strict=True)]
    splits = range(1, len(counts))
    fits = [Roofline(_exp_mean(logs[:at]), _exp_mean(per_token[at:])) for at in splits]

    def misfit(fit: Roofline) -> float:
        pairs = zip(counts, logs, strict=True)
        return math.fsum((math.log(fit.at(count)) - log) ** 2 for count, log in pairs)

    return min(fits, key=misfit)


def _exp_mean(logs: Sequence[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs))


def touched_experts(experts: int, active: int, tokens: int) -> float:
    """Experts whose weights a forward over `tokens` tokens reads, of `experts` in a layer.

    Each token takes `active` different ones, independently of the others and all equally often:
    E (1 - (1 - A / E)^n). Real routers favour some, which makes it a little less.

    >>> round(touched_experts(8, 2, 1), 1), round(touched_experts(8, 2, 6), 1)
    (2.0, 6.6)
    """
    if not 1 <= active <= experts:
        raise InputError(f"active must be from 1 to {experts} experts, got {active}")
    whole_between(tokens, "tokens", 1)
    return experts * (1 - (1 - active / experts) ** tokens)


def batch_speedup(a: float, K: int, rows: int, target: ForwardCurve, draft: ForwardCurve) -> float:
    """Speedup of `rows` rows that all speculate: T t(B) / (t(B (K + 1)) + K d(B)).

    Assumes i.i.d. acceptance, rows that never wait for one another, no host time, and times that
    depend on the number of tokens alone (after Liu et al., arXiv 2406.14066).

    >>> flat = ForwardCurve((1, 64), (1.0, 1.0))
    >>> round(batch_speedup(0.8, 5, 8, flat, ForwardCurve((1, 64), (0.1, 0.1))), 2)
    2.46
    """
    return (
        expected_tokens(a, K) * target.at(rows) / (target.at(rows * (K + 1)) + K * draft.at(rows))
    )


def largest_paying_batch(a: float, K: int, target: ForwardCurve, draft: ForwardCurve) -> int:
    """Rows up to which speculation always pays by `batch_speedup`; 0 if never, at most MAX_BATCH.

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
    """Tokens per second of one row at the most: every token reads all weights and its cache once.

    A mixture of experts reads only its active weights.

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
    """Share of the arithmetic peak that a memory-bound forward over `tokens` tokens can use.

    A weight is read once and serves a multiplication and an addition per token: 2 n / bytes FLOP
    per byte, against the machine's own ratio. Leaves out attention. At most 1.

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
            raise InputError(f"{name} must be a positive number, got {value}")
