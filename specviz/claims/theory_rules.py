"""What theory makes of a claim's numbers: a verdict and the values that its sentence names.

Every rule takes a claim's numbers by name. Defaults are what a claim leaves open: K, a usual cost
ratio, an H100. Acceptance is assumed independent from token to token throughout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from specviz import theory
from specviz.claims import output_distributions as outputs
from specviz.claims.claim import ClaimVerdict, TheoryRule
from specviz.claims.output_distributions import EXACT, Distribution
from specviz.errors import InputError
from specviz.forward_curve import ForwardCurve
from specviz.records import MAX_DRAFT_LENGTH
from specviz.serving_cost import HOURS_A_DAY, Load, Machine, daily_cost
from specviz.sizing.forward_time import GIGA, GPUS, TERA
from specviz.sizing.shape import MODELS, PRECISIONS

Found = tuple[ClaimVerdict | None, dict[str, Any]]
HOLDS, CONDITIONAL, WRONG = ClaimVerdict.HOLDS, ClaimVerdict.CONDITIONAL, ClaimVerdict.WRONG

TOLERANCE = 0.1  # of the claimed number: nearer is agreement
USUAL_COST_RATIO = 0.1  # c where a claim names none: a draft of a tenth of the target's time
SAME_COST = 0.1  # values of c that differ by no more may be of one draft
USUAL_COST_RATIOS = tuple(step / 200 for step in range(4, 61))  # 0.02 to 0.3: c of usual pairs

H100 = GPUS["h100-sxm"]  # by its data sheet: dense bfloat16 arithmetic, bandwidth, memory
FLOPS_PER_SECOND = H100.bf16 * TERA
BYTES_PER_SECOND = H100.bandwidth * GIGA
MEMORY_BYTES = H100.memory * GIGA
BFLOAT16_BYTES = 2
RIDGE_TOKENS = FLOPS_PER_SECOND / BYTES_PER_SECOND  # 2 FLOP a weight of 2 bytes: 1 FLOP a byte
USUAL_ROWS = 256  # sequences that a server decodes together at the most, unless told otherwise
COARSEST_BITS = 4.0  # a weight, in common quantised checkpoints
Q4_K_M_BITS = PRECISIONS["q4_k_m"]
LLAMA_8B_CACHE_BYTES = BFLOAT16_BYTES * MODELS["llama-3-1-8b"].cache_values_per_token

DAYS_A_YEAR = 365
HIGHEST_PEAK = 10.0  # of the busiest hour over the mean, that is looked at
HOT = 1.0  # temperatures from here on are not below 1

RULES: dict[str, TheoryRule] = {}


def rule(made: TheoryRule) -> TheoryRule:
    """Make a rule known by its name."""
    RULES[made.__name__] = made
    return made


# ---- what follows from numbers


def combined(parts: Sequence[bool | None]) -> ClaimVerdict:
    """Right in all parts, in some, in none; undecided while the open ones could change that.

    >>> combined([True, False, None]).value, combined([True, None]).value
    ('holds under conditions', 'undecided')
    """
    if True in parts and False in parts:
        return CONDITIONAL
    if None in parts or not parts:
        return ClaimVerdict.UNDECIDED
    return HOLDS if True in parts else WRONG


def agrees(claimed: float, found: float) -> bool:
    """Within a tenth of what is claimed.

    >>> agrees(4, 3.69), agrees(4, 2.69)
    (True, False)
    """
    return abs(found - claimed) <= TOLERANCE * abs(claimed)


def some_usual_cost(fits: Callable[[float], bool]) -> bool:
    """Whether one usual c, the same for all that a claim says, makes its numbers come out.

    The one condition that is granted to claims that name no c.

    >>> some_usual_cost(lambda c: agrees(3.0, 4 / (1 + 5 * c)))
    True
    """
    return any(map(fits, USUAL_COST_RATIOS))


def cost_ratio(tokens: float, speedup: float, K: int) -> float:
    """c that makes `tokens` per round into this speedup, with v = 0.

    >>> round(cost_ratio(3.69, 2.46, 5), 2)
    0.1
    """
    return (tokens / speedup - 1) / K


def needed_acceptance(speedup: float, K: int, c: float) -> float | None:
    """The acceptance rate that gives this speedup (>= 1); None where none does.

    >>> round(needed_acceptance(2.46, 5, 0.1) or 0, 2)
    0.8
    """
    return theory.break_even_acceptance(K, 0.0, speedup * theory.round_cost(K, c) - 1)


def short_output_speedup(tokens: int, a: float, K: int, c: float) -> float:
    """At the least so much, on average, for `tokens` new tokens of which prefill gives the first.

    M = tokens - 1 are left. The last round overshoots by K at the most, so by Wald's identity the
    rounds number (M + K) / T at the most: theory's speedup times M / (M + K). The prefill, which
    both ways of decoding share, is not counted.

    >>> round(short_output_speedup(49, 0.8, 5, 0.1), 2)
    2.23
    """
    left = tokens - 1
    return theory.speedup(a, K, c) * left / (left + K)


def whole_speedup(speedup: float, prefill_share: float) -> float:
    """Of a request that spends this share of its plain time in the prefill (Amdahl).

    >>> round(whole_speedup(2.0, 0.5), 2)
    1.33
    """
    return 1 / (prefill_share + (1 - prefill_share) / speedup)


def ideal_curve(tokens_per_read: float, seconds: float = 1.0) -> ForwardCurve:
    """A forward that reads weights for `seconds` and computes so many tokens in that time."""
    ridge = round(tokens_per_read)
    return ForwardCurve((1, ridge, 2 * ridge), (seconds, seconds, 2 * seconds))


def gains_of_a_tenth(a: float, K: int, c: float) -> tuple[float, float]:
    """Speedup over now with a tenth more acceptance, and with a draft a tenth cheaper."""
    now = theory.speedup(a, K, c)
    return (
        theory.speedup(min(1.0, (1 + TOLERANCE) * a), K, c) / now,
        theory.speedup(a, K, (1 - TOLERANCE) * c) / now,
    )


def together(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Of a claim's parts, each judged by itself: what all say, else true under conditions.

    >>> together([ClaimVerdict.WRONG, ClaimVerdict.HOLDS]).value
    'holds under conditions'
    """
    return verdicts[0] if len(set(verdicts)) == 1 else CONDITIONAL


