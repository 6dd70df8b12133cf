"""The rules that judge a claim by measured results.

A rule takes one JSON-ready result per setting of the claim, and the claim's own numbers. It returns
a verdict, and the values for the claim's sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from specviz.claims.claim import ClaimVerdict, MeasuredRule, Result, Spread
from specviz.claims.output_distributions import EXACT
from specviz.claims.sentences import Values
from specviz.claims.theory_rules import (
    HOT,
    TOLERANCE,
    agrees,
    combined,
    cost_ratio,
    gains_of_a_tenth,
)
from specviz.metrics.measured_costs import wilson_interval

Point = dict[str, Any]
Part = bool | None  # whether a part of a claim is right; None if it is neither right nor refuted
Results = Sequence[Result]
Found = tuple[ClaimVerdict, dict[str, Any]]
HOLDS, CONDITIONAL, WRONG = ClaimVerdict.HOLDS, ClaimVerdict.CONDITIONAL, ClaimVerdict.WRONG
UNDECIDED = ClaimVerdict.UNDECIDED

RULES: dict[str, MeasuredRule] = {}


def rule(made: MeasuredRule) -> MeasuredRule:
    """Register a function as a rule, under the function's name."""
    RULES[made.__name__] = made
    return made


# ---- functions that combine the parts of a claim into a verdict


def combined_sizes(parts: Sequence[Part]) -> ClaimVerdict:
    """Return the verdict on a claim whose parts say how large gains are.

    The verdict is never WRONG, because our numbers cannot refute numbers from another machine.
    """
    verdict = combined(parts)
    return CONDITIONAL if verdict is WRONG else verdict


def pays(measured: Point) -> Part:
    """Return True if every repeat has a speedup above 1, False if every one is below 1.

    Otherwise the result is None.
    """
    low, high = measured["speedup_spread"]
    return True if low > 1 else False if high < 1 else None


def loses(measured: Point) -> Part:
    """Return True if every repeat has a speedup below 1, False if every one is above 1.

    Otherwise the result is None.
    """
    part = pays(measured)
    return None if part is None else not part


def faster(one: Point, other: Point) -> Part:
    """Return True if `one` gains more in every repeat than `other` in any repeat.

    The result is False if `other` gains more in every repeat, and None if the repeats overlap.
    """
    if one["speedup_spread"][0] > other["speedup_spread"][1]:
        return True
    return False if one["speedup_spread"][1] < other["speedup_spread"][0] else None


def inside(low: float, high: float, measured: Point) -> Part:
    """Return True if all repeats are inside a range of speedups, False if all are outside it.

    The range is extended by a tenth at both ends. If some repeats are inside and some outside, the
    result is None.
    """
    low, high = (1 - TOLERANCE) * low, (1 + TOLERANCE) * high
    least, most = measured["speedup_spread"]
    if low <= least and most <= high:
        return True
    return False if most < low or least > high else None


def near(value: float, low: float, high: float) -> Part:
    """Return True if the range `low` to `high` is entirely within a tenth of `value`.

    The result is False if the range is entirely outside, and None if it is partly within.
    """
    least, most = (1 - TOLERANCE) * value, (1 + TOLERANCE) * value
    if least <= low and high <= most:
        return True
    return False if high < least or low > most else None


# ---- functions that read values from results


def point(grid: Result, axis: str, value: Any) -> Point:
    """Return the point of a sweep at which the axis has this value."""
    (found,) = (each for each in grid["points"] if each["setting"][axis] == value)
    return dict(found)


def rate(measured: Point) -> float:
    """Return the acceptance rate; 0 if no guess was examined."""
    return measured["acceptance_rate"] or 0.0


def examined(measured: Point) -> int:
    """Return how many levels of draft trees were examined in all rounds together."""
    return int(sum(depth["reached"] for depth in measured["acceptance_by_depth"]))


def rate_interval(measured: Point) -> tuple[float, float]:
    """Return the 95 % interval of the acceptance rate (Wilson)."""
    return wilson_interval(rate(measured), examined(measured))


def accepted_a_round(measured: Point) -> float:
    passed = sum(depth["passed"] for depth in measured["acceptance_by_depth"])
    return float(passed / measured["rounds"])


def is_lossless(exact: Result) -> bool:
    """Return whether the test found that the output follows the target's distribution."""
    return bool(exact["verdict"] == "lossless")


def at_temperature(found: Result, temperature: float) -> Result:
    (there,) = (each for each in found["distributions"] if each["temperature"] == temperature)
    return dict(there)


# ---- values under the names that sentences and tables use


