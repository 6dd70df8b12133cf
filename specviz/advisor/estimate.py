"""What a candidate is likely to give, from the probe's acceptance and costs, with an interval.

Rounds count as alike and independent. Theory's speedup follows from
`expected_seconds` with

- acceptance: how many rounds of the method passed d levels, at any probed length of d or more;
- the cost of a round in baseline steps of the same block, a straight line over K: the mean over
  rounds with a draft and rounds without one (a lookup that finds nothing), as often as each came;
- what the drafter takes to read the prompt, once, beside the target.

Acceptance and rounds come from those that had room for the whole draft length.

A candidate that raced has the median of its passes and of theory, which counts as one more pass:
the prompts of a few passes can be lucky, and theory rests on all rounds of the method.

The interval has two independent parts, added as relative variances: the spread of the tokens per
round over the rounds, where a prompt counts once however often it ran, and the noise of costs, seen
in how the baseline's step differs from block to block. 95 % of a normal distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median

from specviz.advisor.calm import calm_shares
from specviz.advisor.probe import Candidate, CandidateRun, Probe, RoundSeen
from specviz.theory import expected_seconds, waiting

NORMAL_95 = 1.96
UNKNOWN_NOISE = 0.05  # of a step, assumed where there is a single block


@dataclass(frozen=True, slots=True)
class Estimate:
    """Speedup over plain decoding with its interval, and what it rests on.

    `acceptance_rate` is levels passed / levels reached; `races` counts the passes in which it
    raced: 0 is theory alone. In baseline steps: draft, verify and host, the parts of a round, and
    `draft_prefill`, what its drafter takes to read the prompt.
    """

    candidate: Candidate
    speedup: float
    low: float
    high: float
    races: int
    acceptance_rate: float
    tokens_per_round: float
    draft_cost: float
    verify_cost: float
    host_cost: float
    held_bytes: int  # weights and caches beside the target's
    draft_prefill: float = 0.0
    measured: tuple[float, ...] = ()  # speedups, of the passes in which it raced
    theory: float = 1.0

    @property
    def round_cost(self) -> float:
        return self.draft_cost + self.verify_cost + self.host_cost


def estimate(probe: Probe, candidate: Candidate) -> Estimate:
    """Of a candidate whose method was probed."""
    runs = probe.of_method(candidate.method)
    survival = survival_of(runs, candidate.draft_length)
    draft, verify, host = _cost_at(probe, _timed(runs), candidate.draft_length)
    measured = race_speedups(probe, candidate)
    theory = predicted_speedup(probe, candidate, probe.workload.max_new_tokens)
    limit = 1 + (probe.workload.max_new_tokens - 1) / prefill_steps(probe)  # the prefill stays
    speedup = min(limit, median([*measured, theory]))
    factor = math.exp(NORMAL_95 * _relative_error(probe, candidate, runs))
    reached = 1 + math.fsum(survival[:-1])
    return Estimate(
        candidate,
        speedup,
        speedup / factor,
        min(limit, speedup * factor),
        len(measured),
        math.fsum(survival) / reached,
        1 + math.fsum(survival),
        draft,
        verify,
        host,
        max(run.held_bytes for run in runs),
        draft_prefill_steps(probe, runs),
        tuple(measured),
        theory,
    )


def race_speedups(probe: Probe, candidate: Candidate) -> list[float]:
    """Tokens per second over the baseline's of the same block, pass by pass."""
    return [
        run.tokens / run.total_seconds * plain.total_seconds / plain.tokens
        for run in _races(probe, candidate)
        for plain in (probe.baseline_of(run.block),)
    ]


def predicted_speedup(probe: Probe, candidate: Candidate, tokens: int) -> float:
    """From acceptance and costs, for requests of `tokens` new ones; a batch ends with its last."""
    runs = probe.of_method(candidate.method)
    timed = _timed(runs)
    costs = [sum(_cost_at(probe, timed, k)) for k in range(candidate.draft_length + 1)]
    survival = survival_of(runs, candidate.draft_length)
    later = expected_seconds(tokens - 1, survival, [min(1.0, costs[0]), *costs[1:]])
    first = median(run.first_seconds / probe.step_of(run.block) for run in runs)
    first += draft_prefill_steps(probe, runs)
    longest = waiting(probe.workload.batch_size, tokens - 1, survival)
    return (prefill_steps(probe) + tokens - 1) / (first + longest * later)


def prefill_steps(probe: Probe) -> float:
    """The plain lane's time to the first token, in its steps."""
    return median(each.first_seconds / probe.step_of(each.block) for each in probe.baselines)


def draft_prefill_steps(probe: Probe, runs: Sequence[CandidateRun]) -> float:
    """The drafter's time to read a prompt, in the plain lane's steps."""
    return median(run.draft_prefill_seconds / probe.step_of(run.block) for run in runs)


def survival_of(runs: Sequence[CandidateRun], draft_length: int) -> list[float]:
    """The chance that at least d levels of a round pass, d = 1 … K.

    Depths that no run drafted go on with the conditional rate of the deeper half of those it did.
    """
    survival: list[float] = []
    probed = _longest(runs)
    if probed == 0:
        return [0.0] * draft_length
    for depth in range(1, draft_length + 1):
        if depth > probed:
            survival.append(survival[-1] * _tail_rate(survival[:probed]))
            continue
        seen = [
            passed >= depth
            for run in runs
            if run.candidate.draft_length >= depth
            for each in run.rounds
            for passed in each.accepted
        ]
        survival.append(min(survival[-1] if survival else 1.0, fmean(seen)))
    return survival


