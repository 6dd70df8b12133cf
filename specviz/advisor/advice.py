"""Speculate or not, with what, and what to expect: from a probe to advice, with its reasons.

Of the candidates that stayed in the race to its end the fastest is chosen; before any race the one
with the highest predicted speedup. A reason is given only where the numbers say so; most are found
by asking the same theory again without what is blamed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from specviz.advisor.estimate import Estimate, estimate, predicted_speedup, prefill_steps
from specviz.advisor.probe import Candidate, CandidateRun, Probe, Refusal

LENGTHS = (1, 2, 3, 5, 8, 12)  # the draft lengths that are weighed
MIN_GAIN = 1.05  # of the speedup: for less a second way to decode is not worth its trouble
ENDLESS = 4096  # tokens: a request whose prefill and whose end hardly count
LOSS = 0.1  # a share of the speedup that is worth a sentence
MUCH = 0.25  # a share of a round's time, or of memory, that is worth a sentence
LESS_ACCEPTED = 0.05
SURE = 2.0  # standard errors


@dataclass(frozen=True, slots=True)
class Wording:
    """`method` turns a method's name into what is written; `times` stands behind a factor."""

    method: Callable[[str], str] = str
    times: str = "x"

    def candidate(self, candidate: Candidate) -> str:
        """
        >>> Wording(str.upper).candidate(Candidate("draft-tree", 5, (3, 2)))
        'DRAFT-TREE, K = 5, branching 3,2'
        """
        return replace(candidate, method=self.method(candidate.method)).title

    def factor(self, value: float) -> str:
        """
        >>> Wording(times="×").factor(1.294)
        '1.29×'
        """
        return f"{value:.2f}{self.times}"


TYPED = Wording()  # names as the command line takes them


@dataclass(frozen=True, slots=True)
class AdviceReason:
    """`value` is the number that the sentence rests on; `speaks_for` speculating, or against."""

    name: str
    sentence: str
    value: float
    speaks_for: bool


@dataclass(frozen=True, slots=True)
class Untried:
    """Methods for which no time was left; with so many `seconds` there is time for all."""

    methods: tuple[str, ...]
    tried: int
    seconds: int

    @property
    def reasons(self) -> tuple[Refusal, ...]:
        why = f"no time was left to try it; {self.seconds} seconds would do"
        return tuple(Refusal(method, why) for method in self.methods)


@dataclass(frozen=True, slots=True)
class Advice:
    """`best` is what to use if at all; `ranking` all candidates, those that raced first.

    `refusals` are the methods that the pair cannot run; `wording` is that of its sentences.
    """

    speculate: bool
    best: Estimate
    ranking: tuple[Estimate, ...]
    reasons: tuple[AdviceReason, ...]
    refusals: tuple[Refusal, ...]
    wording: Wording = TYPED
    untried: Untried | None = None

    @property
    def verdict(self) -> str:
        """One sentence."""
        best, factor = self.best, self.wording.factor
        name, gain = self.wording.candidate(best.candidate), factor(best.speedup)
        interval = f"{factor(best.low)} to {factor(best.high)}"
        if self.untried and not self.speculate:
            return (
                f"Not decided: {self.untried.tried} of "
                f"{self.untried.tried + len(self.untried.methods)} methods were tried. The best of "
                f"them, {name}, gives {gain} ({interval}); {self.untried.seconds} seconds would do "
                f"for all."
            )
        if self.speculate and best.low < 1:
            return (
                f"Speculate with {name}, though it is not sure to pay: {gain} "
                f"expected, a loss is within the interval ({interval})."
            )
        if self.speculate:
            return f"Speculate with {name}: {gain} expected ({interval})."
        return (
            f"Do not speculate: the best of all, {name}, gives {gain} ({interval}), "
            f"less than {factor(MIN_GAIN)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
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
) -> Advice | None:
    """None before any method was probed."""
    ranking = ranked(probe, lengths)
    if not ranking:
        return None
    best = ranking[0]
    speculate = best.speedup >= MIN_GAIN
    found = _reasons(probe, best, speculate, wording)
    return Advice(speculate, best, ranking, found, probe.refusals, wording, untried)


