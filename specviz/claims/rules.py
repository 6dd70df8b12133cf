"""Claims on the rule of acceptance, and on what keeps the output's distribution."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.claims import distributions, judging
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
from specviz.claims.distributions import Distribution
from specviz.claims.setting import BY_VOCABULARY, Distributions, Exactness
from specviz.claims.wording import percent

P, Q = (0.6, 0.3, 0.1), (0.3, 0.6, 0.1)  # an example: no claim names distributions of its own
EXACT = 1e-9  # total variation below this is rounding
_DISTRIBUTIONS = Distributions((0.0, 1.0))
_CROSS = Exactness("cross-vocabulary")


def matching_theory(p: Distribution = P, q: Distribution = Q) -> Finding:
    rule, equal = distributions.overlap(p, q), distributions.equal_mass(p, q)
    exact = distributions.total_variation(
        distributions.emitted(p, q, distributions.residual(p, q)), p
    )
    return Finding(
        "A token passes with probability min(1, p/q), that is if u q < p: always where the target "
        "likes it at least as much as the draft, and in part where it likes it less. For "
        f"p = {_text(p)} and q = {_text(q)} that accepts {percent(rule)} of the drafts; tokens "
        f"whose two probabilities match make up {percent(equal)}.",
        (
            Number("accepted by min(1, p/q)", rule, "", equal),
            Number("total variation to p with min(1, p/q)", exact),
        ),
        Verdict.HOLDS if abs(rule - equal) < EXACT else Verdict.WRONG,
    )


def judge_matching(results: Sequence[Result]) -> Judgement:
    found = _at(results[0], 1.0)
    rule, equal = found["overlap"], found["equal_mass"]
    return Judgement(
        Verdict.HOLDS if max(rule) - min(equal) < EXACT else Verdict.WRONG,
        f"Behind {len(rule)} beginnings of prompts the drafts to which both models give the very "
        f"same probability make up {percent(max(equal), 1)} at the most; min(1, p/q) accepts "
        f"{percent(min(rule), 1)} at the least.",
        (
            judging.over("accepted by min(1, p/q)", rule),
            judging.over("drafts with p = q", equal),
        ),
    )


def resampling_theory(p: Distribution = P, q: Distribution = Q) -> Finding:
    biased = distributions.total_variation(distributions.emitted(p, q, p), p)
    exact = distributions.total_variation(
        distributions.emitted(p, q, distributions.residual(p, q)), p
    )
    return Finding(
        "The accepted drafts have already given min(p, q), so what is missing of p is "
        f"max(0, p - q). For p = {_text(p)} and q = {_text(q)}, drawing from p again after a "
        f"rejection leaves the output {biased:.3f} away from p in total variation; drawing from "
        f"the normalised rest leaves {_or_zero(exact)}.",
        (
            Number("total variation, resampled from p", biased, "", 0.0),
            Number("total variation, resampled from the residual", exact),
        ),
        Verdict.HOLDS if biased < EXACT else Verdict.WRONG,
    )


def judge_resampling(results: Sequence[Result]) -> Judgement:
    found = _at(results[0], 1.0)["resampled_from_p"]
    return Judgement(
        Verdict.HOLDS if max(found) < EXACT else Verdict.WRONG,
        "Total variation between the target's law and the output's, had rejected tokens been "
        "drawn from p again, by the exact laws of both models.",
        (judging.over("total variation, resampled from p", found),),
    )


def longest_theory(p: Distribution = P, q: Distribution = Q) -> Finding:
    sampled = distributions.total_variation(distributions.emitted_of_two(p, q), p)
    best = max(range(len(p)), key=lambda token: p[token])
    greedy_distribution = tuple(float(token == best) for token in range(len(p)))
    greedy = distributions.total_variation(
        distributions.emitted_of_two(greedy_distribution, q), greedy_distribution
    )
    if sampled < EXACT:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.CONDITIONAL if greedy < EXACT else Verdict.WRONG
    return Finding(
        "At temperature 0 only one path can be accepted, and it is the longest. When sampling, "
        "siblings must be examined in the order of drawing, each against what the rejections "
        f"before it left of p. Two siblings for p = {_text(p)} and q = {_text(q)}, each judged by "
        f"itself, leave the output {sampled:.3f} away from p; at temperature 0 it is "
        f"{_or_zero(greedy)}.",
        (
            Number("total variation when sampling", sampled, "", 0.0),
            Number("total variation at temperature 0", greedy, "", 0.0),
        ),
        verdict,
    )


def judge_longest(results: Sequence[Result]) -> Judgement:
    greedy, sampled = (_at(results[0], each)["two_siblings"] for each in (0.0, 1.0))
    return Judgement(
        judging.combined([max(greedy) < EXACT, max(sampled) < EXACT]),
        "Total variation between the target's law and the output's, had two siblings each been "
        "judged by itself, by the exact laws of both models.",
        (
            judging.over("total variation at temperature 0", greedy),
            judging.over("total variation at temperature 1", sampled),
        ),
    )


def tokenizer_theory(
    p: Distribution = (0.5, 0.2, 0.2, 0.1), q: Distribution = (0.7, 0.3, 0.0, 0.0)
) -> Finding:
    distance = distributions.total_variation(
        distributions.emitted(p, q, distributions.residual(p, q)), p
    )
    rule = distributions.overlap(p, q)
    shared = sum(mine for mine, theirs in zip(p, q, strict=True) if theirs > 0)
    works = distance < EXACT and rule > 0
    return Finding(
        "The rule is exact for any q, also for one that lacks some of the target's tokens: "
        f"restrict q to the shared ones and normalise it. For p = {_text(p)} and q = {_text(q)} "
        f"the output is {_or_zero(distance)} away from p and {percent(rule)} of the drafts "
        f"pass, at the most the {percent(shared)} that p gives to shared tokens. (Timor et al., "
        "arXiv 2502.05202; transformers calls it universal assisted generation.)",
        (
            Number("total variation to p", distance),
            Number("accepted", rule),
            Number("accepted at the most", shared),
        ),
        Verdict.WRONG if works else Verdict.HOLDS,
    )


def judge_tokenizer(results: Sequence[Result]) -> Judgement:
    exact, grid = results
    measured = judging.point(grid, "method", "cross-vocabulary")
    rate = measured["acceptance_rate"] or 0.0
    works = is_lossless(exact) and rate > 0
    return Judgement(
        Verdict.WRONG if works else Verdict.HOLDS,
        f"With a draft of another tokenizer the output was found {exact['verdict']}, and "
        f"{percent(rate)} of the examined drafts were accepted.",
        (
            *exactness_figures(exact),
            judging.acceptance("other tokenizer", measured),
            judging.speedup("other tokenizer", measured),
        ),
    )


def is_lossless(exact: Result) -> bool:
    """Whether the output's distribution was found to be the target's."""
    return bool(exact["verdict"] == "lossless")


def exactness_figures(exact: Result) -> tuple[Figure, ...]:
    """The distance and what exact sampling of that size gives by chance."""
    chance = (0.0, exact["noise_ceiling"])
    return (
        Figure("total variation, counted", exact["total_variation"]),
        Figure("total variation by chance", exact["noise_floor"], "", chance),
    )


def _at(found: Result, temperature: float) -> Result:
    (distributions_there,) = (
        each for each in found["distributions"] if each["temperature"] == temperature
    )
    return dict(distributions_there)


def _text(distribution: Distribution) -> str:
    return "(" + ", ".join(f"{each:g}" for each in distribution) + ")"


def _or_zero(distance: float) -> str:
    return "0" if distance < EXACT else f"{distance:.3f}"


CLAIMS = (
    Claim(
        2,
        "Only drafts whose probability matches the target's are kept",
        "The target keeps those tokens whose draft probability matches its own.",
        (Text.A,),
        Kind.ARITHMETIC,
        matching_theory,
        (_DISTRIBUTIONS,),
        judge_matching,
    ),
    Claim(
        3,
        "After a rejection the token is drawn from the target",
        "After a rejection the token is drawn anew from the target's distribution.",
        (Text.A, Text.B, Text.E),
        Kind.ARITHMETIC,
        resampling_theory,
        (_DISTRIBUTIONS,),
        judge_resampling,
    ),
    Claim(
        4,
        "Of a draft tree the longest accepted path is taken",
        "Of a draft tree the longest path that the target accepts is selected.",
        (Text.A,),
        Kind.ARITHMETIC,
        longest_theory,
        (_DISTRIBUTIONS,),
        judge_longest,
    ),
    Claim(
        20,
        "Draft and target must share the tokenizer",
        "Draft and target must share the tokenizer.",
        (Text.C,),
        Kind.ARITHMETIC,
        tokenizer_theory,
        (_CROSS, BY_VOCABULARY),
        judge_tokenizer,
    ),
)
