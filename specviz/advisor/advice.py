"""Advice, computed from a probe: whether to speculate, with which method, and for which reasons.

The advice names the fastest of the candidates that stayed in the race to its end. Without a race it
names the one with the highest predicted speedup. It gives only reasons that the numbers support.
Most reasons compare theory's speedup with and without the suspected cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from specviz.advisor.estimate import Estimate, estimate, predicted_speedup, prefill_steps
from specviz.advisor.measured_before import MeasuredBefore
from specviz.advisor.probe import Candidate, CandidateRun, Probe, Refusal

LENGTHS = (1, 2, 3, 5, 8, 12)  # the draft lengths that the advice compares
MIN_GAIN = 1.05  # smallest speedup for which the advice is to speculate
# Number of tokens of a request so long that its prefill and its last rounds hardly matter.
ENDLESS = 4096
LOSS = 0.1  # smallest relative change of the speedup for which the advice mentions the cause
MUCH = 0.25  # smallest share of a round's time, or of memory, that the advice mentions
LESS_ACCEPTED = 0.05  # smallest drop of an acceptance rate that the advice mentions
SURE = 2.0  # two acceptance rates differ if they are at least two standard errors apart


@dataclass(frozen=True, slots=True)
class Wording:
    """How the sentences of the advice write names and factors.

    `method` returns the words for a method's name, and `times` follows a factor, such as "x".
    """

    method: Callable[[str], str] = str
    times: str = "x"

    def candidate(self, candidate: Candidate) -> str:
        """Return the candidate's title, with the method's name in this wording.

        >>> Wording(str.upper).candidate(Candidate("draft-tree", 5, (3, 2)))
        'DRAFT-TREE, K = 5, branching 3,2'
        """
        return replace(candidate, method=self.method(candidate.method)).title

    def factor(self, value: float) -> str:
        """Return a factor with two decimals, followed by the sign in `times`.

        >>> Wording(times="×").factor(1.294)
        '1.29×'
        """
        return f"{value:.2f}{self.times}"


TYPED = Wording()  # the methods' names as a user types them on the command line


@dataclass(frozen=True, slots=True)
class AdviceReason:
    """One reason behind the advice.

    `value` is the number behind the sentence. `speaks_for` says whether the reason speaks for
    speculating.
    """

    name: str
    sentence: str
    value: float
    speaks_for: bool


@dataclass(frozen=True, slots=True)
class Untried:
    """Methods that were not probed because time ran out.

    `tried` is the number of probed methods. `seconds` is enough time to probe all methods.
    """

    methods: tuple[str, ...]
    tried: int
    seconds: int

    @property
    def reasons(self) -> tuple[Refusal, ...]:
        why = f"no time was left to try it; {self.seconds} seconds would be enough"
        return tuple(Refusal(method, why) for method in self.methods)


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice: whether to speculate, with which candidate, and why.

    `best` is the best candidate. `ranking` holds all candidates, and begins with those that raced.
    `refusals` are the methods that the pair cannot run. `wording` shapes the sentences. `before` is
    the result of an earlier sweep; if the advice contradicts it, the verdict says so.
    """

    speculate: bool
    best: Estimate
    ranking: tuple[Estimate, ...]
    reasons: tuple[AdviceReason, ...]
    refusals: tuple[Refusal, ...]
    wording: Wording = TYPED
    untried: Untried | None = None
    before: MeasuredBefore | None = None

    @property
    def verdict(self) -> str:
        """Return the advice as text, in one to three sentences."""
        best, factor = self.best, self.wording.factor
        name, gain = self.wording.candidate(best.candidate), factor(best.speedup)
        interval = f"{factor(best.low)} to {factor(best.high)}"
        if self.before and self.before.speedup >= MIN_GAIN and not self.speculate:
            method = self.wording.method(self.before.method)
            return (
                f"Two measurements disagree: your sweep gave {factor(self.before.speedup)} with "
                f"{method}, K = {self.before.draft_length}, but here the best candidate, {name}, "
                f"gives {gain} ({interval}). Other work slowed one of them: measure both again on "
                "an idle machine."
            )
        if self.untried and not self.speculate:
            return (
                f"Not decided: {self.untried.tried} of "
                f"{self.untried.tried + len(self.untried.methods)} methods were tried. The best of "
                f"them, {name}, gives {gain} ({interval}). {self.untried.seconds} seconds "
                "would be enough to try all methods."
            )
        if self.speculate and best.low < 1:
            return (
                f"Speculate with {name}, but it may not pay: the expected speedup is {gain}, and "
                f"its interval ({interval}) includes a loss."
            )
        if self.speculate:
            return f"Speculate with {name}: the expected speedup is {gain} ({interval})."
        return (
            f"Do not speculate: the best candidate, {name}, gives {gain} ({interval}), which is "
            f"less than {factor(MIN_GAIN)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as JSON-ready values."""
        untried = self.untried.reasons if self.untried else ()
        return {
            "speculate": self.speculate,
            "verdict": self.verdict,
            "method": self.best.candidate.method if self.speculate else None,
            "draft_length": self.best.candidate.draft_length if self.speculate else None,
            "branching": list(self.best.candidate.branching) if self.speculate else None,
            "speedup": self.best.speedup if self.speculate else 1.0,
            "interval": [self.best.low, self.best.high] if self.speculate else [1.0, 1.0],
            "best": asdict(self.best),
            "reasons": [asdict(each) for each in self.reasons],
            "ranking": [asdict(each) for each in self.ranking],
            "refusals": [asdict(each) for each in (*self.refusals, *untried)],
        }


def advise(
    probe: Probe,
    lengths: tuple[int, ...] = LENGTHS,
    wording: Wording = TYPED,
    untried: Untried | None = None,
    before: MeasuredBefore | None = None,
) -> Advice | None:
    """Return the advice that follows from the probe; None if no method was probed yet."""
    ranking = ranked(probe, lengths)
    if not ranking:
        return None
    best = ranking[0]
    speculate = best.speedup >= MIN_GAIN
    found = _reasons(probe, best, speculate, wording)
    return Advice(speculate, best, ranking, found, probe.refusals, wording, untried, before)


def contenders(probe: Probe, racing: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the racing candidates that may be the fastest.

    Such a candidate has a speedup interval whose upper end is above the best estimated speedup. At
    least two candidates stay, so that more than one is measured until the race ends.
    """
    order = sorted((estimate(probe, each) for each in racing), key=lambda each: -each.speedup)
    open_still = [each for each in order[2:] if each.high > order[0].speedup]
    return tuple(each.candidate for each in [*order[:2], *open_still])


def challengers(probe: Probe, lengths: tuple[int, ...] = LENGTHS) -> tuple[Candidate, ...]:
    """Return the candidates that never raced but have a higher speedup than every finalist.

    The one with the highest speedup comes first.
    """
    best = max(estimate(probe, each).speedup for each in probe.finalists)
    fresh = [each for each in ranked(probe, lengths) if not each.races and each.speedup > best]
    return tuple(each.candidate for each in fresh)


def ranked(probe: Probe, lengths: tuple[int, ...] = LENGTHS) -> tuple[Estimate, ...]:
    """Return an estimate for every candidate of every probed method, sorted.

    The finalists come first, then the candidates that left the race, then those that never raced.
    Within each of these groups the speedup falls.
    """
    found = [estimate(probe, each) for each in probe.options(lengths)]
    return tuple(sorted(found, key=lambda each: (_group(probe, each), -each.speedup)))


def _group(probe: Probe, found: Estimate) -> int:
    return 0 if found.candidate in probe.finalists else 1 if found.races else 2


def _reasons(
    probe: Probe, best: Estimate, speculate: bool, wording: Wording = TYPED
) -> tuple[AdviceReason, ...]:
    """Return the reasons; those that support the advice come first."""
    found = [
        *_measured(best, wording),
        *_acceptance(probe, best),
        *_slow_draft(best),
        *_short_outputs(probe, best, wording),
        *_prefill(probe, wording),
        *_draft_prefill(probe, best, wording),
        *_temperature(probe, wording),
        *_batch(probe, best),
        *_vocabulary(probe, wording),
        *_memory(probe, best, wording),
        *_unraced(probe, best, wording),
    ]
    return tuple(sorted(found, key=lambda each: each.speaks_for is not speculate))


def _measured(best: Estimate, wording: Wording) -> Iterator[AdviceReason]:
    """Yield a reason that lists the candidate's measured speedups and the predicted speedup.

    The estimate is the median of all these speedups.
    """
    if not best.measured:
        return
    factor, middle = wording.factor, median([*best.measured, best.theory])
    *others, last = [factor(each) for each in best.measured]
    passes = f"{best.races} passes" if others else "one pass"
    speedups = f"speedups of {', '.join(others)} and {last}" if others else f"a speedup of {last}"
    how = "is the median of these numbers" if others else "is halfway between"
    if best.speedup < middle:
        how = "is lower, because speculation does not speed up the reading of the prompt"
    yield AdviceReason(
        "measured",
        f"{wording.method(best.candidate.method)} raced in {passes}, with {speedups}. Theory "
        f"predicts {factor(best.theory)} from acceptance and costs. The estimate, "
        f"{factor(best.speedup)}, {how}.",
        best.theory,
        min(*best.measured, best.theory) >= MIN_GAIN,
    )


def _acceptance(probe: Probe, best: Estimate) -> Iterator[AdviceReason]:
    """Yield a reason with the tokens that a round writes and its cost in steps of plain decoding.

    A step of plain decoding writes one token. So a round is faster than plain decoding if it writes
    more tokens than it costs steps.
    """
    if not any(run.rounds for run in probe.of_method(best.candidate.method)):
        return
    pays = best.tokens_per_round > best.round_cost
    yield AdviceReason(
        "acceptance",
        f"{_percent(best.acceptance_rate)} of the examined guesses pass, so a round writes "
        f"{best.tokens_per_round:.2f} tokens. It takes as long as {best.round_cost:.2f} plain "
        f"steps, each of which writes one token.",
        best.acceptance_rate,
        pays,
    )


def _slow_draft(best: Estimate) -> Iterator[AdviceReason]:
    """Yield a reason against speculating if drafting takes a large share of a round."""
    share = best.draft_cost / best.round_cost if best.round_cost else 0.0
    if share < MUCH:
        return
    length = best.candidate.draft_length
    yield AdviceReason(
        "slow-draft",
        f"Drafting takes {_percent(share)} of a round's time: {length} "
        f"{'levels take' if length > 1 else 'level takes'} as long as {best.draft_cost:.2f} plain "
        "steps.",
        best.draft_cost / length,
        False,
    )


def _short_outputs(probe: Probe, best: Estimate, wording: Wording) -> Iterator[AdviceReason]:
    """Yield a reason against speculating if outputs are short.

    The last rounds have no room for a whole draft, and speculation does not speed up the first
    token.
    """
    tokens = probe.workload.max_new_tokens
    here, endless = (predicted_speedup(probe, best.candidate, n) for n in (tokens, ENDLESS))
    if tokens < ENDLESS and here < (1 - LOSS) * endless:
        yield AdviceReason(
            "short-outputs",
            f"Outputs of {tokens} tokens are short: theory predicts {wording.factor(here)} for "
            f"them, and {wording.factor(endless)} for very long outputs.",
            here / endless,
            False,
        )


def _prefill(probe: Probe, wording: Wording) -> Iterator[AdviceReason]:
    """Yield a reason against speculating if the prefill takes a large share of a plain request."""
    first, steps = prefill_steps(probe), probe.workload.max_new_tokens - 1
    share = first / (first + steps)
    if share < MUCH:
        return
    yield AdviceReason(
        "prefill-bound",
        f"Reading the prompt ({probe.workload.prompt_tokens:.0f} tokens) takes {_percent(share)} "
        "of the time of plain decoding. Drafts do not speed it up, so the speedup is at most "
        f"{wording.factor(1 / share)}.",
        share,
        False,
    )


def _draft_prefill(probe: Probe, best: Estimate, wording: Wording) -> Iterator[AdviceReason]:
    """Yield a reason against speculating if the drafter takes long to read the prompt."""
    whole = (prefill_steps(probe) + probe.workload.max_new_tokens - 1) / best.speedup
    share = best.draft_prefill / whole
    if share < LOSS:
        return
    yield AdviceReason(
        "draft-prefill",
        f"{wording.method(best.candidate.method)} also reads the prompt "
        f"({probe.workload.prompt_tokens:.0f} tokens). This takes as long as "
        f"{best.draft_prefill:.1f} plain steps, which is {_percent(share)} of the time.",
        share,
        False,
    )


def _temperature(probe: Probe, wording: Wording) -> Iterator[AdviceReason]:
    """Yield a reason if the target clearly accepts more drafted tokens at temperature 0.

    Both runs that are compared decode the same prompts.
    """
    for cold in probe.greedy:
        warm = next(
            run
            for run in probe.runs
            if (run.candidate, run.block, run.is_race) == (cold.candidate, cold.block, False)
        )
        (here, here_error), (there, there_error) = (_rate(run) for run in (warm, cold))
        if there - here >= max(LESS_ACCEPTED, SURE * math.hypot(here_error, there_error)):
            yield AdviceReason(
                "high-temperature",
                f"At temperature {probe.workload.temperature:g}, {_percent(here)} of the guesses "
                f"of {wording.method(cold.candidate.method)} pass. At temperature 0, "
                f"{_percent(there)} pass.",
                here,
                False,
            )


def _rate(run: CandidateRun) -> tuple[float, float]:
    """Return the acceptance rate (levels passed / levels reached) and its standard error.

    The error is computed with one more accepted level and one more rejected level, so that it is
    never 0.
    """
    passed = [each for seen in run.rounds for each in seen.accepted]
    reached = sum(min(each + 1, run.candidate.draft_length) for each in passed)
    likely = (sum(passed) + 1) / (reached + 2)
    return sum(passed) / max(1, reached), math.sqrt(likely * (1 - likely) / (reached + 2))


def _batch(probe: Probe, best: Estimate) -> Iterator[AdviceReason]:
    """Yield a reason if a further token costs more in this batch than for a single sequence."""
    rows = probe.workload.batch_size
    if rows == 1:
        return
    tokens = best.candidate.draft_length + 1
    many, one = (curve.at(tokens) / curve.at(1) for curve in (probe.batch_curve, probe.row_curve))
    if many > (1 + LOSS) * one:
        yield AdviceReason(
            "large-batch",
            f"In a batch of {rows}, a forward over {tokens} tokens per sequence takes {many:.2f} "
            "times as long as a forward over 1 token per sequence. For a single sequence, it takes "
            f"{one:.2f} times as long.",
            many,
            False,
        )


def _vocabulary(probe: Probe, wording: Wording) -> Iterator[AdviceReason]:
    """Yield a reason if the draft model's vocabulary differs from the target's."""
    for refusal in probe.refusals:
        if refusal.shared_share is not None:
            yield AdviceReason(
                "vocabulary",
                f"The draft model has a vocabulary of its own: {_percent(refusal.shared_share)} of "
                "the target's tokens are in it, so the only method that can use it is "
                f"{wording.method('cross-vocabulary')}.",
                refusal.shared_share,
                False,
            )
            return


def _memory(probe: Probe, best: Estimate, wording: Wording) -> Iterator[AdviceReason]:
    """Yield a reason if the drafter's weights and caches take a large share of memory."""
    extra, load = best.held_bytes, probe.workload
    method = wording.method(best.candidate.method)
    if load.free_bytes is not None and extra > MUCH * load.free_bytes:
        yield AdviceReason(
            "memory",
            f"{method} needs {extra / 1e6:.0f} MB in addition to the target's "
            f"{load.target_bytes / 1e6:.0f} MB: {_percent(extra / load.free_bytes)} of the free "
            "memory.",
            extra / load.free_bytes,
            False,
        )
    elif extra > MUCH * load.target_bytes:
        yield AdviceReason(
            "memory",
            f"{method} needs {extra / 1e6:.0f} MB in addition to the target's "
            f"{load.target_bytes / 1e6:.0f} MB.",
            extra / load.target_bytes,
            False,
        )


def _unraced(probe: Probe, best: Estimate, wording: Wording) -> Iterator[AdviceReason]:
    """Yield a reason if a candidate that never raced has a higher predicted speedup than the best.

    Such a candidate usually did not race because the time ran out.
    """
    fresh = challengers(probe) if probe.finalists else ()
    if not fresh:
        return
    found = estimate(probe, fresh[0])
    if found.speedup >= max(MIN_GAIN, (1 + LOSS) * best.speedup):
        yield AdviceReason(
            "unraced",
            f"Theory predicts {wording.factor(found.speedup)} with "
            f"{wording.candidate(found.candidate)}, but there was no time to race it. Allow more "
            "seconds.",
            found.speedup,
            True,
        )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
