"""The expected speedup of a candidate, with an interval, from the probe's acceptance and costs.

The model treats rounds as identically distributed and independent. Theory's speedup follows from
`expected_seconds` with three inputs:

- acceptance: the share of the method's rounds that passed at least d levels, for every d, over all
  probed draft lengths of d or more;
- the cost of a round, as a straight line over K. Its unit is a step of the baseline in the same
  block, which is a group of runs that ran close together in time. Rounds with a draft and rounds
  without one (a lookup that finds nothing) are weighted by how often they occurred;
- the time in which the drafter reads the prompt, in addition to the target's own prefill.

Acceptance uses only the rounds that had room for the whole draft length.

If a candidate raced, its speedup is the median of its passes and of theory, which counts as one
more pass. The prompts of a few passes may be lucky, while theory uses all rounds of the method.

The 95 % interval has two independent parts, whose relative variances add. One part is the spread of
the tokens per round, in which a prompt counts once however often it ran. The other part is the
noise of the costs, estimated from how the baseline's step varies between blocks.
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
# The relative noise of a step's time that is assumed if the probe has only one block of runs.
UNKNOWN_NOISE = 0.05


@dataclass(frozen=True, slots=True)
class Estimate:
    """The speedup over plain decoding with its interval, and the numbers behind it.

    `acceptance_rate` is levels passed / levels reached. `races` is the number of passes in which
    the candidate raced; with 0, the speedup comes from theory alone. Costs are in steps of the
    baseline: draft, verify and host are the parts of a round, and `draft_prefill` is the drafter's
    time to read the prompt.
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
    held_bytes: int  # bytes of weights and caches in addition to the target's
    draft_prefill: float = 0.0
    # One speedup for each pass of the race in which the candidate ran.
    measured: tuple[float, ...] = ()
    theory: float = 1.0

    @property
    def round_cost(self) -> float:
        return self.draft_cost + self.verify_cost + self.host_cost


def estimate(probe: Probe, candidate: Candidate) -> Estimate:
    """Return the estimated speedup of a candidate whose method was probed."""
    runs = probe.of_method(candidate.method)
    survival = survival_of(runs, candidate.draft_length)
    draft, verify, host = _cost_at(probe, _timed(runs), candidate.draft_length)
    measured = race_speedups(probe, candidate)
    theory = predicted_speedup(probe, candidate, probe.workload.max_new_tokens)
    # Speculation does not speed up the prefill, so the speedup has this limit.
    limit = 1 + (probe.workload.max_new_tokens - 1) / prefill_steps(probe)
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
    """Return the candidate's speedup in each pass of the race.

    Each speedup compares the candidate with the baseline of the block in which it raced.
    """
    return [
        run.tokens / run.total_seconds * plain.total_seconds / plain.tokens
        for run in _races(probe, candidate)
        for plain in (probe.baseline_of(run.block),)
    ]


def predicted_speedup(probe: Probe, candidate: Candidate, tokens: int) -> float:
    """Return the speedup that theory predicts for requests of `tokens` new tokens.

    It follows from the measured acceptance and costs. A batch ends when its longest row ends.
    """
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
    """Return the plain lane's time to the first token, in steps of that lane."""
    return median(each.first_seconds / probe.step_of(each.block) for each in probe.baselines)


def draft_prefill_steps(probe: Probe, runs: Sequence[CandidateRun]) -> float:
    """Return the drafter's time to read a prompt, in steps of the plain lane."""
    return median(run.draft_prefill_seconds / probe.step_of(run.block) for run in runs)


