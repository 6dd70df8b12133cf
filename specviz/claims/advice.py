"""Claims that give a method its name, or tell when to take which."""

from __future__ import annotations

from collections.abc import Sequence

from specviz import theory
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
from specviz.claims.implied import USUAL_COST_RATIO, whole_speedup
from specviz.claims.rules import exactness_figures, is_lossless
from specviz.claims.setting import BY_VOCABULARY, Exactness, Grid
from specviz.claims.wording import percent

_Q4_K_M_BITS = 4.89  # a weight on average, by llama.cpp's table for an 8 B model


def name_theory(shares: tuple[float, ...] = (0.25, 0.5), K: int = 5) -> Finding:
    borders = {share: theory.break_even_acceptance(K, share) for share in shares}
    return Finding(
        "Drafting with a part of the target's own layers is Draft & Verify (arXiv 2309.08168), the "
        "first ones LayerSkip (2404.16710), checking a tree at once SpecInfer (2305.09781). "
        "Speculative Speculative Decoding (2603.03251) is something else: it drafts while the "
        "target verifies. First layers that were not trained to exit guess badly, and the "
        "break-even is high: with "
        + ", ".join(
            f"{percent(share)} of the layers {border:.2f}"
            for share, border in borders.items()
            if border is not None
        )
        + f" must pass at K = {K}.",
        tuple(
            Number(f"break-even acceptance at c = {share:g}", border)
            for share, border in borders.items()
            if border is not None
        ),
        Verdict.WRONG,
    )


def mistakes_theory(
    speedup: float = 2.0, prefill_shares: tuple[float, ...] = (0.1, 0.5, 0.9)
) -> Finding:
    whole = {share: whole_speedup(speedup, share) for share in prefill_shares}
    return Finding(
        f"Speculation leaves the prefill as it is. A decoder {speedup:g}× as fast makes the whole "
        "request "
        + ", ".join(f"{gain:.2f}× with {percent(share)} prefill" for share, gain in whole.items())
        + ". A draft of another family has less overlap, and other tokens. Under the exact rule "
        "the output's law stays the target's whatever the draft is.",
        tuple(
            Number(f"whole request at {percent(share)} prefill", gain, "x", speedup)
            for share, gain in whole.items()
        ),
    )


def judge_mistakes(results: Sequence[Result]) -> Judgement:
    by_vocabulary, by_prompt, exact = results
    same, other = (
        judging.point(by_vocabulary, "method", name) for name in ("draft-model", "cross-vocabulary")
    )
    short, long = by_prompt["points"][0], by_prompt["points"][-1]
    parts: list[judging.Part] = [
        judging.faster(same, other),
        judging.faster(short, long),
        is_lossless(exact),
    ]
    return Judgement(
        judging.combined(parts),
        f"{sum(part is True for part in parts)} of 3 seen here: that a draft of another "
        "tokenizer gains less, that a long prompt leaves less to gain, that the output keeps its "
        f"law (found {exact['verdict']}).",
        (
            judging.speedup("same tokenizer", same),
            judging.speedup("other tokenizer", other),
            judging.speedup(f"{short['prompt_tokens']:.0f} prompt tokens", short),
            judging.speedup(f"{long['prompt_tokens']:.0f} prompt tokens", long),
            *exactness_figures(exact),
        ),
    )


def table_theory(
    prefill_share: float = 0.2, a: float = 0.8, K: int = 5, c: float = USUAL_COST_RATIO
) -> Finding:
    gain = theory.speedup(a, K, c)
    speculated, cached = whole_speedup(gain, prefill_share), 1 / (1 - prefill_share)
    smaller = 16 / _Q4_K_M_BITS
    return Finding(
        f"Of a request with {percent(prefill_share)} prefill, speculation at {gain:.2f}× makes "
        f"{speculated:.2f}×, and prompt caching, which spares only the prefill, {cached:.2f}× at "
        "the most: it is no replacement. What an API can offer of this kind is a predicted output "
        "(the parameter `prediction`), a draft that the caller supplies. Weights of "
        f"{_Q4_K_M_BITS:g} instead of 16 bits allow up to {smaller:.1f}×, with other outputs than "
        "the full model's; speculation keeps them. The rest of the advice is usual.",
        (
            Number("whole request, speculation", speculated, "x"),
            Number("whole request, prompt caching at the most", cached, "x"),
            Number("limit of Q4_K_M over 16 bits", smaller, "x"),
        ),
        Verdict.CONDITIONAL,
    )


def judge_table(results: Sequence[Result]) -> Judgement:
    points = {each["setting"]["method"]: each for each in results[0]["points"]}
    heads = [judging.pays(points[name]) for name in ("medusa", "eagle")]
    without = True if True in heads else None if None in heads else False
    return Judgement(
        judging.combined([judging.pays(points["draft-model"]), without]),
        "Two parts of the advice, for one stream on this machine: that a draft model pays, and "
        "that Medusa or EAGLE pays where there is none.",
        tuple(judging.speedup(name, each) for name, each in points.items()),
    )


CLAIMS = (
    Claim(
        5,
        '"SSD" means drafting with the model\'s own first layers',
        "SSD drafts with the first N layers of the model and checks a tree.",
        (Text.A,),
        Kind.DEFINITION,
        name_theory,
        reason="is about what a name means, which no measurement decides",
    ),
    Claim(
        14,
        "A draft of another family and work that is all prefill gain nothing",
        "It is a mistake to draft with another family, to expect a gain from work that is all "
        "prefill, or to fear for the quality.",
        (Text.B,),
        Kind.MEASURABLE,
        mistakes_theory,
        (BY_VOCABULARY, Grid("prompt-length", "16,400"), Exactness()),
        judge_mistakes,
    ),
    Claim(
        22,
        "For latency speculate, on a server take vLLM, on a CPU GGUF",
        "One GPU and latency: speculate; a server: vLLM; no draft: Medusa or EAGLE; a CPU: GGUF "
        "Q4_K_M; an API: prompt caching.",
        (Text.C,),
        Kind.DEFINITION,
        table_theory,
        (Grid("method", "draft-model,medusa,eagle"),),
        judge_table,
    ),
)