def shown(measured: Point, **others: Any) -> dict[str, Any]:
    """Return the values of a measured point under the names that sentences and tables use.

    A point is one setting of a sweep, or one batch size. The speedup and the acceptance rate are
    each a `Spread`.
    """
    speedup = Spread(measured["speedup"], tuple(measured["speedup_spread"]))
    values = {**measured, **measured.get("setting", {}), "speedup": speedup, **others}
    if "acceptance_by_depth" in measured:
        values["acceptance"] = Spread(rate(measured), rate_interval(measured))
    return values


def over(values: Sequence[float]) -> Spread:
    """Return the median of several measured values, with the smallest and the largest of them."""
    return Spread(median(values), (min(values), max(values)))


def exactness(exact: Result) -> dict[str, Any]:
    """Return the verdict, the output's distance from the target, and the distance by chance.

    The last number is the distance of equally many exact samples.
    """
    by_chance = Spread(exact["noise_floor"], (0.0, exact["noise_ceiling"]))
    return {
        "exactness": exact["verdict"],
        "distance": exact["total_variation"],
        "chance": by_chance,
    }


def sorted_by_part(names: Iterable[str], parts: Sequence[Part]) -> dict[str, list[str]]:
    """Return the names of a claim's right parts (`within`) and of its refuted parts (`outside`)."""
    pairs = list(zip(names, parts, strict=True))
    return {
        "within": [name for name, part in pairs if part is True],
        "outside": [name for name, part in pairs if part is False],
    }


# ---- rules for claims that derive a speedup from the number of drafted or accepted tokens


@rule
def accepted_is_speedup(results: Results, numbers: Values) -> Found:
    """Test at K = 5 whether a x K tokens are accepted per round, and whether this is the speedup.

    a is the acceptance rate.
    """
    five = point(results[0], "draft-length", 5)
    accepted, product = accepted_a_round(five), 5 * rate(five)
    parts = [agrees(product, accepted), agrees(accepted, five["speedup"])]
    found = {"product": product, "accepted": accepted, "five": shown(five)}
    return combined(parts), found


@rule
def product_is_speedup(results: Results, numbers: Values) -> Found:
    """Test at K = 4 whether the speedup is K x a, with the acceptance rate a."""
    four = point(results[0], "draft-length", 4)
    product = 4 * rate(four)
    found = {"product": product, "four": shown(four)}
    return combined_sizes([inside(product, product, four)]), found


@rule
def round_is_speedup(results: Results, numbers: Values) -> Found:
    """Test the two assumptions of a claim about the speedup of a round.

    The claim assumes that 5 tokens are drafted as fast as 1. It also assumes that a round emits
    only accepted drafts, but the target adds one more token.
    """
    one, five = (point(results[0], "draft-length", length) for length in (1, 5))
    times = (five["draft_seconds"] / five["rounds"]) / (one["draft_seconds"] / one["rounds"])
    accepted = accepted_a_round(five)
    parts = [times < 2, agrees(accepted, five["block_efficiency"])]
    return combined(parts), {"times": times, "accepted": accepted, "five": shown(five)}


@rule
def ladder(results: Results, numbers: Values) -> Found:
    """Test whether each task's speedup is the one that the claim gives for its acceptance rate."""
    points = results[0]["points"]
    claimed = [on_ladder(numbers["steps"], rate(each)) for each in points]
    parts = [inside(line, line, each) for line, each in zip(claimed, points, strict=True)]
    found = [shown(each, line=line) for line, each in zip(claimed, points, strict=True)]
    return combined_sizes(parts), {"points": found}


def on_ladder(steps: Sequence[tuple[float, float]], acceptance: float) -> float:
    """Return the claimed speedup at this acceptance rate, interpolated between the claim's pairs.

    `steps` are three pairs of an acceptance rate and a speedup, the highest acceptance rate first.
    """
    (top, most), (middle, some), (low, least) = steps
    if acceptance <= middle:
        return least + (acceptance - low) * (some - least) / (middle - low)
    return some + (acceptance - middle) * (most - some) / (top - middle)


@rule
def product_is_tokens(results: Results, numbers: Values) -> Found:
    """Test at K = 4 whether a round gives a x K + 1 tokens.

    The claim does not say whether `a` is the accepted share of all drafted tokens or of the
    examined ones, so the rule tests both.
    """
    four = point(results[0], "draft-length", 4)
    tokens = four["block_efficiency"]
    shares = (
        (four["draft_utilization"] or 0.0, 4 * four["rounds"]),
        (rate(four), examined(four)),
    )
    drafted, seen = (
        Spread(4 * share + 1, tuple(4 * end + 1 for end in wilson_interval(share, count)))  # type: ignore[arg-type]
        for share, count in shares
    )
    found = {"tokens": tokens, "drafted": drafted, "seen": seen}
    return combined([near(tokens, *drafted.ends), near(tokens, *seen.ends)]), found


