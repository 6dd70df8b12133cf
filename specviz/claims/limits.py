"""Claims on when speculation must not be used: thresholds of temperature, length, acceptance."""

from __future__ import annotations

from collections.abc import Sequence

from specviz import theory
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
from specviz.claims.implied import USUAL_COST_RATIO, short_output_speedup
from specviz.claims.rules import EXACT, exactness_figures, is_lossless
from specviz.claims.setting import (
    BY_OUTPUT,
    BY_TEMPERATURE,
    BY_VOCABULARY,
    Distributions,
    Exactness,
)

_FEW_TOKENS = 50
_RATE = 0.6
_SECONDS = 0.1
_HOT = 1.0
# a target that is sure where its draft hesitates: an example, no claim names logits
LOGITS = ((4.0, 2.0, 0.0), (2.0, 1.5, 0.0))


def thresholds_theory(
    claimed_rate: float = _RATE,
    few_tokens: int = _FEW_TOKENS,
    K: int = 5,
    cost_ratios: tuple[float, ...] = (0.02, USUAL_COST_RATIO, 0.3),
) -> Finding:
    borders = [theory.break_even_acceptance(K, c) for c in cost_ratios]
    numbers = tuple(
        Number(f"break-even acceptance at c = {c:g}", border, "", claimed_rate)
        for c, border in zip(cost_ratios, borders, strict=True)
        if border is not None
    )
    short = short_output_speedup(few_tokens - 1, 0.8, K, USUAL_COST_RATIO)
    return Finding(
        "The acceptance that pays is no constant: it rises with the draft's cost, "
        + ", ".join(f"{n.value:.2f} at {n.name.rpartition(' at ')[2]}" for n in numbers)
        + f" for K = {K}. {few_tokens - 1} new tokens gain at least {short:.2f}× at a = 0.8 and "
        f"c = {USUAL_COST_RATIO:g}, the prefill aside. A short time to the first token by itself "
        "costs nothing; a full memory does rule out a draft model, though not prompt lookup.",
        (
            *numbers,
            Number(f"speedup of {few_tokens - 1} tokens at the least", short, "x", 1.0),
        ),
    )


def judge_thresholds(results: Sequence[Result]) -> Judgement:
    by_temperature, by_output, by_vocabulary = results
    beyond = {
        "temperature 1.5": judging.point(by_temperature, "temperature", 1.5),
        "10 new tokens": judging.point(by_output, "output-length", 10),
        "25 new tokens": judging.point(by_output, "output-length", 25),
        "another tokenizer": judging.point(by_vocabulary, "method", "cross-vocabulary"),
    }
    for grid in results:
        for each in grid["points"]:
            ((axis, value),) = each["setting"].items()
            if (each["acceptance_rate"] or 0.0) < _RATE:
                beyond[f"acceptance below {_RATE:g}, {axis} {value}"] = each
    quick = judging.point(by_output, "output-length", 49)
    if quick["baseline_ttft_seconds"] < _SECONDS:
        beyond["first token within 0.1 s"] = quick
    losing = {name: _not(judging.pays(each)) for name, each in beyond.items()}
    return Judgement(
        judging.combined(list(losing.values())),
        "Beyond the thresholds it lost in "
        + (", ".join(name for name, lost in losing.items() if lost) or "no case")
        + " and paid in "
        + (", ".join(name for name, lost in losing.items() if lost is False) or "no case")
        + ".",
        tuple(judging.speedup(name, each) for name, each in beyond.items()),
    )


def _not(part: judging.Part) -> judging.Part:
    return None if part is None else not part


def short_theory(
    few_tokens: int = _FEW_TOKENS,
    a: float = 0.8,
    K: int = 5,
    c: float = USUAL_COST_RATIO,
    rate: float = 42.0,
    seconds: float = 1.24,
    claimed_speedup: float = 89 / 42,
) -> Finding:
    gained = short_output_speedup(few_tokens - 1, a, K, c)
    paying = (n for n in range(2, few_tokens) if short_output_speedup(n, a, K, c) > 1)
    first = next(paying, None)
    starts = "" if first is None else f" and pays from {first} tokens on"
    return Finding(
        f"At most {K} drafted tokens are wasted at the end, once per answer. At a = {a:g} and "
        f"c = {c:g} an answer of {few_tokens - 1} tokens gains {gained:.2f}× or more{starts}, the "
        f"prefill aside. The text's own run had {rate * seconds:.0f} tokens and gained "
        f"{claimed_speedup:.1f}×.",
        (
            Number(f"speedup of {few_tokens - 1} tokens at the least", gained, "x", 1.0),
            Number("speedup of an endless answer", theory.speedup(a, K, c), "x"),
            Number("tokens of the text's own run", rate * seconds, "tokens"),
        ),
        Verdict.HOLDS if first is None else Verdict.WRONG,
    )