def with_condition(is_right: bool, is_right_under_a_condition: bool) -> ClaimVerdict:
    """HOLDS as it stands, or CONDITIONAL on something that the claim does not name."""
    if is_right:
        return HOLDS
    return CONDITIONAL if is_right_under_a_condition else WRONG


# ---- claims that read a speedup off the number of drafted or accepted tokens


@rule
def accepted_is_speedup(
    a: float,
    K: int,
    claimed_accepted: float,
    claimed_speedup: float,
    practice: tuple[float, float],
    c: float = USUAL_COST_RATIO,
) -> Found:
    """That a K tokens are accepted per round, and that the speedup is that number, or in practice
    one of a range.
    """
    tokens = theory.expected_tokens(a, K)

    def fits(emitted: float, cost: float) -> bool:
        """With so many tokens a round, of which the target gives one."""
        gain = emitted / theory.round_cost(K, cost)
        return agrees(claimed_accepted, emitted - 1) and agrees(claimed_speedup, gain)

    at_some_cost = any(some_usual_cost(partial(fits, emitted)) for emitted in (tokens, a * K + 1))
    low, high = practice
    parts = [
        with_condition(fits(tokens, c), at_some_cost),
        HOLDS if low <= theory.speedup(a, K, c) <= high else WRONG,
    ]
    fitting = cost_ratio(a * K + 1, claimed_speedup, K)
    return together(parts), {
        "accepted": theory.expected_accepted(a, K),
        "tokens": tokens,
        "speedup": theory.speedup(a, K, c),
        "accepted_of_drafted": a * K,
        "speedup_of_drafted": (a * K + 1) / theory.round_cost(K, c),
        "fitting_cost": fitting,
        "can_fit": fitting >= 0,
        "least": low,
        "highest": high,
    }


