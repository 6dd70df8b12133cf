"""The answer to a plan: one sentence, the numbers behind it, and what was assumed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz import theory
from specviz.sizing.forward_time import GIGA, MAX_GPUS
from specviz.sizing.serving_plan import MAX_ROWS, ServingPlan
from specviz.sizing.sized_plan import DRAWN_ROWS, Memory, SizedPlan

PAYS = 1.05  # a smaller gain is none: nobody would see it, and the model errs by more
ASSUMED = (
    "Every guess is accepted with the same probability, independently of the others; real "
    "acceptance falls with depth and depends on the task.",
    "A forward takes as long as reading its weights and caches or as its arithmetic, whichever is "
    "longer, at 80 % of a GPU's peaks (70 % on a CPU), plus 25 microseconds a layer and 100 a "
    "forward.",
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
        "target": plan.target.title,
        "draft": None if plan.draft is None else plan.draft.title,
        "draft_length": K,
        "best_length": found.best_length(rows),
        "cost_ratio": found.cost_ratio(rows),
        "verification_overhead": found.verification_overhead(rows, K),
        "tokens_per_round": theory.expected_tokens(plan.acceptance, K),
        "speedup": found.speedup(rows, K),
        "break_even_acceptance": break_even(found),
        "paying_batches": found.paying_batches,
        "plain": asdict(found.speeds(rows, 0)),
        "speculative": asdict(found.speeds(rows, K)),
        "by_batch": [
            {"batch": each, "speedup": found.speedup(each, K), "fits": found.fits(each)}
            for each in DRAWN_ROWS
        ],
        "memory": [_memory(each) for each in found.memory(rows)],
        "fits": found.fits(rows),
        "largest_batch": found.largest_batch,
        "fewest_gpus": found.fewest_gpus,
        "weights": {
            "target_parameters": plan.target.parameters,
            "active_parameters": plan.target.active_parameters,
            "draft_parameters": None if plan.draft is None else plan.draft.parameters,
            "cache_bytes_per_token": found.target.context_bytes,
        },
        "goodput": {"plain": _goodput(found, 0), "speculative": _goodput(found, K)},
        "money": {"plain": _money(found, 0), "speculative": _money(found, K)},
        "assumed": list(ASSUMED),
    }


def verdict(found: SizedPlan) -> str:
    """`yes`, `no` (at no batch), `not here` (at other batches only), or `does not fit`."""
    if not found.fits(found.plan.batch):
        return "does not fit"
    if found.speedup(found.plan.batch, found.K) >= PAYS:
        return "yes"
    return "not here" if _best_batch(found)[0] >= PAYS else "no"


def _best_batch(found: SizedPlan) -> tuple[float, int]:
    """The highest speedup of the batches that fit, and the batch."""
    return max((found.speedup(rows, found.K), -rows) for rows in found.fitting(DRAWN_ROWS))


def sentence(found: SizedPlan) -> str:
    """The answer in one or two sentences, for somebody who reads nothing else."""
    here = f"{_gain(found, found.plan.batch)} at {_requests(found.plan.batch)}"
    match verdict(found):
        case "does not fit":
            return _does_not_fit(found)
        case "yes":
            return f"Yes: {here}. {_paying(found)}"
        case "not here":
            best = -_best_batch(found)[1]
            return (
                f"Not here: {here}. {_paying(found)} "
                f"The most is {_gain(found, best)}, at {_requests(best)}."
            )
    needed = break_even(found)
    if needed is None:
        return f"No: {here}. Its draft costs more than it can save."
    return (
        f"No: {here}, and no more at any number. It begins to pay there at an acceptance rate of "
        f"{needed:.2f}."
    )


def _gain(found: SizedPlan, rows: int) -> str:
    """With one digit behind the point, two where it is near 1.

    Of a mixture of experts that loses at one request this may well be below 1.
    """
    gain = found.speedup(rows, found.K)
    return f"about {gain:.1f}x" if gain >= 1.2 else f"about {gain:.2f}x"


def _paying(found: SizedPlan) -> str:
    least, most = found.paying_batches or (1, 1)
    start = "" if least == 1 else f"from {_requests(least)} "
    largest = min(MAX_ROWS, found.largest_batch)
    pays = f"With K = {found.K} it pays {start}up to"
    if most < largest:
        return f"{pays} {most:,}; above that it loses."
    reason = "the most that fit" if largest < MAX_ROWS else "the most looked at"
    return f"{pays} {largest:,}, {reason}."


def _requests(rows: int) -> str:
    return "1 request" if rows == 1 else f"{rows:,} requests at once"


def _does_not_fit(found: SizedPlan) -> str:
    worst = min(found.memory(found.plan.batch), key=lambda each: each.headroom)
    cards = "1 card" if worst.cards == 1 else f"{worst.cards} cards"
    said = (
        f"Does not fit: {_requests(found.plan.batch)} need {worst.used / GIGA:,.0f} GB on each of "
        f"{cards}, and {worst.limit / GIGA:,.0f} may be used."
    )
    if found.largest_batch:
        return f"{said} Room is for {_requests(found.largest_batch)}."
    draft = "Give the draft more cards, or a smaller one."
    if worst.target == 0:
        return f"{said} {draft}"
    needed = found.fewest_gpus
    if needed is None:
        return f"{said} {MAX_GPUS} of these cards do not hold it either."
    also = any(each.headroom < 0 for each in found.memory(found.plan.batch)[1:])
    return f"{said} {needed} of these cards hold it." + (f" {draft}" if also else "")


def break_even(found: SizedPlan) -> float | None:
    """The acceptance rate above which it pays at the plan's batch."""
    rows, K = found.plan.batch, found.K
    c, v = found.cost_ratio(rows), found.verification_overhead(rows, K)
    return theory.break_even_acceptance(K, c, v)


def _memory(each: Memory) -> dict[str, Any]:
    return asdict(each) | {"used": each.used, "headroom": each.headroom}


def _goodput(found: SizedPlan, K: int) -> dict[str, Any]:
    rows, rate = found.goodput(K)
    return {"batch": rows, "requests_per_second": rate}


def _money(found: SizedPlan, K: int) -> dict[str, Any]:
    cost = found.cost(found.plan.batch, K)
    return {
        "gpus": found.cards(K),
        "per_million_tokens": found.money_per_million(found.plan.batch, K),
        "copies_for_load": cost.machines,
        "gpus_for_load": cost.machines * found.cards(K),
        "per_day_for_load": cost.money,
    }
