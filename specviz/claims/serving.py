"""Claims on serving: time to first token, machines and money, batches."""

from __future__ import annotations

from collections.abc import Sequence

from specviz import theory
from specviz.claims import judging
from specviz.claims.claim import (
    Claim,
    Figure,
    Finding,
    Judgement,
    Kind,
    Number,
    Result,
    Text,
    Verdict,
)
from specviz.claims.implied import TOLERANCE, USUAL_COST_RATIO, ideal_curve
from specviz.claims.machines import RIDGE_TOKENS, USUAL_ROWS
from specviz.claims.setting import BY_BATCH, BY_DRAFT_LENGTH, DRAFT_MODEL, Clocks
from specviz.claims.wording import percent
from specviz.serving_cost import HOURS_A_DAY, Load, Machine, daily_cost
from specviz.theory import roofline

DAYS_A_YEAR = 365
_BEFORE, _AFTER = 0.180, 0.195  # seconds to the first token, of the claim
_ADDED = _AFTER / _BEFORE - 1
HIGHEST_PEAK = 10.0  # of the busiest hour over the mean, that is looked at


def first_token_theory(before: float = _BEFORE, after: float = _AFTER) -> Finding:
    extra = after / before - 1
    return Finding(
        "The first token comes from reading the prompt, before any tree is drafted, so a tree "
        "has no part in it. A separate draft that reads the prompt first has: these figures would "
        f"fit one of c = {extra:.2f}.",
        (Number("share added to the first token", extra, ""),),
    )


def judge_first_token(results: Sequence[Result]) -> Judgement:
    chain, tree = map(_share, results[0]["clocks"])
    half = 1 + _ADDED / 2  # nearer to the claimed share than to none
    adds = True if min(tree) > half * max(chain) else None
    if max(tree) < half * min(chain):
        adds = False
    return Judgement(
        judging.combined([adds]),
        "Time to the first token over that of plain decoding, of a chain and of a tree by the same "
        "draft model.",
        (judging.over("chain", chain, "x"), judging.over("tree", tree, "x")),
    )


def _share(clock: Result) -> list[float]:
    pairs = zip(clock["ttft_seconds"], clock["baseline_ttft_seconds"], strict=True)
    return [mine / plain for mine, plain in pairs]


def money_theory(
    tokens_per_day: float = 10e6,
    rate: float = 125.0,
    faster_rate: float = 250.0,
    claimed_before: int = 4,
    claimed_after: int = 2,
    saved_a_year: float = 150_000.0,
) -> Finding:
    hours = (claimed_before - claimed_after) * DAYS_A_YEAR * HOURS_A_DAY
    price = saved_a_year / hours
    machines = Machine(rate, price), Machine(faster_rate, price)

    def needed(peak: float) -> list[int]:
        return [daily_cost(Load(tokens_per_day, peak), each).machines for each in machines]

    claimed = [claimed_before, claimed_after]
    peaks = [tenth / 10 for tenth in range(10, round(10 * HIGHEST_PEAK) + 1)]
    fitting = [peak for peak in peaks if needed(peak) == claimed]
    even = needed(1.0)
    if even == claimed:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.CONDITIONAL if fitting else Verdict.WRONG
    fits = (
        f"Only if the busiest hour has {fitting[0]:g} to {fitting[-1]:g} times the mean load, and "
        "each machine serves one stream at a time, do the numbers come out"
        if fitting and verdict is not Verdict.HOLDS
        else "That is with one stream at a time on each machine"
    )
    load = Load(tokens_per_day).tokens_per_second
    return Finding(
        f"The load is {load:.0f} tokens/s on average. Spread evenly, the machines needed are "
        f"{even[0]} at {rate:g} tokens/s each and {even[1]} at {faster_rate:g}. {fits}; "
        f"machines that decode batches need fewer to begin with. The price behind the claim is "
        f"{price:.2f} dollars an hour.",
        (
            Number("load on average", load, "tokens/s"),
            Number("machines before", even[0], "machines", claimed_before),
            Number("machines after", even[1], "machines", claimed_after),
            Number("price behind the claim", price, "dollars per machine-hour"),
        ),
        verdict,
    )


def product_theory(
    low: float = 6.0,
    a: float = 0.8,
    K: int = 5,
    c: float = USUAL_COST_RATIO,
    ridge: float = RIDGE_TOKENS,
) -> Finding:
    target, draft = ideal_curve(ridge), ideal_curve(ridge, c)
    alone, few, many = (
        roofline.batch_speedup(a, K, rows, target, draft) for rows in (1, 32, USUAL_ROWS)
    )
    paying = roofline.largest_paying_batch(a, K, target, draft)
    if alone >= (1 - TOLERANCE) * low:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.CONDITIONAL if few > 1 else Verdict.WRONG
    return Finding(
        "PagedAttention fits more rows into memory and leaves one row as slow as before; "
        f"speculation makes one row faster, here {alone:.2f}×. As throughput the two multiply only "
        "while a forward stays bound by memory: by the ideal roofline of an H100 a batch of 32 "
        f"still gains {few:.2f}×, {USUAL_ROWS} rows {many:.2f}×, and above {paying} rows "
        "speculation loses.",
        (
            Number("speedup of one row", alone, "x", low),
            Number("speedup of 32 rows", few, "x"),
            Number(f"speedup of {USUAL_ROWS} rows", many, "x"),
            Number("rows up to which it pays", paying, "rows"),
        ),
        verdict,
    )