@rule
def product_is_speedup(
    a: float, K: int, baseline: float, claimed_speedup: float, c: float, gpus: int
) -> Found:
    """That K a is the speedup, with a draft of this c on one more than `gpus` GPUs."""
    tokens, speedup = theory.expected_tokens(a, K), theory.speedup(a, K, c)
    needed = cost_ratio(tokens, (1 - TOLERANCE) * claimed_speedup, K)
    apart = gpus * c  # the target's weights are read by all of them at once
    return (HOLDS if agrees(claimed_speedup, speedup) else WRONG), {
        "tokens": tokens,
        "product": K * a,
        "speedup": speedup,
        "rate": baseline * speedup,
        "needed": needed,
        "can_fit": needed >= 0,
        "apart": apart,
        "apart_speedup": theory.speedup(a, K, apart),
        "with_draft": gpus + 1,
        "per_gpu": claimed_speedup * gpus / (gpus + 1),
    }


@rule
def round_is_speedup(
    K: int, accepted: int, claimed_speedup: float, c: float = USUAL_COST_RATIO
) -> Found:
    """That a round that accepts so many tokens is as many times as fast, drafted in parallel."""
    if accepted > K:
        raise InputError(f"accepted tokens must be at most K = {K}, got {accepted}")
    tokens = accepted + 1
    fitting = cost_ratio(tokens, claimed_speedup, K)
    fits = some_usual_cost(
        lambda cost: agrees(claimed_speedup, tokens / theory.round_cost(K, cost))
    )
    return combined([False, fits]), {  # drafted in parallel it is not
        "tokens": tokens,
        "most": theory.expected_tokens(1.0, K),
        "speedup": tokens / theory.round_cost(K, c),
        "fitting_cost": fitting,
        "can_fit": fitting >= 0,
    }


@rule
def ladder(
    steps: Sequence[tuple[float, float]], K: int = 5, usual: float = USUAL_COST_RATIO
) -> Found:
    """`steps`: acceptance rate and speedup."""
    implied = [cost_ratio(theory.expected_tokens(a, K), claimed, K) for a, claimed in steps]
    common = sum(implied) / len(implied)

    def fits(cost: float) -> bool:
        return all(agrees(claimed, theory.speedup(a, K, cost)) for a, claimed in steps)

    at_costs = [
        [{"a": a, "c": c, "speedup": theory.speedup(a, K, c), "claimed": said} for a, said in steps]
        for c in (max(0.0, common), usual)
    ]
    return with_condition(fits(usual), some_usual_cost(fits)), {
        "common": common,
        "all_steps": [*at_costs[0], *at_costs[1]],
        "usual_steps": at_costs[1],
    }


@rule
def product_is_tokens(
    a: float, K: int, claimed_tokens: float, c: float = USUAL_COST_RATIO
) -> Found:
    """That a target forward gives a K + 1 tokens."""
    tokens, product = theory.expected_tokens(a, K), a * K + 1
    found = {
        "tokens": tokens,
        "product": product,
        "speedup": theory.speedup(a, K, c),
        "speedup_of_drafted": product / theory.round_cost(K, c),
    }
    return with_condition(agrees(claimed_tokens, tokens), agrees(claimed_tokens, product)), found


# ---- claims on the rule of acceptance, and on what keeps the output's distribution


def _exact_distance(p: Distribution, q: Distribution) -> float:
    """Of the output to p where a rejected token is replaced by one of the residual."""
    return outputs.total_variation(outputs.emitted(p, q, outputs.residual(p, q)), p)


def _at_temperature_0(p: Distribution) -> Distribution:
    """The same preferences, drawn greedily: the most probable token is certain."""
    best = max(range(len(p)), key=lambda token: p[token])
    return tuple(float(token == best) for token in range(len(p)))


@rule
def matching(p: Distribution, q: Distribution) -> Found:
    """That only tokens to which both models give the same probability are kept."""
    accepted, equal = outputs.overlap(p, q), outputs.equal_mass(p, q)
    greedy_p, greedy_q = _at_temperature_0(p), _at_temperature_0(q)
    missed = outputs.overlap(greedy_p, greedy_q) - outputs.equal_mass(greedy_p, greedy_q)
    found = {"accepted": accepted, "equal": equal, "exact": _exact_distance(p, q)}
    verdict = with_condition(abs(accepted - equal) < EXACT, missed < EXACT)
    return verdict, _with_texts(p, q, found)


