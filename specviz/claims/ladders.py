"""Claims on what an acceptance rate by itself gives: tokens per forward, speedup."""

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
from specviz.claims.implied import USUAL_COST_RATIO, agrees, cost_ratio, some_usual_cost
from specviz.claims.setting import BY_DRAFT_LENGTH, BY_TASK
from specviz.metrics.measured_costs import wilson_interval


def ladder_theory(
    steps: tuple[tuple[float, float], ...] = ((0.8, 3.0), (0.6, 2.0), (0.4, 1.5)), K: int = 5
) -> Finding:
    implied = [cost_ratio(theory.expected_tokens(a, K), claimed, K) for a, claimed in steps]
    common = sum(implied) / len(implied)
    numbers = tuple(
        Number(f"speedup at a = {a:g}, c = {c:.3g}", theory.speedup(a, K, c), "x", claimed)
        for c in (max(0.0, common), USUAL_COST_RATIO)
        for a, claimed in steps
    )

    def fits(cost: float) -> bool:
        return all(agrees(claimed, theory.speedup(a, K, cost)) for a, claimed in steps)

    verdict = Verdict.CONDITIONAL if some_usual_cost(fits) else Verdict.WRONG
    return Finding(
        f"Acceptance alone fixes no speedup. At K = {K} the pairs fit a draft of "
        f"c = {common:.3f}; at c = {USUAL_COST_RATIO:g} they are "
        + ", ".join(f"{n.value:.2f}×" for n in numbers[len(steps) :])
        + ". And a speedup above 1 is a gain: whether 1.5× is worth it is no matter of arithmetic.",
        numbers,
        Verdict.HOLDS if fits(USUAL_COST_RATIO) else verdict,
    )


def judge_ladder(results: Sequence[Result]) -> Judgement:
    points = results[0]["points"]
    parts = []
    for each in points:
        claimed = _on_ladder(each["acceptance_rate"] or 0.0)
        parts.append(judging.inside(claimed, claimed, each))
    return Judgement(
        judging.combined_sizes(parts),
        "Beside the claim's line at the measured acceptance: "
        + ", ".join(
            f"{each['setting']['task']} {_on_ladder(each['acceptance_rate'] or 0.0):.2f}× claimed, "
            f"{each['speedup']:.2f}× measured"
            for each in points
        )
        + ".",
        tuple(
            made(each["setting"]["task"], each)
            for each in points
            for made in (judging.acceptance, judging.speedup)
        ),
    )


def _on_ladder(rate: float) -> float:
    """The claim's speedup at this acceptance: straight lines between and beyond its steps."""
    low = 1.5 + (rate - 0.4) * (2.0 - 1.5) / 0.2
    return low if rate <= 0.6 else 2.0 + (rate - 0.6) * (3.0 - 2.0) / 0.2


def product_theory(a: float = 0.8, K: int = 4, claimed_tokens: float = 4.2) -> Finding:
    tokens = theory.expected_tokens(a, K)
    if agrees(claimed_tokens, tokens):
        verdict = Verdict.HOLDS
    else:
        is_product = agrees(claimed_tokens, a * K + 1)
        verdict = Verdict.CONDITIONAL if is_product else Verdict.WRONG
    return Finding(
        f"a K + 1 = {a * K + 1:.2f} is exact if a is accepted / drafted. If a is the chance of an "
        f"examined token, what follows a rejection is never examined, and T = {tokens:.2f}.",
        (
            Number("tokens per forward, a per drafted token", a * K + 1, "tokens", claimed_tokens),
            Number("tokens per forward, a per examined token", tokens, "tokens", claimed_tokens),
        ),
        verdict,
    )


def judge_product(results: Sequence[Result]) -> Judgement:
    measured = judging.point(results[0], "draft-length", 4)
    tokens, rounds = measured["block_efficiency"], measured["rounds"]
    shares = {
        "drafted": (measured["draft_utilization"] or 0.0, 4 * rounds),
        "examined": (measured["acceptance_rate"] or 0.0, judging.examined(measured)),
    }
    ends = {name: wilson_interval(*share) for name, share in shares.items()}
    spans = {name: (4 * low + 1, 4 * high + 1) for name, (low, high) in ends.items()}
    drafted, seen = (4 * share + 1 for share, _ in shares.values())
    return Judgement(
        judging.combined([judging.near(tokens, *span) for span in spans.values()]),
        f"{tokens:.2f} tokens per round; 4 a + 1 is {drafted:.2f} with accepted / drafted and "
        f"{seen:.2f} with accepted / examined.",
        (
            Figure("tokens per round", tokens, "tokens"),
            Figure("4 a + 1, a = accepted / drafted", drafted, "tokens", spans["drafted"]),
            Figure("4 a + 1, a = accepted / examined", seen, "tokens", spans["examined"]),
        ),
    )


CLAIMS = (
    Claim(
        15,
        "80 % acceptance gives 3×, 60 % gives 2×, 40 % is not worth it",
        "80 % acceptance gives 3×, 60 % gives 2×, 40 % gives 1.5× and is not worth it.",
        (Text.C,),
        Kind.ARITHMETIC,
        ladder_theory,
        (BY_TASK,),
        judge_ladder,
    ),
    Claim(
        29,
        "K = 4 at 80 % acceptance gives 4.2 tokens per target forward",
        "At an acceptance rate of 0.8 and K = 4 a target forward gives 0.8 x 4 + 1 = 4.2 tokens.",
        (Text.E,),
        Kind.ARITHMETIC,
        product_theory,
        (BY_DRAFT_LENGTH,),
        judge_product,
    ),
)