def survival_of(runs: Sequence[CandidateRun], draft_length: int) -> list[float]:
    """Return the probabilities that at least d levels of a round are accepted, for d = 1 … K.

    For levels deeper than any run drafted, the acceptance rate is assumed to be that of the deeper
    half of the drafted levels.
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
    """Return the longest draft that some round had room to make; 0 if no round had room."""
    return max((run.candidate.draft_length for run in runs if _whole(run)), default=0)


def _whole(run: CandidateRun) -> tuple[RoundSeen, ...]:
    """Return the rounds in which the text had room for a draft of full length."""
    return tuple(each for each in run.rounds if each.accepted)


def _tail_rate(survival: Sequence[float]) -> float:
    """Return the acceptance rate in the deeper half of the levels: levels passed / reached."""
    reached = (1.0, *survival)[len(survival) // 2 : -1]
    return math.fsum(survival[len(survival) // 2 :]) / total if (total := sum(reached)) else 0.0


def _timed(runs: Sequence[CandidateRun]) -> list[CandidateRun]:
    """Return the runs with only those rounds in which the text had room for a whole draft.

    If no run has such a round, the runs keep all their rounds.
    """
    whole = [replace(run, rounds=_whole(run)) for run in runs]
    return [run for run in whole if run.rounds] or [run for run in runs if run.rounds]


def _cost_at(probe: Probe, timed: Sequence[CandidateRun], draft_length: int) -> list[float]:
    """Return the draft, verify and host time of a round at this draft length, in plain steps.

    If rounds with this draft length were measured, their times are used. Otherwise, each of the
    three times follows a straight line over the draft length. The line passes through the shortest
    and the longest length that ran, and never falls. If only one length ran, the line also passes
    through an assumed round of length 0: drafting takes no time, verifying takes the time of a
    forward over one token, and the host takes as long as at the length that ran. If no round ran,
    the cost is that of a plain step. A round with a draft contains a forward of the target, so it
    never costs less than a plain step.
    """
    if not timed:
        return [0.0, 1.0, 0.0]
    draft, verify, host = _line_at(probe, timed, draft_length)
    return [draft, max(verify, 1.0 - host) if draft_length else verify, host]


def _line_at(probe: Probe, timed: Sequence[CandidateRun], draft_length: int) -> list[float]:
    """Return the times of a round as `_cost_at` does, but without the limit of one plain step.

    At least one round must have been measured. The sum may be less than the time of a plain step.
    """
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
    """Return the time of a one-token forward, divided by the mean time of the runs' forwards."""
    nodes = fmean(each.nodes for run in runs for each in run.rounds)
    return probe.batch_curve.at(1) / probe.batch_curve.at(round(1 + nodes))


def _typical_cost(probe: Probe, timed: Sequence[CandidateRun], draft_length: int) -> list[float]:
    """Return the draft, verify and host time of a round at this length, in plain steps.

    Rounds with and without a draft count in proportion to their numbers.
    """
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
    """Return the mean of one part of the rounds' times, without bursts of other work.

    A round is an outlier if its whole time is unusually long. The time of a single part does not
    show this, because it may vary without other work. For example, a round whose draft was prepared
    before spends no time on drafting.
    """
    shares = calm_shares([each.seconds for each in rounds])
    pairs = zip(shares, rounds, strict=True)
    return math.fsum(share * each.parts[part] for share, each in pairs) / len(rounds)


def _races(probe: Probe, candidate: Candidate) -> list[CandidateRun]:
    return [run for run in probe.runs if run.is_race and run.candidate == candidate]


def _relative_error(probe: Probe, candidate: Candidate, runs: Sequence[CandidateRun]) -> float:
    """Return the standard error of the speedup, divided by the speedup."""
    blocks = {run.block for run in _races(probe, candidate) or runs}
    noise = 2 * step_noise(probe) ** 2 / len(blocks)
    return math.sqrt(_rounds_error(runs, candidate.draft_length) ** 2 + noise)


def _rounds_error(runs: Sequence[CandidateRun], draft_length: int) -> float:
    """Return the standard error of the mean tokens per round, divided by that mean.

    The worst and the best possible round are added, so that a few equal rounds do not look certain.
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
    """Return the share of prompts that ran for the first time.

    A repeated prompt repeats its random draws, so it adds no information.
    """
    prompts = [prompt for run in runs for prompt in run.prompts]
    return len(set(prompts)) / len(prompts)


def step_noise(probe: Probe) -> float:
    """Return the relative spread of the baseline's step time between neighbouring blocks.

    A round's cost is measured in steps of its own block, so slow changes of the machine's speed
    cancel out. Only neighbouring blocks are therefore compared.
    """
    steps = [each.step_seconds for each in probe.baselines if each.steps]
    jumps = [math.log(later / sooner) ** 2 / 2 for sooner, later in pairwise(steps)]
    return math.sqrt(fmean(jumps)) if jumps else UNKNOWN_NOISE