@rule
def resampling(p: Distribution, q: Distribution) -> Found:
    """That a rejected token is drawn from p again: is the output still p?"""

    def biased(p: Distribution) -> float:
        return outputs.total_variation(outputs.emitted(p, q, p), p)

    greedy = biased(_at_temperature_0(p))
    found = {"biased": biased(p), "greedy": greedy, "exact": _exact_distance(p, q)}
    return with_condition(biased(p) < EXACT, greedy < EXACT), _with_texts(p, q, found)


@rule
def longest_path(p: Distribution, q: Distribution, after: Sequence[float]) -> Found:
    """That of two paths of two tokens, each examined by itself, the longest accepted one is taken.

    `after`: the chance that a guess behind each first token is accepted.
    """

    def biased(p: Distribution) -> float:
        return outputs.total_variation(outputs.emitted_of_longest(p, q, after), p)

    found = {"sampled": biased(p), "greedy": biased(_at_temperature_0(p))}
    verdict = with_condition(found["sampled"] < EXACT, found["greedy"] < EXACT)
    after_text = ", ".join(f"{each:g}" for each in after)
    return verdict, _with_texts(p, q, found) | {"after_text": f"({after_text})"}


@rule
def shared_tokenizer(p: Distribution, q: Distribution) -> Found:
    """That a draft q which lacks some of the target's tokens cannot be used."""
    distance, accepted = _exact_distance(p, q), outputs.overlap(p, q)
    shared = sum(mine for mine, theirs in zip(p, q, strict=True) if theirs > 0)
    found = {"distance": distance, "accepted": accepted, "shared": shared}
    works = distance < EXACT and accepted > 0
    return (WRONG if works else HOLDS), _with_texts(p, q, found)


def _with_texts(p: Distribution, q: Distribution, found: dict[str, float]) -> dict[str, Any]:
    """With both distributions as they are written: (0.6, 0.4)."""
    texts = ("(" + ", ".join(f"{each:g}" for each in one) + ")" for one in (p, q))
    return {**found, **dict(zip(("p_text", "q_text"), texts, strict=True))}


@rule
def temperature(
    logits: tuple[Sequence[float], Sequence[float]], temperatures: Sequence[float]
) -> Found:
    """That the temperature must be below 1: overlap and exactness at several."""
    softened = [[outputs.softened(each, t) for each in logits] for t in temperatures]
    overlaps = [
        {"temperature": t, "overlap": outputs.overlap(p, q)}
        for t, (p, q) in zip(temperatures, softened, strict=True)
    ]
    distance = max(0.0, *(_exact_distance(p, q) for p, q in softened))
    hot = [each["overlap"] for each in overlaps if each["temperature"] >= HOT] or [0.0]
    works = distance < EXACT and min(hot) > 0
    return (WRONG if works else HOLDS), {"overlaps": overlaps, "distance": distance}


# ---- claims on what a name means, on programs and model cards


@rule
def rows_of_their_own(context: int, weights: float, K: int = 5) -> Found:
    """What scoring each of K drafted tokens as a sequence of its own reads, beside one forward over
    all: the weights once, but the cache of `context` tokens once for each sequence.
    """
    read, cache = weights * BFLOAT16_BYTES, context * LLAMA_8B_CACHE_BYTES
    apart, at_once = read + (K + 1) * cache, read + cache
    return WRONG, {
        "sequences": K + 1,
        "apart": apart / 1e9,
        "at_once": at_once / 1e9,
        "times": apart / at_once,
    }


@rule
def layers_needed(shares: Sequence[float], K: int = 5) -> Found:
    """The acceptance that drafting with a share of the target's layers needs to pay."""
    borders = ({"share": c, "border": theory.break_even_acceptance(K, c)} for c in shares)
    return WRONG, {"borders": [each for each in borders if each["border"] is not None]}


@rule
def layers_gained(shares: Sequence[float], a: float = 0.8, K: int = 5) -> Found:
    """The speedup of drafting with a share of the target's layers."""
    return WRONG, {"gains": [{"share": c, "gain": theory.speedup(a, K, c)} for c in shares]}