def _longest(runs: Sequence[CandidateRun]) -> int:
    """The draft length that some round had room for; 0 where none had."""
    return max((run.candidate.draft_length for run in runs if _whole(run)), default=0)


def _whole(run: CandidateRun) -> tuple[RoundSeen, ...]:
    """The rounds that had room for the whole draft length."""
    return tuple(each for each in run.rounds if each.accepted)


def _tail_rate(survival: Sequence[float]) -> float:
    """Levels passed / levels reached in the deeper half."""
    reached = (1.0, *survival)[len(survival) // 2 : -1]
    return math.fsum(survival[len(survival) // 2 :]) / total if (total := sum(reached)) else 0.0


def _timed(runs: Sequence[CandidateRun]) -> list[CandidateRun]:
    """Runs with the rounds that show a cost; shortened rounds only where there are no others."""
    whole = [replace(run, rounds=_whole(run)) for run in runs]
    return [run for run in whole if run.rounds] or [run for run in runs if run.rounds]


def _cost_at(probe: Probe, timed: Sequence[CandidateRun], draft_length: int) -> list[float]:
    """Draft, verify and host time of a round in steps, straight over the lengths.

    Through the shortest and the longest that ran, never falling; where only one did, drafting goes
    through 0 at length 0, verifying falls there as forwards over fewer tokens do, and the rest is
    constant. Where no round ran, that of a plain step.
    """
    if not timed:
        return [0.0, 1.0, 0.0]
    lengths = sorted({run.candidate.draft_length for run in timed})
    if draft_length in lengths:
        return _typical_cost(probe, timed, draft_length)
    short, long = lengths[0], lengths[-1]
    lows, highs = (_typical_cost(probe, timed, length) for length in (short, long))
    if short == long:
        short, lows = 0, [0.0, highs[1] * _plain_share(probe, timed), highs[2]]
    slopes = (max(0.0, high - low) / (long - short) for low, high in zip(lows, highs, strict=True))
    return [
        max(0.0, high + slope * (draft_length - long))
        for high, slope in zip(highs, slopes, strict=True)
    ]


def _plain_share(probe: Probe, runs: Sequence[CandidateRun]) -> float:
    """Of the time of their forwards: what one over a single token of each row takes."""
    nodes = fmean(each.nodes for run in runs for each in run.rounds)
    return probe.batch_curve.at(1) / probe.batch_curve.at(round(1 + nodes))


def _typical_cost(probe: Probe, timed: Sequence[CandidateRun], draft_length: int) -> list[float]:
    """Of the runs at this length: each kind of round with its own cost, as often as it came."""
    runs = [run for run in timed if run.candidate.draft_length == draft_length]
    costs = [0.0, 0.0, 0.0]
    for is_drafted in (True, False):
        kinds = [(run, [r for r in run.rounds if r.is_drafted is is_drafted]) for run in runs]
        seen = [(run, rounds) for run, rounds in kinds if rounds]
        share = sum(len(rounds) for _, rounds in seen) / sum(len(run.rounds) for run in runs)
        for part in range(3) if seen else ():
            costs[part] += share * median(
                _calm_mean(rounds, part) / probe.step_of(run.block) for run, rounds in seen
            )
    return costs


def _calm_mean(rounds: Sequence[RoundSeen], part: int) -> float:
    """Whole rounds are judged: their parts may differ, as where some find their draft ready."""
    shares = calm_shares([each.seconds for each in rounds])
    pairs = zip(shares, rounds, strict=True)
    return math.fsum(share * each.parts[part] for share, each in pairs) / len(rounds)


def _races(probe: Probe, candidate: Candidate) -> list[CandidateRun]:
    return [run for run in probe.runs if run.is_race and run.candidate == candidate]


def _relative_error(probe: Probe, candidate: Candidate, runs: Sequence[CandidateRun]) -> float:
    """Standard error of the speedup over the speedup."""
    blocks = {run.block for run in _races(probe, candidate) or runs}
    noise = 2 * step_noise(probe) ** 2 / len(blocks)
    return math.sqrt(_rounds_error(runs, candidate.draft_length) ** 2 + noise)


def _rounds_error(runs: Sequence[CandidateRun], draft_length: int) -> float:
    """Standard error of the mean tokens of a round over that mean.

    Two more rounds count, the worst and the best, so that a few like ones are not sure.
    """
    enough = min(draft_length, _longest(runs))
    long_enough = [run for run in runs if run.candidate.draft_length >= enough]
    fresh = _fresh_share(long_enough)
    emitted = [
        (1 + min(passed, draft_length), fresh)
        for run in long_enough
        for each in run.rounds
        for passed in each.accepted
    ]
    weighted = [*emitted, (1, 1.0), (1 + draft_length, 1.0)]
    rounds = math.fsum(weight for _, weight in weighted)
    mean = math.fsum(weight * tokens for tokens, weight in weighted) / rounds
    squares = math.fsum(weight * (tokens - mean) ** 2 for tokens, weight in weighted)
    return math.sqrt(squares / (rounds - 1) / rounds) / mean


def _fresh_share(runs: Sequence[CandidateRun]) -> float:
    """Of the prompts, each counted once: decoded again it has the same draws."""
    prompts = [prompt for run in runs for prompt in run.prompts]
    return len(set(prompts)) / len(prompts)


def step_noise(probe: Probe) -> float:
    """Relative spread of the baseline's step from one block to the next.

    Of neighbours, since a block's costs are in steps of its own: a slow drift cancels.
    """
    steps = [each.step_seconds for each in probe.baselines if each.steps]
    jumps = [math.log(later / sooner) ** 2 / 2 for sooner, later in pairwise(steps)]
    return math.sqrt(fmean(jumps)) if jumps else UNKNOWN_NOISE
