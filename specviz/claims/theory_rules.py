"""The rules that judge a claim by theory.

A rule takes a claim's numbers by name. It returns a verdict, and the values for the claim's
sentence. Defaults replace what a claim does not say: K, a typical cost ratio, an H100. All rules
assume that each token is accepted independently of the others.
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

# A computed value agrees with a claimed one if they differ by at most this share of the claimed
# value.
TOLERANCE = 0.1
# The cost ratio c for a claim that names none: a draft forward takes a tenth of a target forward.
USUAL_COST_RATIO = 0.1
# Claimed numbers can belong to the same draft only if the cost ratios c that they imply differ by
# at most this.
SAME_COST = 0.1
# Cost ratios c of typical pairs of models, from 0.02 to 0.3.
USUAL_COST_RATIOS = tuple(step / 200 for step in range(4, 61))

# Peak arithmetic (dense bfloat16), memory bandwidth and memory of an NVIDIA H100 (data sheet)
H100 = GPUS["h100-sxm"]
FLOPS_PER_SECOND = H100.bf16 * TERA
BYTES_PER_SECOND = H100.bandwidth * GIGA
MEMORY_BYTES = H100.memory * GIGA
BFLOAT16_BYTES = 2
# The number of tokens in a forward above which arithmetic takes longer than reading the weights.
# Each token needs 2 FLOP for each weight of 2 bytes, so 1 FLOP per byte that is read.
RIDGE_TOKENS = FLOPS_PER_SECOND / BYTES_PER_SECOND
# The largest number of sequences in a server's batch, unless a claim gives another.
USUAL_ROWS = 256
COARSEST_BITS = 4.0  # fewest bits per weight in common quantised checkpoints
Q4_K_M_BITS = PRECISIONS["q4_k_m"]
LLAMA_8B_CACHE_BYTES = BFLOAT16_BYTES * MODELS["llama-3-1-8b"].cache_values_per_token

DAYS_A_YEAR = 365
HIGHEST_PEAK = 10.0  # largest examined ratio of the busiest hour's load to the mean load
HOT = 1.0  # the lowest temperature that counts as high

RULES: dict[str, TheoryRule] = {}


def rule(made: TheoryRule) -> TheoryRule:
    """Register a function as a rule, under the function's name."""
    RULES[made.__name__] = made
    return made


# ---- helpers that compute what follows from a claim's numbers


def combined(parts: Sequence[bool | None]) -> ClaimVerdict:
    """Return the verdict on a claim from its parts: right (True), refuted (False), open (None).

    >>> combined([True, False, None]).value, combined([True, None]).value
    ('holds under conditions', 'undecided')
    """
    if True in parts and False in parts:
        return CONDITIONAL
    if None in parts or not parts:
        return ClaimVerdict.UNDECIDED
    return HOLDS if True in parts else WRONG


def agrees(claimed: float, found: float) -> bool:
    """Return whether the computed value is within a tenth of the claimed one.

    >>> agrees(4, 3.69), agrees(4, 2.69)
    (True, False)
    """
    return abs(found - claimed) <= TOLERANCE * abs(claimed)


def some_usual_cost(fits: Callable[[float], bool]) -> bool:
    """Return whether the claim's numbers agree with each other for some typical cost ratio c.

    A claim that names no c counts as right if it is right for one of USUAL_COST_RATIOS. All other
    conditions must be named in the claim.

    >>> some_usual_cost(lambda c: agrees(3.0, 4 / (1 + 5 * c)))
    True
    """
    return any(map(fits, USUAL_COST_RATIOS))


def cost_ratio(tokens: float, speedup: float, K: int) -> float:
    """Return the cost ratio c at which `tokens` per round give this speedup.

    Verifying K tokens is assumed to cost no more than a forward of one token.

    >>> round(cost_ratio(3.69, 2.46, 5), 2)
    0.1
    """
    return (tokens / speedup - 1) / K


def needed_acceptance(speedup: float, K: int, c: float) -> float | None:
    """Return the acceptance rate that gives this speedup (>= 1), or None if none does.

    >>> round(needed_acceptance(2.46, 5, 0.1) or 0, 2)
    0.8
    """
    return theory.break_even_acceptance(K, 0.0, speedup * theory.round_cost(K, c) - 1)


