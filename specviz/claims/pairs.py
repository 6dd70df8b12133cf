"""Claims on named pairs of models: what the sizes of target and draft allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from specviz.claims.implied import TOLERANCE, agrees, cost_ratio
from specviz.claims.setting import BY_DRAFT_LENGTH


@dataclass(frozen=True, slots=True)
class NamedPair:
    """Billions of weights that a token uses, and what is claimed of the pair."""

    name: str
    target: float
    draft: float
    acceptance: float
    low: float
    high: float

    @property
    def cost_ratio(self) -> float:
        """c if time goes by the weights that are read."""
        return self.draft / self.target


# of the model cards; Mixtral 8x7B uses 12.9 of its 46.7 billion
PAIRS = (
    NamedPair("Llama 3.1 70B + Llama 3.2 3B", 70.6, 3.21, 0.80, 2.0, 3.0),
    NamedPair("Mixtral 8x7B + Mistral 7B", 12.9, 7.24, 0.70, 1.5, 2.0),
    NamedPair("Qwen2.5 72B + 7B", 72.7, 7.62, 0.75, 2.0, 2.5),
    NamedPair("GPT-2 XL + DistilGPT-2", 1.558, 0.082, 0.65, 1.5, 1.5),
)
_TARGET_8B, _DRAFT_80M, _PHI_3_MINI = 8.0, 0.08, 3.8  # billions of weights


def pairs_theory(pairs: tuple[NamedPair, ...] = PAIRS, K: int = 5) -> Finding:
    at_k = [theory.speedup(pair.acceptance, K, pair.cost_ratio) for pair in pairs]
    best = [
        theory.speedup(
            pair.acceptance,
            theory.best_draft_length(pair.acceptance, pair.cost_ratio),
            pair.cost_ratio,
        )
        for pair in pairs
    ]
    limits = [most * (1 + TOLERANCE) for most in best]
    reached = [
        limit >= claimed
        for limit, pair in zip(limits, pairs, strict=True)
        for claimed in dict.fromkeys((pair.low, pair.high))
    ]
    return Finding(
        f"With time going by the weights a token uses, K = {K}: "
        + ", ".join(
            f"{pair.name} c = {pair.cost_ratio:.2f} and {gain:.2f}×"
            for pair, gain in zip(pairs, at_k, strict=True)
        )
        + ". These are upper limits: verification and the host take time as well. "
        + _out_of_reach(pairs, best),
        tuple(
            number
            for pair, gain, most in zip(pairs, at_k, best, strict=True)
            for number in (
                Number(f"{pair.name}, K = {K}", gain, "x", pair.low),
                Number(f"{pair.name}, best K", most, "x", pair.high),
            )
        ),
        judging.combined(reached),
    )


def _out_of_reach(pairs: Sequence[NamedPair], best: Sequence[float]) -> str:
    lost = [
        f"{pair.name} reaches no more than {most:.2f}× with any K"
        for pair, most in zip(pairs, best, strict=True)
        if most * (1 + TOLERANCE) < pair.high
    ]
    return "; ".join(lost) + "." if lost else "All claimed gains are within reach."


def run_theory(
    baseline: float = 42.0,
    runs: tuple[tuple[int, float, float], ...] = ((5, 89.0, 0.18), (8, 104.0, 0.31)),
    weights_ratio: float = _DRAFT_80M / _TARGET_8B,
) -> Finding:
    """`runs`: K, tokens per second, share of the drafted tokens that were rejected."""
    numbers: list[Number] = []
    possible, fits = True, True
    for K, rate, rejected in runs:
        gain, tokens = rate / baseline, (1 - rejected) * K + 1
        implied = cost_ratio(tokens, gain, K)
        possible &= implied >= 0
        fits &= implied <= 2 * weights_ratio
        numbers += [
            Number(f"c behind K = {K}", implied, "", weights_ratio),
            Number(f"c behind K = {K}, per examined token", _examined(K, gain, rejected)),
            Number(
                f"speedup at K = {K} with c = {weights_ratio:g}",
                tokens / theory.round_cost(K, weights_ratio),
                "x",
                gain,
            ),
        ]
    implied_all = [each.value for each in numbers[::3]]
    verdict = Verdict.WRONG if not possible else Verdict.HOLDS if fits else Verdict.CONDITIONAL
    return Finding(
        f"The rates are possible, but not at a cost that goes by size: {weights_ratio:g} by the "
        f"weights, where the rates imply c = {min(implied_all):.2f} to {max(implied_all):.2f} if "
        "the rejected share is of all drafted tokens. A small draft is bound by its launches and "
        "by the host, and verification is not free either."
        if verdict is Verdict.CONDITIONAL
        else f"The rates imply c = {min(implied_all):.2f} to {max(implied_all):.2f}, the weights "
        f"{weights_ratio:g}.",
        tuple(numbers),
        verdict,
    )


def _examined(K: int, gain: float, rejected: float) -> float:
    return cost_ratio(theory.expected_tokens(1 - rejected, K), gain, K)


def judge_run(results: Sequence[Result]) -> Judgement:
    five, eight = (judging.point(results[0], "draft-length", length) for length in (5, 8))
    implied = {
        K: cost_ratio(each["block_efficiency"], each["speedup"], K)
        for K, each in ((5, five), (8, eight))
    }
    return Judgement(
        judging.combined_sizes([judging.faster(eight, five)]),
        "K = 8 against K = 5 here. The c behind a speedup holds all costs of a round, so it lies "
        "above the draft's own.",
        (
            judging.speedup("K = 5", five),
            judging.speedup("K = 8", eight),
            *(Figure(f"c behind K = {K}", value) for K, value in implied.items()),
            Figure("the draft's own c, K = 5", five["cost_ratio"]),
        ),
    )


def phi_theory(
    said: float = _DRAFT_80M,
    weights: float = _PHI_3_MINI,
    target: float = _TARGET_8B,
    a: float = 0.82,
    K: int = 5,
) -> Finding:
    claimed, found = (theory.speedup(a, K, size / target) for size in (said, weights))
    return Finding(
        "vLLM's SamplingParams never took a draft model: it belongs to the engine, not to a "
        f"request. Phi-3-mini has {weights:g} billion weights by its model card, "
        f"{weights / said:.0f} times as many as claimed, and a vocabulary of its own. By size "
        f"c = {weights / target:.2f} instead of {said / target:.2f}: {found:.2f}× at a = {a:g} "
        f"instead of {claimed:.2f}×.",
        (
            Number("weights of Phi-3-mini", weights, "billions", said),
            Number("c by the weights", weights / target, "", said / target),
            Number(f"speedup at a = {a:g}, K = {K}", found, "x", claimed),
        ),
        Verdict.CONDITIONAL if agrees(said, weights) else Verdict.WRONG,
    )


CLAIMS = (
    Claim(
        16,
        "Known pairs gain from 1.5 to 3×",
        "Llama 3.1 70B with 3.2 3B 2 to 3× at 80 %, Mixtral with Mistral 7B 1.5 to 2× at 70 %, "
        "Qwen2.5 72B with 7B 2 to 2.5× at 75 %, GPT-2 XL with DistilGPT-2 1.5× at 65 %.",
        (Text.C,),
        Kind.ARITHMETIC,
        pairs_theory,
        reason="needs the pairs named, up to 161 GB of weights in 16 bits",
    ),
    Claim(
        23,
        "A draft of 80 M takes an 8 B model from 42 to 104 tokens a second",
        "42 tokens/s become 89 with K = 5, 18 % rejected, and 104 with K = 8, 31 % rejected, by a "
        "draft of 80 M.",
        (Text.D,),
        Kind.ARITHMETIC,
        run_theory,
        (BY_DRAFT_LENGTH,),
        judge_run,
    ),
    Claim(
        24,
        "A request can ask for Phi-3-mini, of 80 M, as its draft",
        "SamplingParams(speculative_model=...) turns it on, with Phi-3-mini of 80 M as the draft.",
        (Text.D,),
        Kind.DEFINITION,
        phi_theory,
        reason="is about vLLM's interface and a model card; vLLM is no part of this app",
    ),
)