@rule
def costs_behind_rates(results: Results, numbers: Values) -> Found:
    """Test whether K = 8 is faster than K = 5.

    Also compute the cost ratio c that explains each of the two speedups.
    """
    five, eight = (point(results[0], "draft-length", length) for length in (5, 8))
    return combined_sizes([faster(eight, five)]), {
        "five": shown(five),
        "eight": shown(eight),
        "cost_of_five": cost_ratio(five["block_efficiency"], five["speedup"], 5),
        "cost_of_eight": cost_ratio(eight["block_efficiency"], eight["speedup"], 8),
    }


# ---- rules for claims about the acceptance rule, and about what keeps the output's distribution


@rule
def matching(results: Results, numbers: Values) -> Found:
    """Test whether min(1, p/q) accepts only drafts with p = q, at temperatures 0 and 1."""

    def is_all(found: Result) -> bool:
        both = zip(found["overlap"], found["equal_mass"], strict=True)
        return all(accepted - equal < EXACT for accepted, equal in both)

    found = at_temperature(results[0], 1.0)
    accepted, equal = found["overlap"], found["equal_mass"]
    parts = [is_all(at_temperature(results[0], each)) for each in (0.0, 1.0)]
    return combined(parts), {
        "count": len(accepted),
        "accepted": over(accepted),
        "equal": over(equal),
        "least_accepted": min(accepted),
        "most_equal": max(equal),
    }


@rule
def resampling(results: Results, numbers: Values) -> Found:
    """Test whether the output follows p if a rejected token is drawn from p again."""
    greedy, sampled = (at_temperature(results[0], each)["resampled_from_p"] for each in (0.0, 1.0))
    parts = [max(greedy) < EXACT, max(sampled) < EXACT]
    return combined(parts), {"greedy": over(greedy), "biased": over(sampled)}


@rule
def longest_path(results: Results, numbers: Values) -> Found:
    """Test whether the output follows p if two siblings are examined independently."""
    greedy, sampled = (at_temperature(results[0], each)["two_siblings"] for each in (0.0, 1.0))
    parts = [max(greedy) < EXACT, max(sampled) < EXACT]
    return combined(parts), {"greedy": over(greedy), "sampled": over(sampled)}


@rule
def shared_tokenizer(results: Results, numbers: Values) -> Found:
    """Test whether a draft with another tokenizer fails: it is lossy, or never accepted."""
    exact, grid = results
    other = point(grid, "method", "cross-vocabulary")
    works = is_lossless(exact) and rate(other) > 0
    return (WRONG if works else HOLDS), {"other": shown(other), **exactness(exact)}


@rule
def temperature(results: Results, numbers: Values) -> Found:
    """Test whether speculation is lossy at temperature 1.5.

    Also test whether it is slower than plain decoding from temperature 1 on.
    """
    overlaps, exact, grid = results
    hot = [each for each in grid["points"] if each["setting"]["temperature"] >= HOT]
    parts = [not is_lossless(exact), *map(loses, hot)]
    return combined(parts), {
        **exactness(exact),
        "overlaps": [
            {"temperature": each["temperature"], "overlap": over(each["overlap"])}
            for each in overlaps["distributions"]
        ],
        "points": [shown(each) for each in hot],
    }


# ---- rules for claims about programs


@rule
def draft_length_used(results: Results, numbers: Values) -> Found:
    """Test whether K as an argument has the same effect as K in the assistant's configuration."""
    lengths, forwards = results[0]["lengths"], results[0]["target_forwards"]
    by_argument, by_config = forwards["argument"], forwards["config"]
    if len(set(by_config)) == 1:
        verdict = UNDECIDED
    elif by_argument == by_config:
        verdict = HOLDS
    else:
        verdict = WRONG if len(set(by_argument)) == 1 else CONDITIONAL
    counted = [
        {"length": length, "how": how, "count": count}
        for how, counts in forwards.items()
        for length, count in zip(lengths, counts, strict=True)
    ]
    found = {"lengths": lengths, "by_argument": by_argument, "by_config": by_config}
    return verdict, {**found, "counted": counted}


