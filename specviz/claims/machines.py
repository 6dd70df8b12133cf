"""Claims on what the hardware allows: bandwidth, arithmetic, memory."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.claims import judging
from specviz.claims.claim import (
    Claim,
    Finding,
    Judgement,
    Kind,
    Number,
    Result,
    Text,
    Verdict,
)
from specviz.claims.implied import TOLERANCE, USUAL_COST_RATIO, ideal_curve
from specviz.claims.setting import BY_BATCH, DRAFT_MODEL, Clocks
from specviz.claims.wording import percent
from specviz.theory import roofline

# an H100 SXM by its data sheet: dense bfloat16 arithmetic, memory bandwidth and size
FLOPS_PER_SECOND = 989e12
BYTES_PER_SECOND = 3.35e12
MEMORY_BYTES = 80e9
BFLOAT16_BYTES = 2
RIDGE_TOKENS = FLOPS_PER_SECOND / BYTES_PER_SECOND  # 2 FLOP a weight of 2 bytes: 1 FLOP a byte
USUAL_ROWS = 256  # sequences that a server decodes together at the most, unless told otherwise
COARSEST_BITS = 4.0  # a weight, in common quantised checkpoints

LLAMA_70B_WEIGHTS = 70.6e9
LLAMA_8B_WEIGHTS = 8.03e9
# of a token: keys and values, 32 layers, 8 heads of 128, 2 bytes each
LLAMA_8B_CACHE_BYTES = 2 * 32 * 8 * 128 * BFLOAT16_BYTES


def bandwidth_theory(
    rate: float = 125.0,
    claimed_memory: float = 68.2e9,
    weights: float = LLAMA_70B_WEIGHTS,
    memory: float = MEMORY_BYTES,
    bytes_per_second: float = BYTES_PER_SECOND,
) -> Finding:
    half = weights * BFLOAT16_BYTES
    bytes_a_token = bytes_per_second / rate
    bits = 8 * bytes_a_token / weights
    full = roofline.bandwidth_limit(min(claimed_memory, half), bytes_per_second)
    if bits >= 8 * BFLOAT16_BYTES and half <= memory:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.CONDITIONAL if bits >= COARSEST_BITS else Verdict.WRONG
    return Finding(
        f"In 16 bits the weights are {half / 1e9:.0f} GB. Every token of one stream reads them all "
        f"once, so {rate:g} tokens/s leave {bytes_a_token / 1e9:.1f} GB a token even at the full "
        f"{bytes_per_second / 1e12:.2f} TB/s: {bits:.1f} bits a weight. Had the "
        f"{claimed_memory / 1e9:.1f} GB been weights, {full:.0f} tokens/s were the limit. Several "
        "streams together may reach such a rate; one does not.",
        (
            Number("weights in 16 bits", half / 1e9, "GB", claimed_memory / 1e9),
            Number("read per token at the most", bytes_a_token / 1e9, "GB"),
            Number("bits a weight at the most", bits, "bits"),
            Number("limit if the memory is weights", full, "tokens/s", rate),
        ),
        verdict,
    )


def bound_theory(
    a: float = 0.8, K: int = 5, c: float = USUAL_COST_RATIO, ridge: float = RIDGE_TOKENS
) -> Finding:
    target, draft = ideal_curve(ridge), ideal_curve(ridge, c)
    by_memory = roofline.batch_speedup(a, K, 1, target, draft)
    by_arithmetic = roofline.batch_speedup(a, K, round(ridge), target, draft)
    return Finding(
        f"Checking {K + 1} tokens costs as much as one only while reading the weights takes longer "
        f"than the arithmetic. There a = {a:g}, c = {c:g} gives {by_memory:.2f}×. Where arithmetic "
        f"is the limit, {K + 1} tokens cost {K + 1} times as much: {by_arithmetic:.2f}×.",
        (
            Number("speedup bound by arithmetic", by_arithmetic, "x"),
            Number("speedup bound by memory bandwidth", by_memory, "x"),
            Number("tokens a forward at the border", ridge, "tokens"),
        ),
        Verdict.HOLDS if by_arithmetic > by_memory else Verdict.WRONG,
    )


def judge_bound(results: Sequence[Result]) -> Judgement:
    rows = results[0]["rows"]
    one, most = rows[0], rows[-1]
    return Judgement(
        judging.combined([judging.faster(most, one)]),
        f"A batch of {most['batch_size']} has more arithmetic for each read of the weights than a "
        "single row; a claim that is right would have it gain more.",
        tuple(judging.speedup(f"batch of {each['batch_size']}", each) for each in rows),
    )


def peak_theory(
    low: float = 0.10,
    high: float = 0.30,
    context: int = 8192,
    weights: float = LLAMA_8B_WEIGHTS,
    ridge: float = RIDGE_TOKENS,
) -> Finding:
    share = roofline.peak_share(1, BFLOAT16_BYTES, FLOPS_PER_SECOND, BYTES_PER_SECOND)
    rows = low * ridge, high * ridge
    read, cache = weights * BFLOAT16_BYTES, context * LLAMA_8B_CACHE_BYTES
    empty = roofline.bandwidth_limit(read, BYTES_PER_SECOND)
    full = roofline.bandwidth_limit(read, BYTES_PER_SECOND, cache)
    longest = roofline.bandwidth_limit(read, BYTES_PER_SECOND, 16 * cache)
    if low <= share <= high and full > (1 - TOLERANCE) * empty:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.CONDITIONAL if rows[0] <= USUAL_ROWS else Verdict.WRONG
    return Finding(
        f"One row uses {percent(share, 2)} of the arithmetic peak of an H100 in bfloat16; "
        f"{percent(low)} to {percent(high)} take {rows[0]:.0f} to {rows[1]:.0f} rows. A step reads "
        f"the cache beside the weights: for an 8 B model {context:,} tokens lower the limit by "
        f"{percent(1 - full / empty)}, {16 * context:,} by {percent(1 - longest / empty)}.",
        (
            Number("share of the peak, one row", share, "", low),
            Number("rows for the lower share", rows[0], "rows"),
            Number("rows for the higher share", rows[1], "rows"),
            Number("limit with no context", empty, "tokens/s"),
            Number(f"limit at {context} tokens", full, "tokens/s", empty),
            Number(f"limit at {16 * context} tokens", longest, "tokens/s", empty),
        ),
        verdict,
    )


def judge_peak(results: Sequence[Result]) -> Judgement:
    short, long = results[0]["clocks"]
    before, after = (each["step_seconds"] for each in (short, long))
    slower = True if min(after) > max(before) else None
    same = True if max(after) <= (1 + TOLERANCE) * min(before) else None
    return Judgement(
        judging.combined([False if slower else same]),
        "A plain step behind a short and behind a long prompt; the share of the peak is not "
        "measured here.",
        tuple(
            judging.over(
                f"step behind {each['prompt_tokens']:.0f} tokens",
                [1000 * seconds for seconds in each["step_seconds"]],
                "ms",
            )
            for each in (short, long)
        ),
    )


CLAIMS = (
    Claim(
        6,
        "A 70 B model on one 80 GB card writes 125, then 250 tokens a second",
        "Llama-3 70B on one H100 of 80 GB goes from 125 to 250 tokens/s, in 68.2 and then 71.4 GB "
        "of memory.",
        (Text.A,),
        Kind.ARITHMETIC,
        bandwidth_theory,
        reason="needs an H100 and a model of 70 billion weights",
    ),
    Claim(
        25,
        "It suits work that is bound by the GPU's arithmetic",
        "It suits work that is bound by the GPU's arithmetic rather than by memory bandwidth.",
        (Text.D,),
        Kind.ARITHMETIC,
        bound_theory,
        (BY_BATCH,),
        judge_bound,
    ),
    Claim(
        30,
        "Decoding uses 10 to 30 % of the arithmetic peak, at any length",
        "Decoding uses 10 to 30 % of the arithmetic peak, and a token takes as long whatever the "
        "length of the text.",
        (Text.E,),
        Kind.ARITHMETIC,
        peak_theory,
        (Clocks((DRAFT_MODEL,), (16, 400)),),
        judge_peak,
    ),
)