def short_output_speedup(tokens: int, a: float, K: int, c: float) -> float:
    """Return a lower bound of the mean speedup for an answer of `tokens` tokens.

    The prefill gives the first token, so M = tokens - 1 remain. A round gives T tokens on average,
    and the last round gives up to K tokens more than are needed. By Wald's identity the mean number
    of rounds is therefore at most (M + K) / T, and the speedup at least M / (M + K) times
    `theory.speedup`. The time of the prefill does not count, because both ways of decoding need it.

    >>> round(short_output_speedup(49, 0.8, 5, 0.1), 2)
    2.23
    """
    left = tokens - 1
    return theory.speedup(a, K, c) * left / (left + K)


def whole_speedup(speedup: float, prefill_share: float) -> float:
    """Return the speedup of a whole request, whose prefill does not become faster (Amdahl).

    `speedup` is that of decoding, and `prefill_share` is the prefill's share of the request's time
    in plain decoding.

    >>> round(whole_speedup(2.0, 0.5), 2)
    1.33
    """
    return 1 / (prefill_share + (1 - prefill_share) / speedup)


def ideal_curve(tokens_per_read: float, seconds: float = 1.0) -> ForwardCurve:
    """Return the curve of an ideal forward: its time for each number of tokens.

    The forward reads its weights in `seconds`. Up to `tokens_per_read` tokens, the arithmetic takes
    no longer than this reading; for more tokens, the time is proportional to their number.
    """
    ridge = round(tokens_per_read)
    return ForwardCurve((1, ridge, 2 * ridge), (seconds, seconds, 2 * seconds))


def gains_of_a_tenth(a: float, K: int, c: float) -> tuple[float, float]:
    """Return how much the speedup grows if acceptance rises, or the draft's cost falls, by a tenth.

    Both results are new / old speedup: 1.05 means a speedup that is 5 % higher.
    """
    now = theory.speedup(a, K, c)
    return (
        theory.speedup(min(1.0, (1 + TOLERANCE) * a), K, c) / now,
        theory.speedup(a, K, (1 - TOLERANCE) * c) / now,
    )


