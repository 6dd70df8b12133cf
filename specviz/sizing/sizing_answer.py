"""The whole answer to a plan as plain values: sentences, numbers and assumptions."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from specviz.sizing.carried_load import CarriedLoad
from specviz.sizing.plan_memory import Memory
from specviz.sizing.plan_warnings import plan_warnings
from specviz.sizing.published import n_gram_overheads
from specviz.sizing.serving_plan import ServingPlan
from specviz.sizing.sized_plan import DRAWN_ROWS, Policy, SizedPlan
from specviz.sizing.sizing_words import answer, break_even, gain_at, reasons, verdict

# The number of cached answers. Answers are cached because all students of a class may open the same
# link.
KEPT = 256
ASSUMED = (
    "Rounds are independent of each other. If a plan has a single acceptance rate, every guess is "
    "accepted with this probability. Real acceptance falls with depth and depends on the task, so "
    "the plan tries no K above the longest draft of a published run. Rates by position, and rates "
    "from a file, are used as they were measured, and no larger K is tried.",
    "The matrix multiplications of a forward take as long as reading the weights or as the "
    "arithmetic, whichever is longer. The same holds for attention, which reads the caches and "
    "runs after them. Both reach 80 % of the GPU's peak speeds (70 % on a CPU). Each layer adds 25 "
    "microseconds, and each forward 100.",
    "On several cards, every layer exchanges its activations twice. An exchange takes 10 "
    "microseconds over NVLink or 30 over PCIe, and the time to send the bytes at 80 % of the "
    "link's speed.",
    "Weights with fewer than 16 bits are assumed to be read at full speed. Kernels that unpack "
    "them are slower, so these computed times are too short.",
    "All requests are alike, and each is decoded at its own speed. The time that an engine's "
    "scheduler and the network add is not counted.",
)


def size(plan: ServingPlan) -> dict[str, Any]:
    """Return the whole answer to a plan as plain values. Units are seconds, bytes and tokens."""
    return deepcopy(_size(plan))


@lru_cache(maxsize=KEPT)
def _size(plan: ServingPlan) -> dict[str, Any]:
    sized = SizedPlan(plan)
    load = CarriedLoad(sized)
    rows, K = plan.batch, sized.K
    return {
        "answer": answer(sized, load),
        "reasons": list(reasons(sized, load)),
        "verdict": verdict(sized, load),
        "warnings": list(plan_warnings(plan)),
        "target": plan.target.title,
        "draft": None if plan.draft is None else plan.draft.title,
        "acceptance": plan.acceptance,
        "currency": plan.currency,
        "unit": plan.gpu.unit,
        "draft_length": K,
        "best_length": sized.best_length(rows),
        "lengths": [asdict(each) for each in sized.lengths],
        "cost_ratio": sized.cost_ratio(rows),
        "verification_overhead": sized.verification_overhead(rows, K),
        "tokens_per_round": sized.tokens(K),
        "draft_utilization": (sized.tokens(K) - 1) / K,
        "acceptance_per_position": list(sized.survival(K)),
        "speedup": sized.speedup(rows, K),
        "request_speedup": sized.request_speedup(rows, K),
        "break_even_acceptance": break_even(sized),
        "paying_batches": sized.paying_batches,
        "by_batch": [
            {
                "batch": each,
                "draft_length": sized.length(Policy.SPECULATIVE, each),
                "speedup": sized.speedup(each, sized.length(Policy.SPECULATIVE, each)),
                "request_speedup": gain_at(sized, each),
                "fits": sized.fits(each),
            }
            for each in DRAWN_ROWS
        ],
        "memory": [_memory(each) for each in sized.memory(rows)],
        "fits": sized.fits(rows),
        "largest_batch": sized.largest_batch(),
        "fewest_gpus": sized.fewest_gpus,
        "weights": {
            "target_parameters": plan.target.parameters,
            "active_parameters": plan.target.active_parameters,
            "draft_parameters": None if plan.draft is None else plan.draft.parameters,
            "cache_bytes_per_token": sized.target.context_bytes,
        },
        **{
            policy.value: _way(sized, load, policy) for policy in (Policy.PLAIN, Policy.SPECULATIVE)
        },
        "assumed": [*ASSUMED, n_gram_overheads()],
    }


def _way(sized: SizedPlan, load: CarriedLoad, policy: Policy) -> dict[str, Any]:
    """Return the numbers of one way of decoding: plain or speculative.

    The numbers are:

    - the speeds at the planned batch size
    - the batch size that serves most requests per second within both latency limits
    - the load that a deployment can serve when requests arrive at random
    - the GPUs and the money for the planned load
    - the batch job

    A number that does not exist is None.
    """
    rate, cost = load.rate(policy), load.cost(policy)
    job, price = sized.job(policy), sized.plan.price
    each_token = load.card_seconds_per_token(policy)
    return {
        **asdict(sized.speeds(sized.plan.batch, sized.length(policy, sized.plan.batch))),
        "cards": sized.cards(policy),
        "largest_batch": sized.largest_batch(policy),
        "seats": sized.seats(policy),
        "batch_within_limits": sized.goodput(policy)[0],
        "carried_requests": rate,
        "carried_tokens": rate * sized.plan.output,
        "card_hours_per_million": None if each_token is None else each_token * 1e6 / 3600,
        "money_per_million": _money(each_token, price, 1e6 / 3600),
        "cards_for_load": load.cards(policy),
        "money_a_day_for_load": None if cost is None or price is None else cost.money,
        "job_batch": None if job is None else job.rows,
        "job_seconds": None if job is None else job.seconds,
        "job_money": _money(None if job is None else job.card_hours, price),
    }


def _money(cards: float | None, price: float | None, times: float = 1.0) -> float | None:
    return None if cards is None or price is None else cards * price * times


def _memory(each: Memory) -> dict[str, Any]:
    return asdict(each) | {"used": each.used, "headroom": each.headroom}
