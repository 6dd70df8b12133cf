"""The answer to a plan: one sentence, the numbers behind it, and what was assumed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz import theory
from specviz.sizing.forward_time import GIGA, MAX_GPUS
from specviz.sizing.plan_memory import Memory
from specviz.sizing.plan_warnings import plan_warnings
from specviz.sizing.published import n_gram_overheads
from specviz.sizing.serving_plan import MAX_ROWS, ServingPlan
from specviz.sizing.sized_plan import DRAWN_ROWS, Policy, SizedPlan

PAYS = 1.05  # a smaller gain is none: nobody would see it, and the model errs by more
ASSUMED = (
    "Every guess is accepted with the same probability, independently of the others; real "
    "acceptance falls with depth and depends on the task.",
    "A forward's matrix products take as long as reading the weights or as their arithmetic, "
    "whichever is longer, and then its attention as long as reading the caches or as its "
    "arithmetic, at 80 % of a GPU's peaks (70 % on a CPU); 25 microseconds a layer and 100 a "
    "forward come on top.",
    "Weights in fewer bits than 16 are taken to be read at full speed; kernels that unpack them "
    "are slower, so these times are too short.",
    "Requests are alike, and every one decodes by itself. What the engine's scheduler and its "
    "network add is not counted.",
)


def size(plan: ServingPlan) -> dict[str, Any]:
    """Everything that is said of a plan, as plain values; seconds, bytes and tokens."""
    found = SizedPlan(plan)
    rows, K = plan.batch, found.K
    return {
        "sentence": sentence(found),
        "verdict": verdict(found),
        "warnings": list(plan_warnings(plan)),
        "target": plan.target.title,
        "draft": None if plan.draft is None else plan.draft.title,
        "acceptance": plan.acceptance,
        "currency": plan.currency,
        "draft_length": K,
        "best_length": found.best_length(rows),
        "lengths": [asdict(each) for each in found.lengths],
        "cost_ratio": found.cost_ratio(rows),
        "verification_overhead": found.verification_overhead(rows, K),
        "tokens_per_round": theory.expected_tokens(plan.acceptance, K),
        "speedup": found.speedup(rows, K),
        "request_speedup": found.request_speedup(rows, K),
        "break_even_acceptance": break_even(found),
        "paying_batches": found.paying_batches,
        "by_batch": [
            {
                "batch": each,
                "draft_length": found.length(Policy.SPECULATIVE, each),
                "speedup": found.speedup(each, found.length(Policy.SPECULATIVE, each)),
                "request_speedup": _gain_at(found, each),
                "fits": found.fits(each),
            }
            for each in DRAWN_ROWS
        ],
        "memory": [_memory(each) for each in found.memory(rows)],
        "fits": found.fits(rows),
        "largest_batch": found.largest_batch(),
        "fewest_gpus": found.fewest_gpus,
        "weights": {
            "target_parameters": plan.target.parameters,
            "active_parameters": plan.target.active_parameters,
            "draft_parameters": None if plan.draft is None else plan.draft.parameters,
            "cache_bytes_per_token": found.target.context_bytes,
        },
        **{policy.value: _way(found, policy) for policy in (Policy.PLAIN, Policy.SPECULATIVE)},
        "assumed": [*ASSUMED, n_gram_overheads()],
    }


def _way(found: SizedPlan, policy: Policy) -> dict[str, Any]:
    """Of one way of decoding: speeds at the plan's batch, what a deployment carries within both
    limits, cards and money for the load, and the batch job. None is what cannot be said.
    """
    rows, rate = found.goodput(policy)
    cost, job, price = found.cost(policy), found.job(policy), found.plan.price
    each_token = found.card_seconds_per_token(policy)
    return {
        **asdict(found.speeds(found.plan.batch, found.length(policy, found.plan.batch))),
        "cards": found.cards(policy),
        "largest_batch": found.largest_batch(policy),
        "seats": found.seats(policy),
        "carried_batch": rows,
        "carried_requests": rate,
        "carried_tokens": rate * found.plan.output,
        "card_hours_per_million": None if each_token is None else each_token * 1e6 / 3600,
        "money_per_million": _money(each_token, price, 1e6 / 3600),
        "cards_for_load": None if cost is None else cost.machines * found.cards(policy),
        "money_a_day_for_load": None if cost is None or price is None else cost.money,
        "job_seconds": None if job is None else job.seconds,
        "job_money": _money(None if job is None else job.card_hours, price),
    }


def _money(cards: float | None, price: float | None, times: float = 1.0) -> float | None:
    return None if cards is None or price is None else cards * price * times


def verdict(found: SizedPlan) -> str:
    """`yes`, `no` (at no batch), `not here` (at other batches only), or `does not fit`."""
    if not found.fits(found.plan.batch):
        return "does not fit"
    if _gain_at(found, found.plan.batch) >= PAYS:
        return "yes"
    return "not here" if _best_batch(found)[0] >= PAYS else "no"


def _gain_at(found: SizedPlan, rows: int) -> float:
    """Of whole requests, with the K of so many."""
    return found.request_speedup(rows, found.length(Policy.SPECULATIVE, rows))


def _best_batch(found: SizedPlan) -> tuple[float, int]:
    """The highest speedup of the batches that fit, and the batch."""
    return max((_gain_at(found, rows), -rows) for rows in DRAWN_ROWS if found.fits(rows))


def sentence(found: SizedPlan) -> str:
    """The answer in two or three sentences, for somebody who reads nothing else."""
    match verdict(found):
        case "does not fit":
            return _does_not_fit(found)
        case "yes":
            return f"Yes: {_here(found)} {_paying(found)}{_carried(found)}"
        case "not here":
            best = -_best_batch(found)[1]
            return (
                f"Not here: {_here(found)} {_paying(found)} "
                f"The most is {times(_gain_at(found, best))}, at {_requests(best)}."
            )
    needed = break_even(found)
    end = (
        "The draft costs more than it can save."
        if needed is None
        else f"It gains no more at any number; a token begins to gain here at an acceptance rate "
        f"of {needed:.2f}."
    )
    return f"No: {_here(found)} {end}"


def _here(found: SizedPlan) -> str:
    """Whole requests first: a token's speedup leaves out the prompts."""
    rows = found.plan.batch
    plain, fast = found.speeds(rows, 0).request, found.speeds(rows, found.K).request
    return (
        f"at {_requests(rows)} a whole request takes {seconds(fast)} instead of {seconds(plain)}, "
        f"{times(plain / fast)} as fast; each token after its first comes "
        f"{times(found.speedup(rows, found.K))} as fast."
    )