def contenders(probe: Probe, racing: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those of `racing` that may be the fastest: their interval reaches up to the best estimate.

    Two at the least, so that more than one is measured to the end.
    """
    order = sorted((estimate(probe, each) for each in racing), key=lambda each: -each.speedup)
    open_still = [each for each in order[2:] if each.high > order[0].speedup]
    return tuple(each.candidate for each in [*order[:2], *open_still])


def challengers(probe: Probe, lengths: tuple[int, ...] = LENGTHS) -> tuple[Candidate, ...]:
    """Those that never raced and by now promise more than every finalist, the best first."""
    best = max(estimate(probe, each).speedup for each in probe.finalists)
    fresh = [each for each in ranked(probe, lengths) if not each.races and each.speedup > best]
    return tuple(each.candidate for each in fresh)


def ranked(probe: Probe, lengths: tuple[int, ...] = LENGTHS) -> tuple[Estimate, ...]:
    """Every candidate of every method that was probed.

    First the finalists, then what left the race, then what never raced; each part by speedup.
    """
    found = [estimate(probe, each) for each in probe.options(lengths)]
    return tuple(sorted(found, key=lambda each: (_group(probe, each), -each.speedup)))


def _group(probe: Probe, found: Estimate) -> int:
    return 0 if found.candidate in probe.finalists else 1 if found.races else 2


def _reasons(
    probe: Probe, best: Estimate, speculate: bool, wording: Wording = TYPED
) -> tuple[AdviceReason, ...]:
    """Those of the chosen candidate, what speaks for the advice first."""
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
    """What the speedup is the median of."""
    if not best.measured:
        return
    factor, middle = wording.factor, median([*best.measured, best.theory])
    *others, last = [factor(each) for each in best.measured]
    passes = f"{best.races} passes" if others else "one pass"
    gave = f"{', '.join(others)} and {last}" if others else last
    how = "the median of these" if others else "halfway between"
    capped = ", or what the reading of the prompt leaves of it" if best.speedup < middle else ""
    yield AdviceReason(
        "measured",
        f"The {passes} in which it raced gave {gave}, theory gives {factor(best.theory)} from "
        f"acceptance and costs: {factor(best.speedup)} is {how}{capped}.",
        best.theory,
        min(*best.measured, best.theory) >= MIN_GAIN,
    )


def _acceptance(probe: Probe, best: Estimate) -> Iterator[AdviceReason]:
    """A round pays where it writes more tokens than it costs steps."""
    if not any(run.rounds for run in probe.of_method(best.candidate.method)):
        return
    pays = best.tokens_per_round > best.round_cost
    yield AdviceReason(
        "acceptance",
        f"{_percent(best.acceptance_rate)} of the examined guesses pass, so a round writes "
        f"{best.tokens_per_round:.2f} tokens; it costs as much time as {best.round_cost:.2f} plain "
        f"steps.",
        best.acceptance_rate,
        pays,
    )


def _slow_draft(best: Estimate) -> Iterator[AdviceReason]:
    """Drafting takes a large share of a round."""
    share = best.draft_cost / best.round_cost if best.round_cost else 0.0
    if share < MUCH:
        return
    length = best.candidate.draft_length
    yield AdviceReason(
        "slow-draft",
        f"Drafting is {_percent(share)} of a round: {length} level{'s' if length > 1 else ''} "
        f"take as long as {best.draft_cost:.2f} plain steps.",
        best.draft_cost / length,
        False,
    )


def _short_outputs(probe: Probe, best: Estimate, wording: Wording) -> Iterator[AdviceReason]:
    """The last rounds have no room to draft in, and the first token is not sped up."""
    tokens = probe.workload.max_new_tokens
    here, endless = (predicted_speedup(probe, best.candidate, n) for n in (tokens, ENDLESS))
    if tokens < ENDLESS and here < (1 - LOSS) * endless:
        yield AdviceReason(
            "short-outputs",
            f"Outputs of {tokens} tokens are short: theory gives {wording.factor(here)} on them, "
            f"and {wording.factor(endless)} on endless ones.",
            here / endless,
            False,
        )


def _prefill(probe: Probe, wording: Wording) -> Iterator[AdviceReason]:
    """Reading the prompt takes a large share of the plain lane's time."""
    first, steps = prefill_steps(probe), probe.workload.max_new_tokens - 1
    share = first / (first + steps)
    if share < MUCH:
        return
    yield AdviceReason(
        "prefill-bound",
        f"{_percent(share)} of the time goes into reading the prompt "
        f"({probe.workload.prompt_tokens:.0f} tokens), which nothing here speeds up: no more than "
        f"{wording.factor(1 / share)} can be had.",
        share,
        False,
    )


def _draft_prefill(probe: Probe, best: Estimate, wording: Wording) -> Iterator[AdviceReason]:
    """The drafter reads the prompt as well, before it drafts."""
    whole = (prefill_steps(probe) + probe.workload.max_new_tokens - 1) / best.speedup
    share = best.draft_prefill / whole
    if share < LOSS:
        return
    yield AdviceReason(
        "draft-prefill",
        f"{wording.method(best.candidate.method)} reads the prompt "
        f"({probe.workload.prompt_tokens:.0f} tokens) once more for itself: that takes as long as "
        f"{best.draft_prefill:.1f} plain steps, {_percent(share)} of the time.",
        share,
        False,
    )


def _temperature(probe: Probe, wording: Wording) -> Iterator[AdviceReason]:
    """The same drafter is believed more often at temperature 0, on the same prompts."""
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
                f"At temperature {probe.workload.temperature:g} {_percent(here)} of the guesses of "
                f"{wording.method(cold.candidate.method)} pass, at 0 it is {_percent(there)}.",
                here,
                False,
            )