@rule
def draft_length_used(asked: int, used: int, a: float = 0.8, c: float = USUAL_COST_RATIO) -> Found:
    """What the draft length asked for gains, and what the library's own gains."""
    return WRONG, {
        "wanted": theory.speedup(a, asked, c),
        "got": theory.speedup(a, used, c),
        "best": theory.best_draft_length(a, c),
    }


@rule
def ratio_of_sums(baseline: Sequence[float], speculative: Sequence[float]) -> Found:
    """Tokens per second of prompts with as many tokens each."""
    return WRONG, {
        "summed": sum(speculative) / sum(baseline),
        "timed": sum(1 / rate for rate in baseline) / sum(1 / rate for rate in speculative),
    }


@rule
def size_of_draft(said: float, weights: float, target: float, rejected: float, K: int = 5) -> Found:
    """Sizes in billions of weights; time goes by the weights that are read. `rejected`: the share
    of the drafted tokens.
    """
    tokens = (1 - rejected) * K + 1
    return (CONDITIONAL if agrees(said, weights) else WRONG), {
        "times": weights / said,
        "cost": weights / target,
        "cost_as_said": said / target,
        "speedup": tokens / theory.round_cost(K, weights / target),
        "speedup_as_said": tokens / theory.round_cost(K, said / target),
    }


# ---- claims on when to take which method, and how much is gained


@rule
def whole_requests(speedup: float, prefill_shares: Sequence[float]) -> Found:
    """That work that is all prefill gains nothing, a draft of another family neither, and that the
    quality stays: by requests with these shares of prefill, and by what the rule is.
    """
    gains = [{"share": s, "gain": whole_speedup(speedup, s)} for s in prefill_shares]
    most = gains[-1]["gain"]
    parts = [HOLDS if agrees(1.0, most) else WRONG, CONDITIONAL, HOLDS]  # prefill, family, quality
    return together(parts), {"gains": gains, "most": most, "last_share": prefill_shares[-1]}


@rule
def prompt_caching(
    prefill_share: float, a: float = 0.8, K: int = 5, c: float = USUAL_COST_RATIO
) -> Found:
    """What speculation and prompt caching gain of a request with this share of prefill."""
    gain = theory.speedup(a, K, c)
    return CONDITIONAL, {
        "gain": gain,
        "speculated": whole_speedup(gain, prefill_share),
        "cached": 1 / (1 - prefill_share),
        "bits": Q4_K_M_BITS,
        "smaller": 16 / Q4_K_M_BITS,
    }


@rule
def costs_behind_tasks(tasks: Mapping[str, tuple[float, float]], K: int = 5) -> Found:
    """`tasks`: acceptance rate and speedup of each."""
    costs = {
        task: cost_ratio(theory.expected_tokens(a, K), gain, K) for task, (a, gain) in tasks.items()
    }
    order = sorted(tasks, key=lambda task: -tasks[task][1])
    return None, {
        "costs": [{"task": task, "cost": cost} for task, cost in costs.items()],
        "least": min(costs.values()),
        "most": max(costs.values()),
        "agree": max(costs.values()) - min(costs.values()) <= SAME_COST,
        "rank": order.index("summarise") + 1,
        "count": len(order),
    }


@rule
def needed_by_methods(
    methods: Mapping[str, tuple[float, float]],
    published: Mapping[str, float],
    titles: Mapping[str, str],
    K: int = 5,
    c: float = USUAL_COST_RATIO,
) -> Found:
    """`methods`: lowest and highest speedup of each; `published`: what a comparison measured."""
    needed = [
        {
            "title": titles.get(name, name),
            "low": low,
            "c": cost,
            "needed": needed_acceptance(low, K, cost),
        }
        for name, (low, _) in methods.items()
        for cost in (0.0, c)
    ]
    with_ends = [{**each, "possible": each["needed"] is not None} for each in needed]
    return None, {
        "free": with_ends[::2],
        "possible_ones": [each for each in with_ends if each["possible"]],
        "is_compared": any(name in methods for name in published),
        "compared": [
            {"title": titles[name], "speedup": speedup, "least": methods[name][0]}
            for name, speedup in published.items()
            if name in methods
        ],
    }