def _carried(found: SizedPlan) -> str:
    """What a deployment does for its money, which may be less where each request is faster."""
    (_, plain), (_, fast) = (found.goodput(each) for each in (Policy.PLAIN, Policy.SPECULATIVE))
    costs = [found.card_seconds_per_token(each) for each in (Policy.PLAIN, Policy.SPECULATIVE)]
    if costs[0] is None or costs[1] is None:
        kept = "with speculation alone" if fast else "without it alone" if plain else "at no number"
        return f" Both your limits are kept {kept}."
    return (
        f" Within both your limits a deployment carries {fast:.1f} requests a second instead of "
        f"{plain:.1f}, so a token costs {costs[1] / costs[0]:.2f} times as much."
    )


def times(gain: float) -> str:
    """With one digit behind the point, two where it is near 1.

    >>> times(2.04), times(1.04)
    ('2.0x', '1.04x')
    """
    return f"{gain:.1f}x" if gain >= 1.2 else f"{gain:.2f}x"


def seconds(value: float) -> str:
    """
    >>> seconds(0.0421), seconds(3.27), seconds(412)
    ('42 ms', '3.27 s', '6.9 min')
    """
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 100:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    return f"{value / 60:.1f} min"


def _paying(found: SizedPlan) -> str:
    least, most = found.paying_batches or (1, 1)
    start = "" if least == 1 else f"from {_requests(least)} "
    largest = min(MAX_ROWS, found.largest_batch())
    pays = f"{_lengths(found, least, min(most, largest))} it pays {start}up to"
    if most < largest:
        return f"{pays} {most:,}; above that it loses."
    reason = "the most that fit" if largest < MAX_ROWS else "the most looked at"
    return f"{pays} {largest:,}, {reason}."


def _lengths(found: SizedPlan, least: int, most: int) -> str:
    if found.plan.draft_length:
        return f"With K = {found.K}"
    used = {
        each.K for each in found.lengths if each.K and least <= each.last and each.first <= most
    }
    low, high = min(used), max(used)
    span = f"K = {low}" if low == high else f"K from {low} to {high}, the best for each number,"
    return f"With {span}"


def _requests(rows: int) -> str:
    return "1 request" if rows == 1 else f"{rows:,} requests at once"


def _does_not_fit(found: SizedPlan) -> str:
    worst = min(found.memory(found.plan.batch), key=lambda each: each.headroom)
    cards = "1 card" if worst.cards == 1 else f"{worst.cards} cards"
    said = (
        f"Does not fit: {_requests(found.plan.batch)} need {worst.used / GIGA:,.0f} GB on each of "
        f"{cards}, and {worst.limit / GIGA:,.0f} may be used."
    )
    if found.largest_batch():
        return f"{said} Room is for {_requests(found.largest_batch())}."
    draft = "Give the draft more cards, or a smaller one."
    if worst.target == 0:
        return f"{said} {draft}"
    needed = found.fewest_gpus
    if needed is None:
        return f"{said} {MAX_GPUS} of these cards do not hold it either."
    also = any(each.headroom < 0 for each in found.memory(found.plan.batch)[1:])
    return f"{said} {needed} of these cards hold it." + (f" {draft}" if also else "")


def break_even(found: SizedPlan) -> float | None:
    """The acceptance rate above which a token gains at the plan's batch."""
    rows, K = found.plan.batch, found.K
    c, v = found.cost_ratio(rows), found.verification_overhead(rows, K)
    return theory.break_even_acceptance(K, c, v)


def _memory(each: Memory) -> dict[str, Any]:
    return asdict(each) | {"used": each.used, "headroom": each.headroom}