def _rate(run: CandidateRun) -> tuple[float, float]:
    """Levels passed / levels reached, and its standard error, never 0: one more of each counts."""
    passed = [each for seen in run.rounds for each in seen.accepted]
    reached = sum(min(each + 1, run.candidate.draft_length) for each in passed)
    likely = (sum(passed) + 1) / (reached + 2)
    return sum(passed) / max(1, reached), math.sqrt(likely * (1 - likely) / (reached + 2))


def _batch(probe: Probe, best: Estimate) -> Iterator[AdviceReason]:
    """The rows fill the device, so that further tokens cost more than they do for one row."""
    rows = probe.workload.batch_size
    if rows == 1:
        return
    tokens = best.candidate.draft_length + 1
    many, one = (curve.at(tokens) / curve.at(1) for curve in (probe.batch_curve, probe.row_curve))
    if many > (1 + LOSS) * one:
        yield AdviceReason(
            "large-batch",
            f"In a batch of {rows} a forward over {tokens} tokens of each row takes {many:.2f} "
            f"times one over 1 token of each; for a single row it is {one:.2f} times.",
            many,
            False,
        )


def _vocabulary(probe: Probe, wording: Wording) -> Iterator[AdviceReason]:
    """What the draft model offers is lost where its tokens mean something else."""
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
    """Weights and caches beside the target's weights."""
    extra, load = best.held_bytes, probe.workload
    method = wording.method(best.candidate.method)
    if load.free_bytes is not None and extra > MUCH * load.free_bytes:
        yield AdviceReason(
            "memory",
            f"{method} needs {extra / 1e6:.0f} MB beside the target's "
            f"{load.target_bytes / 1e6:.0f} MB, {_percent(extra / load.free_bytes)} of what is "
            "free.",
            extra / load.free_bytes,
            False,
        )
    elif extra > MUCH * load.target_bytes:
        yield AdviceReason(
            "memory",
            f"{method} needs {extra / 1e6:.0f} MB beside the target's "
            f"{load.target_bytes / 1e6:.0f} MB.",
            extra / load.target_bytes,
            False,
        )


def _unraced(probe: Probe, best: Estimate, wording: Wording) -> Iterator[AdviceReason]:
    """What never raced promises more than what did: mostly time ran out before."""
    fresh = challengers(probe) if probe.finalists else ()
    if not fresh:
        return
    found = estimate(probe, fresh[0])
    if found.speedup >= max(MIN_GAIN, (1 + LOSS) * best.speedup):
        yield AdviceReason(
            "unraced",
            f"{wording.candidate(found.candidate)} promises {wording.factor(found.speedup)} by "
            "theory, but has not raced: with more seconds it may.",
            found.speedup,
            True,
        )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