@rule
def needed_by_uses(
    uses: Mapping[str, tuple[float, float]],
    rows: int,
    a: float = 0.8,
    K: int = 5,
    c: float = USUAL_COST_RATIO,
    ridge: float = RIDGE_TOKENS,
) -> Found:
    """`uses`: lowest and highest speedup of each."""
    ranges: list[dict[str, Any]] = []
    for name, ends in uses.items():
        low, high = (needed_acceptance(end, K, c) for end in ends)
        possible = {"low_possible": low is not None, "high_possible": high is not None}
        ranges.append({"name": name, "ends": ends, "low": low, "high": high, **possible})
    return None, {
        "ranges": ranges,
        "possible_ones": [
            {"name": each["name"], "end": end, "needed": needed}
            for each in ranges
            for end, needed in zip(each["ends"], (each["low"], each["high"]), strict=True)
            if needed is not None
        ],
        "gain": theory.batch_speedup(a, K, rows, ideal_curve(ridge), ideal_curve(ridge, c)),
    }


# ---- claims on named pairs of models: what the sizes of target and draft allow


@rule
def named_pairs(pairs: Sequence[Mapping[str, Any]], K: int = 5) -> Found:
    """Of each: billions of weights that a token uses, acceptance, speedup claimed from and to if it
    is; of a mixture of experts also all weights, the experts, and those that a token uses.
    """
    reached: list[bool] = []
    found: list[dict[str, Any]] = []
    for pair in pairs:
        a, c = pair["acceptance"], pair["draft"] / pair["target"]  # time goes by the weights read

        def gain_of(
            length: int, pair: Mapping[str, Any] = pair, a: float = a, c: float = c
        ) -> float:
            return theory.speedup(a, length, c, expert_overhead(pair, length + 1))

        best = max(map(gain_of, range(1, MAX_DRAFT_LENGTH + 1)))
        claimed = tuple(pair[end] for end in ("low", "high") if end in pair)
        reached += [best * (1 + TOLERANCE) >= end for end in dict.fromkeys(claimed)]
        found.append(
            {
                "low": None,
                "high": None,
                **pair,
                "c": c,
                "v": expert_overhead(pair, K + 1),
                "gain": gain_of(K),
                "best": best,
                "lost": any(best * (1 + TOLERANCE) < end for end in claimed),
                "loses": best < 1,
            }
        )
    lost = [pair for pair in found if pair["lost"] and not pair["loses"]]
    experts = [pair for pair in found if "experts" in pair]
    return combined(reached), {
        "found": found,
        "claimed_ones": [pair for pair in found if pair["low"] is not None],
        "lost": lost,
        "reached": "lost" if lost else "all" if all(reached) and reached else "none",
        "losing": [pair for pair in found if pair["loses"]],
        "any_loses": any(pair["loses"] for pair in found),
        "mixtures": [
            {**pair, "touched": theory.touched_experts(pair["experts"], pair["used"], K + 1)}
            for pair in experts
        ],
        "checked": K + 1,
    }


def expert_overhead(pair: Mapping[str, Any], tokens: int) -> float:
    """v of a mixture of experts: tokens that use other experts read other weights; else 0.

    Sizes in billions: `target` are the weights that a token uses, `whole` all there are.

    >>> mixtral = {"target": 12.9, "whole": 46.7, "experts": 8, "used": 2}
    >>> round(expert_overhead(mixtral, 6), 1), expert_overhead({"target": 1.0}, 6)
    (2.0, 0.0)
    """
    if "experts" not in pair:
        return 0.0
    experts, used = pair["experts"], pair["used"]
    one = (pair["whole"] - pair["target"]) / (experts - used)  # weights of an expert
    return float((theory.touched_experts(experts, used, tokens) - used) * one / pair["target"])


@rule
def costs_behind_rates(
    baseline: float, runs: Sequence[tuple[int, float, float]], weights_ratio: float
) -> Found:
    """`runs`: K, tokens per second, share of the drafted tokens that were rejected."""
    found = []
    for K, rate, rejected in runs:
        gain, tokens = rate / baseline, (1 - rejected) * K + 1
        found.append(
            {
                "K": K,
                "rate": rate,
                "cost": cost_ratio(tokens, gain, K),
                "cost_examined": cost_ratio(theory.expected_tokens(1 - rejected, K), gain, K),
                "rate_by_size": baseline * tokens / theory.round_cost(K, weights_ratio),
            }
        )
    costs = [each["cost"] for each in found]
    possible, fits = min(costs) >= 0, max(costs) <= 2 * weights_ratio
    verdict = WRONG if not possible else HOLDS if fits else CONDITIONAL
    return verdict, {
        "found": found,
        "least": min(costs),
        "most": max(costs),
        "dearer": verdict is CONDITIONAL,
    }