def together(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict that all parts of a claim have in common, otherwise CONDITIONAL.

    >>> together([ClaimVerdict.WRONG, ClaimVerdict.HOLDS]).value
    'holds under conditions'
    """
    return verdicts[0] if len(set(verdicts)) == 1 else CONDITIONAL


def with_condition(is_right: bool, is_right_under_a_condition: bool) -> ClaimVerdict:
    """Return HOLDS for a claim that is right as stated, otherwise CONDITIONAL or WRONG.

    CONDITIONAL means that it is right only under a condition that it does not name.
    """
    if is_right:
        return HOLDS
    return CONDITIONAL if is_right_under_a_condition else WRONG


# ---- rules for claims that derive a speedup from the number of drafted or accepted tokens


@rule
def accepted_is_speedup(
    a: float,
    K: int,
    claimed_accepted: float,
    claimed_speedup: float,
    practice: tuple[float, float],
    c: float = USUAL_COST_RATIO,
) -> Found:
    """Judge the claim that a x K tokens are accepted per round, and that this is the speedup.

    a is the acceptance rate. `practice` is the claim's range of speedups in practice.
    """
    tokens = theory.expected_tokens(a, K)

    def fits(emitted: float, cost: float) -> bool:
        """Return whether a round with these emitted tokens and this cost ratio fits the claim.

        One of the emitted tokens comes from the target, so it does not count as accepted.
        """
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
    """Judge the claim that the speedup is K x a, with the acceptance rate a.

    The draft has the cost ratio c and runs on one more GPU. The target runs on `gpus` GPUs.
    """
    tokens, speedup = theory.expected_tokens(a, K), theory.speedup(a, K, c)
    needed = cost_ratio(tokens, (1 - TOLERANCE) * claimed_speedup, K)
    # The target's GPUs read its weights at the same time, so a draft on one GPU costs `gpus` times
    # as much.
    apart = gpus * c
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
    """Judge the claim that a round with n accepted tokens is n times as fast as plain decoding.

    The claim assumes that a round drafts its tokens in parallel.
    """
    if accepted > K:
        raise InputError(f"accepted tokens must be at most K = {K}, got {accepted}")
    tokens = accepted + 1
    fitting = cost_ratio(tokens, claimed_speedup, K)
    fits = some_usual_cost(
        lambda cost: agrees(claimed_speedup, tokens / theory.round_cost(K, cost))
    )
    # The first part of the claim, drafting in parallel, is wrong: a draft model writes its tokens
    # one after the other.
    return combined([False, fits]), {
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
    """Judge the claimed speedups of `steps`, pairs of an acceptance rate and a speedup."""
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
    """Judge the claim that a target forward gives a x K + 1 tokens; a is the acceptance rate."""
    tokens, product = theory.expected_tokens(a, K), a * K + 1
    found = {
        "tokens": tokens,
        "product": product,
        "speedup": theory.speedup(a, K, c),
        "speedup_of_drafted": product / theory.round_cost(K, c),
    }
    return with_condition(agrees(claimed_tokens, tokens), agrees(claimed_tokens, product)), found


# ---- rules for claims about the acceptance rule, and about what keeps the output's distribution


def _exact_distance(p: Distribution, q: Distribution) -> float:
    """Return how far the output is from p if the residual replaces rejected tokens."""
    return outputs.total_variation(outputs.emitted(p, q, outputs.residual(p, q)), p)


def _at_temperature_0(p: Distribution) -> Distribution:
    """Return the distribution of greedy decoding: the most probable token is certain."""
    best = max(range(len(p)), key=lambda token: p[token])
    return tuple(float(token == best) for token in range(len(p)))


@rule
def matching(p: Distribution, q: Distribution) -> Found:
    """Judge the claim that only tokens with the same probability in both models are kept."""
    accepted, equal = outputs.overlap(p, q), outputs.equal_mass(p, q)
    greedy_p, greedy_q = _at_temperature_0(p), _at_temperature_0(q)
    missed = outputs.overlap(greedy_p, greedy_q) - outputs.equal_mass(greedy_p, greedy_q)
    found = {"accepted": accepted, "equal": equal, "exact": _exact_distance(p, q)}
    verdict = with_condition(abs(accepted - equal) < EXACT, missed < EXACT)
    return verdict, _with_texts(p, q, found)


@rule
def resampling(p: Distribution, q: Distribution) -> Found:
    """Judge the claim that the output still follows p if a rejected token is drawn from p again."""

    def biased(p: Distribution) -> float:
        return outputs.total_variation(outputs.emitted(p, q, p), p)

    greedy = biased(_at_temperature_0(p))
    found = {"biased": biased(p), "greedy": greedy, "exact": _exact_distance(p, q)}
    return with_condition(biased(p) < EXACT, greedy < EXACT), _with_texts(p, q, found)


@rule
def longest_path(p: Distribution, q: Distribution, after: Sequence[float]) -> Found:
    """Judge the claim that the longer of two independently accepted paths may be used.

    A path has two tokens. `after` holds, for each first token, the probability that the guess after
    it is accepted.
    """

    def biased(p: Distribution) -> float:
        return outputs.total_variation(outputs.emitted_of_longest(p, q, after), p)

    found = {"sampled": biased(p), "greedy": biased(_at_temperature_0(p))}
    verdict = with_condition(found["sampled"] < EXACT, found["greedy"] < EXACT)
    after_text = ", ".join(f"{each:g}" for each in after)
    return verdict, _with_texts(p, q, found) | {"after_text": f"({after_text})"}


@rule
def shared_tokenizer(p: Distribution, q: Distribution) -> Found:
    """Judge the claim that a draft model must have every token of the target's vocabulary."""
    distance, accepted = _exact_distance(p, q), outputs.overlap(p, q)
    shared = sum(mine for mine, theirs in zip(p, q, strict=True) if theirs > 0)
    found = {"distance": distance, "accepted": accepted, "shared": shared}
    works = distance < EXACT and accepted > 0
    return (WRONG if works else HOLDS), _with_texts(p, q, found)


def _with_texts(p: Distribution, q: Distribution, found: dict[str, float]) -> dict[str, Any]:
    """Return `found` together with p and q as texts, such as (0.6, 0.4)."""
    texts = ("(" + ", ".join(f"{each:g}" for each in one) + ")" for one in (p, q))
    return {**found, **dict(zip(("p_text", "q_text"), texts, strict=True))}


@rule
def temperature(
    logits: tuple[Sequence[float], Sequence[float]], temperatures: Sequence[float]
) -> Found:
    """Judge the claim that the temperature must be below 1.

    Overlap and exactness at several temperatures decide.
    """
    softened = [[outputs.softened(each, t) for each in logits] for t in temperatures]
    overlaps = [
        {"temperature": t, "overlap": outputs.overlap(p, q)}
        for t, (p, q) in zip(temperatures, softened, strict=True)
    ]
    distance = max(0.0, *(_exact_distance(p, q) for p, q in softened))
    hot = [each["overlap"] for each in overlaps if each["temperature"] >= HOT] or [0.0]
    works = distance < EXACT and min(hot) > 0
    return (WRONG if works else HOLDS), {"overlaps": overlaps, "distance": distance}


# ---- rules for claims about the meaning of a name, about programs and model cards


@rule
def rows_of_their_own(context: int, weights: float, K: int = 5) -> Found:
    """Judge the claim that each of K drafted tokens is scored as a sequence of its own.

    The values compare the bytes that are read from memory for K + 1 separate sequences and for one
    sequence. The weights are read once in both cases, but each sequence reads a KV cache of
    `context` tokens.
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
    """Return the acceptance rates above which self-drafting is faster than plain decoding.

    The draft is the target without some of its layers. `shares` are the shares of the target's
    layers that drafting uses; the result has one acceptance rate for each.
    """
    borders = ({"share": c, "border": theory.break_even_acceptance(K, c)} for c in shares)
    return WRONG, {"borders": [each for each in borders if each["border"] is not None]}


@rule
def layers_gained(shares: Sequence[float], a: float = 0.8, K: int = 5) -> Found:
    """Return the speedups of drafting with only some of the target's layers.

    `shares` are the shares of the target's layers that drafting uses.
    """
    return WRONG, {"gains": [{"share": c, "gain": theory.speedup(a, K, c)} for c in shares]}


@rule
def draft_length_used(asked: int, used: int, a: float = 0.8, c: float = USUAL_COST_RATIO) -> Found:
    """Return the speedup at the requested draft length, and at the one Transformers uses."""
    return WRONG, {
        "wanted": theory.speedup(a, asked, c),
        "got": theory.speedup(a, used, c),
        "best": theory.best_draft_length(a, c),
    }


@rule
def ratio_of_sums(baseline: Sequence[float], speculative: Sequence[float]) -> Found:
    """Return the speedup over several prompts by two ways of averaging.

    One way adds up the prompts' tokens per second, and the other way adds up their times. All
    prompts have the same number of tokens.
    """
    return WRONG, {
        "summed": sum(speculative) / sum(baseline),
        "timed": sum(1 / rate for rate in baseline) / sum(1 / rate for rate in speculative),
    }


@rule
def size_of_draft(said: float, weights: float, target: float, rejected: float, K: int = 5) -> Found:
    """Judge the claimed size `said` of a draft, in billions of weights.

    `weights` is the real size of the draft, and `target` the size of its target. A forward is
    assumed to take time in proportion to the weights that it reads. `rejected` is the rejected
    share of the drafted tokens.
    """
    tokens = (1 - rejected) * K + 1
    return (CONDITIONAL if agrees(said, weights) else WRONG), {
        "times": weights / said,
        "cost": weights / target,
        "cost_as_said": said / target,
        "speedup": tokens / theory.round_cost(K, weights / target),
        "speedup_as_said": tokens / theory.round_cost(K, said / target),
    }


# ---- rules for claims about when to use which method, and how much it gains


@rule
def whole_requests(speedup: float, prefill_shares: Sequence[float]) -> Found:
    """Judge a claim about whole requests, which has three parts.

    The claim says that speculation keeps the quality. It also says that speculation gains nothing
    for requests with a long prefill, and nothing with a draft of another model family.
    `prefill_shares` has, for several requests, the share of the request's time that the prefill
    takes.
    """
    gains = [{"share": s, "gain": whole_speedup(speedup, s)} for s in prefill_shares]
    most = gains[-1]["gain"]
    # The verdicts on long prefills, on the draft's model family, and on quality.
    parts = [HOLDS if agrees(1.0, most) else WRONG, CONDITIONAL, HOLDS]
    return together(parts), {"gains": gains, "most": most, "last_share": prefill_shares[-1]}


@rule
def prompt_caching(
    prefill_share: float, a: float = 0.8, K: int = 5, c: float = USUAL_COST_RATIO
) -> Found:
    """Return the gains of speculation and of prompt caching for one request.

    `prefill_share` is the share of the request's time that the prefill takes.
    """
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
    """Return the cost ratios c that the claimed numbers of `tasks` imply.

    The claim gives an acceptance rate and a speedup for each task.
    """
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
    """Return the acceptance rates that the claimed speedups of `methods` need.

    The claim gives the lowest and the highest speedup of each method. `published` are the speedups
    of the same methods in a published comparison.
    """
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
    """Return the acceptance rates that the claimed speedups of `uses` need.

    A use is a kind of request, such as code or chat. The claim gives the lowest and the highest
    speedup of each use.
    """
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


# ---- rules for claims about named pairs of models: what the sizes of target and draft allow


@rule
def named_pairs(pairs: Sequence[Mapping[str, Any]], K: int = 5) -> Found:
    """Judge the claimed speedups of named pairs by the sizes of their models.

    A pair has the billions of weights that a token uses, in the target and in the draft. It also
    has an acceptance rate, and perhaps a claimed range of speedups. A mixture of experts also has
    the number of all its weights, of its experts, and of the experts that a token uses.
    """
    reached: list[bool] = []
    found: list[dict[str, Any]] = []
    for pair in pairs:
        # A forward takes a time in proportion to the weights that it reads, so the sizes give the
        # cost ratio.
        a, c = pair["acceptance"], pair["draft"] / pair["target"]

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
    """Return the verification overhead v of a mixture of experts, or 0 for any other model.

    A forward of `tokens` tokens reads more experts than a forward of one token. v is the extra
    time, divided by the time of a forward of one token. Sizes are in billions: `target` are the
    weights that a token uses, `whole` are all weights.

    >>> mixtral = {"target": 12.9, "whole": 46.7, "experts": 8, "used": 2}
    >>> round(expert_overhead(mixtral, 6), 1), expert_overhead({"target": 1.0}, 6)
    (2.0, 0.0)
    """
    if "experts" not in pair:
        return 0.0
    experts, used = pair["experts"], pair["used"]
    one = (pair["whole"] - pair["target"]) / (experts - used)  # billions of weights of one expert
    return float((theory.touched_experts(experts, used, tokens) - used) * one / pair["target"])


@rule
def costs_behind_rates(
    baseline: float, runs: Sequence[tuple[int, float, float]], weights_ratio: float
) -> Found:
    """Judge the claimed rates of `runs` by the cost ratio that they imply.

    A run has K, its tokens per second, and the rejected share of its drafted tokens.
    """
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


# ---- rules for claims about when speculation must not be used


@rule
def thresholds(
    claimed_rate: float, few_tokens: int, cost_ratios: Sequence[float], K: int = 5
) -> Found:
    """Compute the break-even acceptance for several draft costs, and a short answer's speedup."""
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
    """Judge the claim that short answers gain nothing.

    `rate` (tokens per second), `seconds` and `claimed_speedup` are numbers in the claim.
    """
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


# ---- rules for claims about what the hardware allows: bandwidth, arithmetic, batches, machines


@rule
def bandwidth(
    rate: float,
    claimed_memory: float,
    weights: float,
    memory: float = MEMORY_BYTES,
    bytes_per_second: float = BYTES_PER_SECOND,
) -> Found:
    """Judge the claim that one stream of a model reaches `rate` tokens per second.

    `weights` is the model's number of weights.
    """
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
    """Judge the claim that speculation gains most if arithmetic, not memory, limits a forward."""
    target, draft = ideal_curve(ridge), ideal_curve(ridge, c)
    by_memory = theory.batch_speedup(a, K, 1, target, draft)
    by_arithmetic = theory.batch_speedup(a, K, round(ridge), target, draft)
    found = {"checked": K + 1, "by_memory": by_memory, "by_arithmetic": by_arithmetic}
    return (HOLDS if by_arithmetic > by_memory else WRONG), found


@rule
def share_of_peak(
    low: float, high: float, context: int, weights: float, ridge: float = RIDGE_TOKENS
) -> Found:
    """Judge the claim that decoding one sequence uses a share `low` to `high` of the peak FLOPS.

    The claim says so for every context length.
    """
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
    """Judge the claim that speculation with PagedAttention is at least `low` times as fast.

    The comparison is with naive decoding. `rows` sequences fit in memory without PagedAttention,
    and `more` times as many with it.
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
    """Return the largest batch in which speculation is faster than plain decoding.

    Also return the speedups with a tenth more acceptance, and with a draft that is a tenth cheaper.
    """
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
    """Return the relative growth of the time to the first token: 0.1 means 10 % longer."""
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
    """Judge how many machines speculation saves for a load, and how much money in a year.

    The claim gives the machines without and with speculation. `first_token` has the time to the
    first token in seconds, without and with speculation; this time must not grow. `price` is the
    price of a machine for an hour; by default it is the price that the claim implies.
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
    # The time to the first token changes from `before` to `after`. With this number of machines,
    # each machine spends the same share of its time on prompts as without speculation.
    by_first_token = math.ceil(claimed_before * after / before)
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
