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
    "Rounds are independent. Where an acceptance rate alone is given, every guess is accepted with "
    "that probability; real acceptance falls with depth and depends on the task, so no K "
    "beyond the deepest draft of a published run is considered. Rates by position, and those of a "
    "file, are used as measured, and no K beyond them is considered.",
    "A forward's matrix multiplications take as long as reading the weights or as their "
    "arithmetic, whichever is longer, and then its attention as long as reading the caches or as "
    "its arithmetic, at 80 % of a GPU's peaks (70 % on a CPU); 25 microseconds a layer and 100 a "
    "forward come on top.",
    "Over several cards every layer exchanges its activations twice, in 10 microseconds each over "
    "NVLink, 30 over PCIe, and the bytes at 80 % of the link's speed.",
    "Weights in fewer bits than 16 are taken to be read at full speed; kernels that unpack them "
    "are slower, so these times are too short.",
    "Requests are alike, and every one decodes by itself. What the engine's scheduler and its "
    "network add is not counted.",
)


def size(plan: ServingPlan) -> dict[str, Any]:
    """Return the whole answer to a plan as plain values. Units are seconds, bytes and tokens."""
    return deepcopy(_size(plan))


@lru_cache(maxsize=KEPT)
def _size(plan: ServingPlan) -> dict[str, Any]:
    found = SizedPlan(plan)
    load = CarriedLoad(found)
    rows, K = plan.batch, found.K
    return {
        "answer": answer(found, load),
        "reasons": list(reasons(found, load)),
        "verdict": verdict(found, load),
        "warnings": list(plan_warnings(plan)),
        "target": plan.target.title,
        "draft": None if plan.draft is None else plan.draft.title,
        "acceptance": plan.acceptance,
        "currency": plan.currency,
        "unit": plan.gpu.unit,
        "draft_length": K,
        "best_length": found.best_length(rows),
        "lengths": [asdict(each) for each in found.lengths],
        "cost_ratio": found.cost_ratio(rows),
        "verification_overhead": found.verification_overhead(rows, K),
        "tokens_per_round": found.tokens(K),
        "draft_utilization": (found.tokens(K) - 1) / K,
        "acceptance_per_position": list(found.survival(K)),
        "speedup": found.speedup(rows, K),
        "request_speedup": found.request_speedup(rows, K),
        "break_even_acceptance": break_even(found),
        "paying_batches": found.paying_batches,
        "by_batch": [
            {
                "batch": each,
                "draft_length": found.length(Policy.SPECULATIVE, each),
                "speedup": found.speedup(each, found.length(Policy.SPECULATIVE, each)),
                "request_speedup": gain_at(found, each),
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
        **{
            policy.value: _way(found, load, policy) for policy in (Policy.PLAIN, Policy.SPECULATIVE)
        },
        "assumed": [*ASSUMED, n_gram_overheads()],
    }


def _way(found: SizedPlan, load: CarriedLoad, policy: Policy) -> dict[str, Any]:
    """Return the numbers of one way of decoding: plain or speculative.

    The numbers are the speeds at the planned batch, the batch size that serves most requests per
    second within both latency limits, the load that a deployment can serve when requests arrive at
    random, the GPUs and money for the planned load, and the batch job. A number that does not exist
    is None.
    """
    rate, cost = load.rate(policy), load.cost(policy)
    job, price = found.job(policy), found.plan.price
    each_token = load.card_seconds_per_token(policy)
    return {
        **asdict(found.speeds(found.plan.batch, found.length(policy, found.plan.batch))),
        "cards": found.cards(policy),
        "largest_batch": found.largest_batch(policy),
        "seats": found.seats(policy),
        "batch_within_limits": found.goodput(policy)[0],
        "carried_requests": rate,
        "carried_tokens": rate * found.plan.output,
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
