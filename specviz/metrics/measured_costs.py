"""What theory says of a run at its own measured costs: c, v and the speedup that follows.

Knows the sums over rounds and what a baseline step takes; no record, no lane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specviz import theory
from specviz.metrics.round_totals import RoundTotals
from specviz.metrics.run_summary import TheoryBand


@dataclass(frozen=True, slots=True)
class Costs:
    """c and v of `theory`, in baseline steps.

    c: mean time to draft one level of the tree; the drafter's reading of the prompt, once in a run,
    is no part of it, as the prefill is none of a step. v: what a round takes beyond drafting and
    one step, host time included; noise can make it negative, it is then 0.
    """

    c: float
    v: float


def measured_costs(totals: RoundTotals, step_seconds: float) -> Costs | None:
    """Costs of rounds against baseline steps of `step_seconds` each; None without either."""
    if not totals.rounds or not step_seconds > 0:
        return None
    levels = sum(length * rounds for length, rounds in totals.rounds_by_draft_length.items())
    level_seconds = totals.draft_seconds / levels if levels else 0.0
    beside = (totals.verify_seconds + totals.host_seconds) / totals.rounds
    return Costs(level_seconds / step_seconds, max(0.0, beside / step_seconds - 1))


def theory_speedup(acceptance: float, totals: RoundTotals, costs: Costs) -> float:
    """Theory's speedup at this acceptance rate with the measured costs.

    Rounds propose less than the draft length at times (prompt lookup, the last tokens), so tokens
    and costs are added over the rounds' own lengths:
    sum T(a, K_r) / sum (1 + K_r c + v). With equal lengths that is `theory.speedup`.
    """
    lengths = totals.rounds_by_draft_length.items()
    tokens = sum(n * theory.expected_tokens(acceptance, length) for length, n in lengths)
    return tokens / sum(n * theory.round_cost(length, costs.c, costs.v) for length, n in lengths)


def theory_band(totals: RoundTotals, costs: Costs) -> TheoryBand:
    """Theory at the measured acceptance rate and at the ends of its 95 % interval."""
    rate = totals.acceptance_rate or 0.0
    low, high = wilson_interval(rate, totals.levels_reached)
    return TheoryBand(*(theory_speedup(a, totals, costs) for a in (low, rate, high)))


def wilson_interval(rate: float, trials: int) -> tuple[float, float]:
    """The 95 % interval of a rate seen in `trials` trials (Wilson 1927), within 0 to 1.

    >>> [round(end, 2) for end in wilson_interval(0.8, 100)]
    [0.71, 0.87]
    """
    if trials == 0:
        return 0.0, 1.0
    z2 = 1.96**2 / trials
    middle = rate + z2 / 2
    spread = math.sqrt(z2 * (rate * (1 - rate) + z2 / 4))
    return max(0.0, (middle - spread) / (1 + z2)), min(1.0, (middle + spread) / (1 + z2))