@rule
def order_of_blocks(results: Results, numbers: Values) -> Found:
    """Test whether the baseline is faster in its second block of measurements than in its first.

    Both blocks run the same baseline, so only their order or chance can make their speeds differ.
    """
    ratios = results[0]["noise"]
    if min(ratios) <= 1 <= max(ratios):
        # Both blocks are warm here, and their order has no effect. It matters if the first is cold.
        verdict = CONDITIONAL
    else:
        verdict = WRONG if min(ratios) > 1 + TOLERANCE else UNDECIDED
    return verdict, {"ratio": over(ratios)}


# ---- rules for claims about when to use which method, and how much it gains


@rule
def usual_mistakes(results: Results, numbers: Values) -> Found:
    """Test whether another tokenizer or a long prompt lowers the gain and keeps the text exact."""
    by_vocabulary, by_prompt, exact = results
    same, other = (
        point(by_vocabulary, "method", name) for name in ("draft-model", "cross-vocabulary")
    )
    short, long = by_prompt["points"][0], by_prompt["points"][-1]
    parts = [faster(same, other), faster(short, long), is_lossless(exact)]
    points = {"same": same, "other": other, "short": short, "long": long}
    return combined(parts), {
        "seen": parts.count(True),
        **{name: shown(each) for name, each in points.items()},
        **exactness(exact),
    }


@rule
def draft_model_or_heads(results: Results, numbers: Values) -> Found:
    """Test whether a draft model is faster than plain decoding, and whether heads are.

    One of the two kinds of heads, Medusa or EAGLE, must be faster.
    """
    points = {each["setting"]["method"]: each for each in results[0]["points"]}
    heads = [pays(points[name]) for name in ("medusa", "eagle")]
    without = True if True in heads else None if None in heads else False
    found = {"points": [shown(each) for each in points.values()]}
    return combined([pays(points["draft-model"]), without]), found


@rule
def gains_by_task(results: Results, numbers: Values) -> Found:
    """Test the claimed order of the tasks, their acceptance rates and their speedups."""
    tasks: Mapping[str, tuple[float, float]] = numbers["tasks"]
    points = {each["setting"]["task"]: each for each in results[0]["points"]}
    order = sorted(points, key=lambda task: -rate(points[task]))
    intervals = [rate_interval(each) for each in points.values()]
    differ = max(low for low, _ in intervals) > min(high for _, high in intervals)
    claimed = sorted(tasks, key=lambda task: -tasks[task][0])
    most = [
        faster(points["summarise"], each) for name, each in points.items() if name != "summarise"
    ]
    sizes: list[Part] = [
        *(near(tasks[task][0], *rate_interval(each)) for task, each in points.items()),
        *(inside(tasks[task][1], tasks[task][1], each) for task, each in points.items()),
    ]
    parts: list[Part] = [
        order == claimed if differ else None,
        *sizes,
        False if False in most else None if None in most else True,
    ]
    return combined_sizes(parts), {
        "order": order,
        "claimed": claimed,
        "count": len(points),
        "right": sizes.count(True),
        "points": [shown(each) for each in points.values()],
    }


@rule
def gains_by_method(results: Results, numbers: Values) -> Found:
    """Test whether the speedup of each method is in its claimed range."""
    methods: Mapping[str, tuple[float, float]] = numbers["methods"]
    points = {name: point(results[0], "method", name) for name in methods}
    parts = [inside(*methods[name], each) for name, each in points.items()]
    found = {"points": [shown(each) for each in points.values()]}
    return combined_sizes(parts), {**found, **sorted_by_part(points, parts)}


@rule
def gains_by_use(results: Results, numbers: Values) -> Found:
    """Test whether the speedup of each use, such as code or chat, is in its claimed range.

    Also test whether speculation is slower than plain decoding in a large batch.
    """
    by_task, by_lookup, batches = results
    grids = (by_task, "code"), (by_task, "story"), (by_lookup, "summarise")
    points = [point(grid, "task", task) for grid, task in grids]
    uses: Mapping[str, tuple[float, float]] = numbers["uses"]
    parts = [inside(*uses[name], each) for name, each in zip(uses, points, strict=True)]
    (most,) = (each for each in batches["rows"] if each["batch_size"] == numbers["rows"])
    return combined_sizes([*parts, loses(most)]), {
        "points": [shown(each, name=name) for name, each in zip(uses, points, strict=True)],
        "most": shown(most),
        **sorted_by_part(uses, parts),
    }


# ---- rules for claims about when speculation must not be used


