"""The measured costs of drafting and of verification, and the speedup that theory predicts.

The input is sums over the rounds of a run, and the time of a step of plain decoding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specviz import theory
from specviz.metrics.round_totals import RoundTotals
from specviz.metrics.run_summary import TheoryBand
from specviz.metrics.running_mean import RunningMean

NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of drafting (c) and of verification (v), in units of the time of a baseline step.

    They are the c and v of the formulas in `specviz.theory`.

    `c` is the mean time to draft one level of the tree. The prefills of drafter and target happen
    only once per run, so they count neither in `c` nor in a baseline step. `v` is the time of a
    round without its drafting, minus one baseline step. It includes the time in which Python itself
    works. If noise makes `v` negative, it is set to 0. `error` is the relative standard error of a
    round's cost. It combines the errors of two means: the time of a round and the time of a step.
    """

    c: float
    v: float
    error: float = 0.0


def measured_costs(totals: RoundTotals, steps: RunningMean, rows: int = 1) -> Costs | None:
    """Return the costs of the rounds in `totals`, or None if there are no rounds or no steps.

    `steps` has the seconds of the baseline's steps. If `rows` sequences were decoded as one batch,
    they share the measured seconds of each round. The rounds of these sequences then count as fewer
    independent measurements.
    """
    step_seconds = steps.mean
    if not totals.rounds or not step_seconds > 0:
        return None
    levels = sum(length * rounds for length, rounds in totals.rounds_by_draft_length.items())
    level_seconds = totals.draft_seconds / levels if levels else 0.0
    beside = (totals.verify_seconds + totals.host_seconds) / totals.rounds
    error = math.hypot(totals.work_error * math.sqrt(rows), steps.standard_error / step_seconds)
    return Costs(level_seconds / step_seconds, max(0.0, beside / step_seconds - 1), error)


def theory_speedup(acceptance: float, totals: RoundTotals, costs: Costs) -> float:
    """Return the speedup that theory predicts at an acceptance rate with the measured costs.

    Some rounds draft less than the draft length, for example with prompt lookup or at the end of a
    text. Tokens and costs are therefore summed over the actual length K_r of each round: sum T(a,
    K_r) / sum (1 + K_r c + v), where T is `theory.expected_tokens`. If all rounds have the same
    length, this is `theory.speedup`.
    """
    lengths = totals.rounds_by_draft_length.items()
    tokens = sum(n * theory.expected_tokens(acceptance, length) for length, n in lengths)
    return tokens / sum(n * theory.round_cost(length, costs.c, costs.v) for length, n in lengths)


def theory_band(totals: RoundTotals, costs: Costs) -> TheoryBand:
    """Return the speedup that theory predicts from the measurements, with a 95 % interval.

    The interval includes the sampling error of the acceptance rate and the spread of the costs.
    These two errors are independent, so their relative variances add.
    """
    rate = totals.acceptance_rate or 0.0
    low, high = wilson_interval(rate, totals.levels_reached)
    least, expected, most = (theory_speedup(a, totals, costs) for a in (low, rate, high))
    spread = NORMAL_95 * costs.error
    below, above = (math.exp(math.hypot(math.log(end / expected), spread)) for end in (least, most))
    return TheoryBand(expected / below, expected, expected * above)


def wilson_interval(rate: float, trials: int) -> tuple[float, float]:
    """Return the 95 % interval, within 0 to 1, of a rate measured in `trials` trials (Wilson 1927).

    >>> [round(end, 2) for end in wilson_interval(0.8, 100)]
    [0.71, 0.87]
    """
    if trials == 0:
        return 0.0, 1.0
    z2 = 1.96**2 / trials
    middle = rate + z2 / 2
    spread = math.sqrt(z2 * (rate * (1 - rate) + z2 / 4))
    return max(0.0, (middle - spread) / (1 + z2)), min(1.0, (middle + spread) / (1 + z2))