# ---- claims on when speculation must not be used


@rule
def thresholds(
    claimed_rate: float, few_tokens: int, cost_ratios: Sequence[float], K: int = 5
) -> Found:
    """The acceptance that pays by the draft's cost, and what a short answer gains."""
    borders = ({"c": c, "border": theory.break_even_acceptance(K, c)} for c in cost_ratios)
    return None, {
        "borders": [each for each in borders if each["border"] is not None],
        "usual": USUAL_COST_RATIO,
        "fewer": few_tokens - 1,
        "short": short_output_speedup(few_tokens - 1, 0.8, K, USUAL_COST_RATIO),
    }


@rule
def short_answers(
    few_tokens: int,
    rate: float,
    seconds: float,
    claimed_speedup: float,
    a: float = 0.8,
    K: int = 5,
    c: float = USUAL_COST_RATIO,
) -> Found:
    """`rate` (tokens per second), `seconds` and `claimed_speedup` are of the text's own run."""
    paying = (n for n in range(2, few_tokens) if short_output_speedup(n, a, K, c) > 1)
    first = next(paying, None)
    return (HOLDS if first is None else WRONG), {
        "fewer": few_tokens - 1,
        "gained": short_output_speedup(few_tokens - 1, a, K, c),
        "first": first,
        "ever_pays": first is not None,
        "endless": theory.speedup(a, K, c),
        "own_tokens": rate * seconds,
    }


# ---- claims on what the hardware allows: bandwidth, arithmetic, batches, machines


@rule
def bandwidth(
    rate: float,
    claimed_memory: float,
    weights: float,
    memory: float = MEMORY_BYTES,
    bytes_per_second: float = BYTES_PER_SECOND,
) -> Found:
    """That one stream of a model with so many weights reaches `rate` tokens per second."""
    half = weights * BFLOAT16_BYTES
    bytes_a_token = bytes_per_second / rate
    bits = 8 * bytes_a_token / weights
    fits = bits >= 8 * BFLOAT16_BYTES and half <= memory
    return with_condition(fits, bits >= COARSEST_BITS), {
        "half_gb": half / 1e9,
        "claimed_gb": claimed_memory / 1e9,
        "gb_a_token": bytes_a_token / 1e9,
        "tb_per_second": bytes_per_second / 1e12,
        "bits": bits,
        "full": theory.bandwidth_limit(min(claimed_memory, half), bytes_per_second),
    }


@rule
def bound_by_arithmetic(
    a: float = 0.8, K: int = 5, c: float = USUAL_COST_RATIO, ridge: float = RIDGE_TOKENS
) -> Found:
    """That speculation gains more where arithmetic is the limit than where memory is."""
    target, draft = ideal_curve(ridge), ideal_curve(ridge, c)
    by_memory = theory.batch_speedup(a, K, 1, target, draft)
    by_arithmetic = theory.batch_speedup(a, K, round(ridge), target, draft)
    found = {"checked": K + 1, "by_memory": by_memory, "by_arithmetic": by_arithmetic}
    return (HOLDS if by_arithmetic > by_memory else WRONG), found


@rule
def share_of_peak(
    low: float, high: float, context: int, weights: float, ridge: float = RIDGE_TOKENS
) -> Found:
    """That one row uses `low` to `high` of the arithmetic peak, whatever its context."""
    share = theory.peak_share(1, BFLOAT16_BYTES, FLOPS_PER_SECOND, BYTES_PER_SECOND)
    read, cache = weights * BFLOAT16_BYTES, context * LLAMA_8B_CACHE_BYTES
    empty, full, longest = (
        theory.bandwidth_limit(read, BYTES_PER_SECOND, cached) for cached in (0, cache, 16 * cache)
    )
    fits = low <= share <= high and full > (1 - TOLERANCE) * empty
    return with_condition(fits, low * ridge <= USUAL_ROWS), {
        "share": share,
        "low_rows": low * ridge,
        "high_rows": high * ridge,
        "long_context": 16 * context,
        "empty": empty,
        "full": full,
        "longest": longest,
        "lowered": 1 - full / empty,
        "lowered_most": 1 - longest / empty,
    }