def judge_product(results: Sequence[Result]) -> Judgement:
    rows = results[0]["rows"]
    one, most = rows[0], rows[-1]
    (one_low, one_high), (low, high) = one["speedup_spread"], most["speedup_spread"]
    kept = judging.near(1.0, low / one_high, high / one_low)
    return Judgement(
        judging.combined([kept, judging.pays(most)]),
        f"Of the speedup of one row a batch of {most['batch_size']} keeps "
        f"{percent(most['speedup'] / one['speedup'])}.",
        tuple(judging.speedup(f"batch of {each['batch_size']}", each) for each in rows),
    )


def effects_theory(
    a: float = 0.8, K: int = 5, c: float = USUAL_COST_RATIO, ridge: float = RIDGE_TOKENS
) -> Finding:
    target, draft = ideal_curve(ridge), ideal_curve(ridge, c)
    paying = roofline.largest_paying_batch(a, K, target, draft)
    now = theory.speedup(a, K, c)
    better, cheaper = _gains(a, K, c)
    return Finding(
        f"By the ideal roofline of an H100, K = {K} pays up to {paying} rows, and fewer on a real "
        f"machine. At a = {a:g}, c = {c:g} ({now:.2f}×) a tenth more acceptance gains "
        f"{percent(better - 1)}, a draft a tenth cheaper {percent(cheaper - 1)}.",
        (
            Number("rows up to which it pays", paying, "rows"),
            Number("gain from a tenth more acceptance", better, "x"),
            Number("gain from a tenth less cost", cheaper, "x"),
        ),
    )


def _gains(a: float, K: int, c: float) -> tuple[float, float]:
    """Speedup over now with a tenth more acceptance, and with a draft a tenth cheaper."""
    now = theory.speedup(a, K, c)
    return (
        theory.speedup(min(1.0, (1 + TOLERANCE) * a), K, c) / now,
        theory.speedup(a, K, (1 - TOLERANCE) * c) / now,
    )


def judge_effects(results: Sequence[Result]) -> Judgement:
    batches, grid = results
    rows = batches["rows"]
    one, most = rows[0], rows[-1]
    measured = judging.point(grid, "draft-length", 5)
    better, cheaper = _gains(measured["acceptance_rate"] or 0.0, 5, measured["cost_ratio"] or 0.0)
    pays = judging.pays(most)
    parts: list[judging.Part] = [
        None if pays is None else not pays,
        better > cheaper,
        measured["drafter_bytes"] > 0,
    ]
    return Judgement(
        judging.combined(parts),
        f"A batch of {most['batch_size']} gains {most['speedup']:.2f}× where one row gains "
        f"{one['speedup']:.2f}×. With the measured acceptance and cost a tenth more acceptance "
        f"would gain {percent(better - 1)}, a draft a tenth cheaper {percent(cheaper - 1)}.",
        (
            *(judging.speedup(f"batch of {each['batch_size']}", each) for each in rows),
            Figure("cost ratio c", measured["cost_ratio"]),
            Figure("weights of the draft", measured["drafter_bytes"] / 1e6, "MB"),
        ),
    )


CLAIMS = (
    Claim(
        7,
        "A draft tree delays the first token, from 180 to 195 ms",
        "The time to the first token goes from 180 to 195 ms, because the tree is set up.",
        (Text.A,),
        Kind.MEASURABLE,
        first_token_theory,
        (Clocks((DRAFT_MODEL, "draft-tree")),),
        judge_first_token,
    ),
    Claim(
        8,
        "For 10 million tokens a day 4 GPUs become 2",
        "For 10 million tokens a day 4 GPUs become 2, which saves 150,000 dollars a year.",
        (Text.A,),
        Kind.ARITHMETIC,
        money_theory,
        reason="needs the machines, the load and the prices of the claim",
    ),
    Claim(
        21,
        "With PagedAttention as well the gain is 6 to 8 times",
        "With PagedAttention as well the gain is 6 to 8 times.",
        (Text.C,),
        Kind.ARITHMETIC,
        product_theory,
        (BY_BATCH,),
        judge_product,
    ),
    Claim(
        28,
        "Large batches undo the gain; a draft's quality matters more than its size",
        "Large batches undo the gain; the draft's quality matters more than its size; the draft "
        "takes memory.",
        (Text.D,),
        Kind.MEASURABLE,
        effects_theory,
        (BY_BATCH, BY_DRAFT_LENGTH),
        judge_effects,
    ),
)
