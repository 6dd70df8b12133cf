"""What bounds a forward, reading weights or arithmetic, and what that means for speculation.

The roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009): a forward over n tokens
takes t(n) = max(m, n f), with m the time to read all weights once and f the arithmetic of a token.
While m is the larger, further tokens are nearly free, and verification lives on that. A batch of B
rows brings B tokens by itself, so it uses this room up. Real times have no sharp corner: what takes
a ForwardCurve uses measured ones.
"""

from __future__ import annotations

import math

from specviz.errors import InputError
from specviz.forward_curve import ForwardCurve
from specviz.theory.closed_forms import expected_tokens

MAX_BATCH = 1024


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