@rule
def product_of_gains(
    low: float,
    rows: int,
    more: float,
    a: float = 0.8,
    K: int = 5,
    c: float = USUAL_COST_RATIO,
    ridge: float = RIDGE_TOKENS,
) -> Found:
    """That speculation and PagedAttention make `low` times naive decoding or more, where `rows` fit
    without it and `more` times as many with it.
    """
    target, draft = ideal_curve(ridge), ideal_curve(ridge, c)
    alone = theory.batch_speedup(a, K, 1, target, draft)
    paged = max(1, round(more * rows))
    paging = paged / rows * target.at(rows) / target.at(paged)
    speculating = theory.batch_speedup(a, K, paged, target, draft)
    product = paging * speculating
    reached = [gain >= (1 - TOLERANCE) * low for gain in (alone, product)]
    return with_condition(*reached), {
        "alone": alone,
        "paged": paged,
        "paging": paging,
        "speculating": speculating,
        "product": product,
        "paying": theory.largest_paying_batch(a, K, target, draft),
    }


@rule
def batches_and_drafts(
    a: float = 0.8, K: int = 5, c: float = USUAL_COST_RATIO, ridge: float = RIDGE_TOKENS
) -> Found:
    """Up to which batch it pays, and what a better and a cheaper draft gain."""
    better, cheaper = gains_of_a_tenth(a, K, c)
    return None, {
        "paying": theory.largest_paying_batch(a, K, ideal_curve(ridge), ideal_curve(ridge, c)),
        "now": theory.speedup(a, K, c),
        "better": better,
        "better_by": better - 1,
        "cheaper": cheaper,
        "cheaper_by": cheaper - 1,
    }


@rule
def first_token(before: float, after: float) -> Found:
    """Seconds to the first token; the share added."""
    extra = after / before - 1
    return None, {"extra": extra, "is_later": extra > 0}


@rule
def machines(
    tokens_per_day: float,
    rate: float,
    faster_rate: float,
    claimed_before: int,
    claimed_after: int,
    saved_a_year: float,
    first_token: tuple[float, float],
    peak: float = 1.0,
    price: float | None = None,
) -> Found:
    """That a load takes so many machines before and after, so as to keep the time to the first
    token (seconds before and after), and what that saves a year.

    `price` of a machine for an hour; without it the one behind the claim.
    """
    hours = (claimed_before - claimed_after) * DAYS_A_YEAR * HOURS_A_DAY
    behind = saved_a_year / hours
    paid = behind if price is None else price
    both = Machine(rate, paid), Machine(faster_rate, paid)

    def needed(peak: float) -> list[int]:
        return [daily_cost(Load(tokens_per_day, peak), each).machines for each in both]

    claimed = [claimed_before, claimed_after]
    peaks = [tenth / 10 for tenth in range(10, round(10 * HIGHEST_PEAK) + 1)]
    fitting = [peak for peak in peaks if needed(peak) == claimed]
    there = needed(peak)
    by_tokens = with_condition(there == claimed, bool(fitting))
    before, after = first_token
    by_first_token = math.ceil(claimed_before * after / before)  # machines as busy with prompts
    keeps = by_first_token <= claimed_after
    return (by_tokens if keeps else WRONG), {
        "load": Load(tokens_per_day).tokens_per_second,
        "busiest": Load(tokens_per_day).tokens_per_second * peak,
        "there": there,
        "saved": (there[0] - there[1]) * DAYS_A_YEAR * HOURS_A_DAY * paid,
        "paid": paid,
        "behind": behind,
        "before_ms": 1000 * before,
        "after_ms": 1000 * after,
        "by_first_token": by_first_token,
        "keeps": keeps,
        "least_peak": min(fitting, default=None),
        "highest_peak": max(fitting, default=None),
        "fits_at_a_peak": bool(fitting),
    }
