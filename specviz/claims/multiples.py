"""Claims that read a speedup off the number of drafted or accepted tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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
from specviz.claims.implied import USUAL_COST_RATIO, agrees, cost_ratio, some_usual_cost
from specviz.claims.setting import BY_DRAFT_LENGTH


def accepted_theory(
    a: float = 0.8,
    K: int = 5,
    claimed_accepted: float = 4.0,
    claimed_speedup: float = 4.0,
    c: float = USUAL_COST_RATIO,
) -> Finding:
    accepted, tokens = theory.expected_accepted(a, K), theory.expected_tokens(a, K)
    speedup = theory.speedup(a, K, c)
    per_drafted = (a * K + 1) / theory.round_cost(K, c)

    def fits(emitted: float, cost: float) -> bool:
        """With so many tokens a round, of which the target gives one."""
        gain = emitted / theory.round_cost(K, cost)
        return agrees(claimed_accepted, emitted - 1) and agrees(claimed_speedup, gain)

    verdict = Verdict.WRONG
    if fits(tokens, c):
        verdict = Verdict.HOLDS
    elif any(some_usual_cost(partial(fits, emitted)) for emitted in (tokens, a * K + 1)):
        verdict = Verdict.CONDITIONAL
    fitting = cost_ratio(a * K + 1, claimed_speedup, K)
    return Finding(
        f"If each examined token passes with probability {a:g}, {accepted:.2f} of {K} are accepted "
        f"and {tokens:.2f} tokens come per target forward: {speedup:.2f}× when a draft forward "
        f"costs c = {c:g} of a target forward. Were {a:g} the share of all drafted tokens, "
        f"{a * K:g} would be accepted, and the speedup would be {per_drafted:.2f}×; "
        f"{claimed_speedup:g}× would need c = {fitting:.2f} as well.",
        (
            Number("accepted per round", accepted, "tokens", claimed_accepted),
            Number("tokens per target forward", tokens, "tokens"),
            Number(f"speedup at c = {c:g}", speedup, "x", claimed_speedup),
            Number(f"speedup at c = {c:g} if a is per drafted token", per_drafted, "x"),
            Number("speedup with a free draft", tokens, "x", claimed_speedup),
        ),
        verdict,
    )


def judge_accepted(results: Sequence[Result]) -> Judgement:
    measured = judging.point(results[0], "draft-length", 5)
    accepted = judging.accepted_a_round(measured)
    product = 5 * (measured["acceptance_rate"] or 0.0)
    parts = [agrees(product, accepted), agrees(accepted, measured["speedup"])]
    return Judgement(
        judging.combined(parts),
        f"Acceptance rate times 5 is {product:.2f}; {accepted:.2f} were accepted per round, and "
        f"the speedup was {measured['speedup']:.2f}×.",
        (
            judging.acceptance("K = 5", measured),
            Figure("accepted per round", accepted, "tokens"),
            judging.speedup("K = 5", measured),
        ),
    )


def rate_theory(
    a: float = 0.73,
    K: int = 4,
    baseline: float = 30.0,
    claimed_speedup: float = 2.9,
    c: float = 0.11,
) -> Finding:
    tokens, speedup = theory.expected_tokens(a, K), theory.speedup(a, K, c)
    if agrees(claimed_speedup, speedup):
        verdict = Verdict.HOLDS
    else:
        cheap = some_usual_cost(lambda cost: agrees(claimed_speedup, theory.speedup(a, K, cost)))
        verdict = Verdict.CONDITIONAL if cheap else Verdict.WRONG
    return Finding(
        f"The product K a = {K * a:.2f} stands beside T = {tokens:.2f} tokens per target forward; "
        f"they are different formulas. {tokens:.2f}× needs a draft that costs nothing: at "
        f"c = {c:g} it is {speedup:.2f}×. One stream's latency says nothing of how many users a "
        "machine can serve.",
        (
            Number("tokens per target forward", tokens, "tokens", K * a),
            Number("speedup with a free draft", tokens, "x", claimed_speedup),
            Number(f"speedup at c = {c:g}", speedup, "x", claimed_speedup),
            Number(f"rate at c = {c:g}", baseline * speedup, "tokens/s", baseline * K * a),
        ),
        verdict,
    )


def judge_rate(results: Sequence[Result]) -> Judgement:
    measured = judging.point(results[0], "draft-length", 4)
    product = 4 * (measured["acceptance_rate"] or 0.0)
    return Judgement(
        judging.combined_sizes([judging.inside(product, product, measured)]),
        f"The formula K a says {product:.2f}× at the measured acceptance; measured were "
        f"{measured['block_efficiency']:.2f} tokens per round and {measured['speedup']:.2f}×.",
        (
            judging.acceptance("K = 4", measured),
            Figure("tokens per round", measured["block_efficiency"], "tokens"),
            judging.speedup("K = 4", measured),
            Figure("cost ratio c", measured["cost_ratio"]),
        ),
    )


def drafting_theory(
    K: int = 5, accepted: int = 3, claimed_speedup: float = 3.0, c: float = USUAL_COST_RATIO
) -> Finding:
    tokens, most = accepted + 1, theory.expected_tokens(1.0, K)
    speedup = tokens / theory.round_cost(K, c)
    fits = some_usual_cost(
        lambda cost: agrees(claimed_speedup, tokens / theory.round_cost(K, cost))
    )
    return Finding(
        f"A round that accepts {accepted} tokens writes {tokens}, for the target adds one, and at "
        f"the most {most:g}. Drafted one after another at c = {c:g} each, that round is "
        f"{speedup:.2f}× as fast; it would be {claimed_speedup:g}× at "
        f"c = {cost_ratio(tokens, claimed_speedup, K):.3f}. Only heads such as Medusa's propose "
        "all places at once.",
        (
            Number("tokens written", tokens, "tokens", float(accepted)),
            Number("tokens at the most", most, "tokens"),
            Number(f"speedup of that round at c = {c:g}", speedup, "x", claimed_speedup),
        ),
        judging.combined([False, fits]),  # drafted in parallel it is not
    )


def judge_drafting(results: Sequence[Result]) -> Judgement:
    one, five = (judging.point(results[0], "draft-length", length) for length in (1, 5))
    times = (five["draft_seconds"] / five["rounds"]) / (one["draft_seconds"] / one["rounds"])
    accepted = judging.accepted_a_round(five)
    parts = [times < 2, agrees(accepted, five["block_efficiency"])]
    return Judgement(
        judging.combined(parts),
        f"Drafting 5 tokens took {times:.1f} times as long as drafting 1; "
        f"{accepted:.2f} accepted per round made {five['block_efficiency']:.2f} tokens.",
        (
            Figure("drafting 5 over drafting 1", times, "x"),
            Figure("accepted per round", accepted, "tokens"),
            Figure("tokens per round", five["block_efficiency"], "tokens"),
            judging.speedup("K = 5", five),
        ),
    )


CLAIMS = (
    Claim(
        1,
        "Of 5 drafted tokens 4 pass, so decoding is 4 times as fast",
        "With an acceptance rate of 0.8 and 5 drafted tokens, 4 are accepted on average, so "
        "decoding is about 4 times as fast.",
        (Text.A,),
        Kind.ARITHMETIC,
        accepted_theory,
        (BY_DRAFT_LENGTH,),
        judge_accepted,
    ),
    Claim(
        12,
        "Four drafted tokens at 73 % acceptance make it 2.9 times as fast",
        "30 tokens/s with K = 4 and 73 % acceptance become 30 x 4 x 0.73 = 87 tokens/s, 2.9 times "
        "as many, and so three times the users.",
        (Text.B,),
        Kind.ARITHMETIC,
        rate_theory,
        (BY_DRAFT_LENGTH,),
        judge_rate,
    ),
    Claim(
        13,
        "Three of five accepted make decoding three times as fast",
        "Five tokens are drafted in parallel; where three of them are accepted, decoding is three "
        "times as fast.",
        (Text.B,),
        Kind.ARITHMETIC,
        drafting_theory,
        (BY_DRAFT_LENGTH,),
        judge_drafting,
    ),
)