def judge_short(results: Sequence[Result]) -> Judgement:
    points = results[0]["points"]
    parts = [_not(judging.pays(each)) for each in points]
    return Judgement(
        judging.combined(parts),
        "Speedup of answers under 50 tokens, the prefill of the prompt included.",
        tuple(
            judging.speedup(f"{each['setting']['output-length']} tokens", each) for each in points
        ),
    )


def temperature_theory(
    logits: tuple[Sequence[float], Sequence[float]] = LOGITS,
    temperatures: tuple[float, ...] = (0.2, 1.0, 5.0),
) -> Finding:
    overlaps, distance = [], 0.0
    for temperature in temperatures:
        p, q = (distributions.softened(each, temperature) for each in logits)
        overlaps.append(distributions.overlap(p, q))
        out = distributions.emitted(p, q, distributions.residual(p, q))
        distance = max(distance, distributions.total_variation(out, p))
    hot = [each for each, t in zip(overlaps, temperatures, strict=True) if t >= _HOT]
    works = distance < EXACT and min(hot) > 0
    return Finding(
        "The output follows the target's law at every temperature. What changes is the overlap of "
        "the two softened laws, which may rise or fall: for the logits "
        f"{tuple(logits[0])} and {tuple(logits[1])} it is "
        + ", ".join(f"{o:.2f} at {t:g}" for o, t in zip(overlaps, temperatures, strict=True))
        + ". It tends to 1 as both laws become flat.",
        (
            *(
                Number(f"overlap at temperature {t:g}", o)
                for o, t in zip(overlaps, temperatures, strict=True)
            ),
            Number("total variation to p", distance),
        ),
        Verdict.WRONG if works else Verdict.HOLDS,
    )


def judge_temperature(results: Sequence[Result]) -> Judgement:
    found, exact, grid = results
    points = [each for each in grid["points"] if each["setting"]["temperature"] >= _HOT]
    parts = [_not(part) for part in (is_lossless(exact), *map(judging.pays, points))]
    overlaps: tuple[Figure, ...] = tuple(
        judging.over(f"overlap at temperature {each['temperature']:g}", each["overlap"])
        for each in found["distributions"]
    )
    return Judgement(
        judging.combined(parts),
        f"At temperature 1.5 the output was found {exact['verdict']}. Overlaps are of both models' "
        "exact laws behind the same texts.",
        (
            *overlaps,
            *exactness_figures(exact),
            *(
                judging.speedup(f"temperature {each['setting']['temperature']:g}", each)
                for each in points
            ),
        ),
    )


CLAIMS = (
    Claim(
        10,
        "Avoid it below 60 % acceptance, above temperature 1, under 50 tokens",
        "Avoid it if the first token comes within 100 ms, above temperature 1, below 60 % "
        "acceptance, for fewer than 50 tokens, with a draft of another family, or when memory is "
        "full.",
        (Text.A,),
        Kind.MEASURABLE,
        thresholds_theory,
        (BY_TEMPERATURE, BY_OUTPUT, BY_VOCABULARY),
        judge_thresholds,
    ),
    Claim(
        26,
        "Answers of fewer than 50 tokens gain nothing",
        "Answers of fewer than 50 tokens gain nothing.",
        (Text.D,),
        Kind.ARITHMETIC,
        short_theory,
        (BY_OUTPUT,),
        judge_short,
    ),
    Claim(
        27,
        "The temperature must be below 1",
        "The temperature must be below 1.",
        (Text.D,),
        Kind.ARITHMETIC,
        temperature_theory,
        (Distributions((0.5, 1.0, 1.5, 2.0)), Exactness(temperature=1.5), BY_TEMPERATURE),
        judge_temperature,
    ),
)