@rule
def thresholds(results: Results, numbers: Values) -> Found:
    """Test whether speculation is slower everywhere beyond the claim's thresholds."""
    by_temperature, by_output, by_vocabulary = results
    rarely = [
        shown(each, why="acceptance", axis=axis, at=value)
        for grid in results
        for each in grid["points"]
        for axis, value in each["setting"].items()
        if rate(each) < numbers["claimed_rate"]
    ]
    quick = point(by_output, "output-length", 49)
    is_quick = quick["baseline_ttft_seconds"] < numbers["seconds"]
    beyond = [
        shown(point(by_temperature, "temperature", 1.5), why="temperature", at=1.5),
        *(
            shown(point(by_output, "output-length", tokens), why="tokens", at=tokens)
            for tokens in (10, 25)
        ),
        shown(point(by_vocabulary, "method", "cross-vocabulary"), why="tokenizer"),
        *rarely,
        *([shown(quick, why="first_token")] if is_quick else []),
    ]
    losing = [loses(each) for each in beyond]
    return combined(losing), {
        "beyond": beyond,
        "losing": [each for each, lost in zip(beyond, losing, strict=True) if lost],
        "paying": [each for each, lost in zip(beyond, losing, strict=True) if lost is False],
    }


@rule
def short_answers(results: Results, numbers: Values) -> Found:
    """Test whether speculation is slower than plain decoding for all short answers."""
    points = results[0]["points"]
    found = [shown(each, tokens=each["setting"]["output-length"]) for each in points]
    return combined([loses(each) for each in points]), {"points": found}


# ---- rules for claims about what the hardware allows: arithmetic, batches, time to the first token


@rule
def bound_by_arithmetic(results: Results, numbers: Values) -> Found:
    """Test whether the largest batch gains more from speculation than a single sequence."""
    one, *_, most = results[0]["rows"]
    return combined([faster(most, one)]), _batches(results[0])


@rule
def product_of_gains(results: Results, numbers: Values) -> Found:
    """Test whether the largest batch has the same speedup as a single sequence.

    Also test whether speculation is faster than plain decoding in the largest batch.
    """
    one, *_, most = results[0]["rows"]
    (one_low, one_high), (low, high) = one["speedup_spread"], most["speedup_spread"]
    kept = near(1.0, low / one_high, high / one_low)
    found = {"kept": most["speedup"] / one["speedup"], **_batches(results[0])}
    return combined([kept, pays(most)]), found


@rule
def batches_and_drafts(results: Results, numbers: Values) -> Found:
    """Test whether speculation is slower than plain decoding in the largest batch.

    Also test whether a tenth more acceptance helps more than a draft that is a tenth cheaper.
    """
    batches, grid = results
    five = point(grid, "draft-length", 5)
    better, cheaper = gains_of_a_tenth(rate(five), 5, five["cost_ratio"] or 0.0)
    parts = [loses(batches["rows"][-1]), better > cheaper, five["drafter_bytes"] > 0]
    return combined(parts), {
        "five": shown(five, megabytes=five["drafter_bytes"] / 1e6),
        "better_by": better - 1,
        "cheaper_by": cheaper - 1,
        **_batches(batches),
    }


def _batches(batches: Result) -> dict[str, Any]:
    rows = [shown(each) for each in batches["rows"]]
    return {"batches": rows, "one": rows[0], "most": rows[-1]}


@rule
def share_of_peak(results: Results, numbers: Values) -> Found:
    """Test whether a plain step takes as long after a long prompt as after a short one."""
    short, long = results[0]["clocks"]
    before, after = short["step_seconds"], long["step_seconds"]
    slower = True if min(after) > max(before) else None
    same = True if max(after) <= (1 + TOLERANCE) * min(before) else None
    steps = [
        {
            "prompt_tokens": each["prompt_tokens"],
            "milliseconds": over([1000 * seconds for seconds in each["step_seconds"]]),
        }
        for each in (short, long)
    ]
    return combined([False if slower else same]), {"steps": steps}


@rule
def first_token(results: Results, numbers: Values) -> Found:
    """Test whether a tree delays the first token more than a chain, about as much as claimed."""
    chain, tree = (
        [
            mine / plain
            for mine, plain in zip(
                clock["ttft_seconds"], clock["baseline_ttft_seconds"], strict=True
            )
        ]
        for clock in results[0]["clocks"]
    )
    added = numbers["after"] / numbers["before"] - 1
    half = 1 + added / 2  # the limit of the test: halfway between no delay and the claimed delay
    adds = True if min(tree) > half * max(chain) else None
    if max(tree) < half * min(chain):
        adds = False
    return combined([adds]), {"chain": over(chain), "tree": over(tree)}
