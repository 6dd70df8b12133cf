"""The advisor's measurements: it probes a pair on some prompts, then races the best candidates.

First every method drafts at one draft length, beginning with the methods that are probably the
fastest. Methods that may still win then draft at a second length. Theory predicts the speedups at
other lengths. A candidate is a method with a draft length. The best few candidates race the
baseline in several passes at the real output length. After each pass, the candidates that are
certainly slower than the best leave the race. A candidate outside the race joins it if its
predicted speedup is now higher than that of every racer.

The iterator yields after every run, so that the caller can show progress and stop at any moment.
The current advice is always available. This module does not know how advice is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from specviz.advisor.advice import (
    LENGTHS,
    TYPED,
    Advice,
    Untried,
    Wording,
    advise,
    challengers,
    contenders,
    ranked,
)
from specviz.advisor.probe import BaselineRun, Candidate, CandidateRun, Probe, Refusal
from specviz.errors import InputError
from specviz.experiments.advice.likely_order import likely_first
from specviz.experiments.advice.probing import (
    AdviceRequest,
    candidate_of,
    first_probe,
    run_baseline,
    run_candidate,
    shared_share,
)
from specviz.records import Prompt
from specviz.slices import own_time

DEFAULT_SECONDS = 45.0
PROBED = (8, 2)  # draft lengths of the probe, the longer one first
SECOND = 5  # largest number of methods that are also probed at the shorter draft length in PROBED
PROBE_SHARE = 0.6  # share of the user's time limit for the probe; the rest is for the race
# The smallest and the largest number of tokens that the probe decodes per prompt.
FEWEST_TOKENS, MOST_TOKENS = 16, 32
# approximate share of the time limit that one probed run of the baseline may take
RUN_SHARE = 1 / 100
# The number of prompts in a probed run, or the number of batches if prompts are decoded in batches.
# If time is short, a probed run has only one prompt or batch.
PROMPTS = 2
# The assumed time of a probed run of a candidate, including its prefill. The unit is the time of a
# probed run of the baseline.
DRAFTED = 1.5
GROUP = 3  # largest number of candidates that share one run of the baseline
FINALISTS = 6  # largest number of candidates in the race, including candidates that join it later
MOST_PASSES = 8


@dataclass(frozen=True, slots=True)
class AdviceStep:
    """A progress step: `stage` is "probe" or "race", and `doing` names the run that just ended.

    `seconds_left` is the remaining time. It is None if all time is used.
    """

    stage: str
    doing: str
    seconds: float
    seconds_left: float | None


class Advising:
    """One run of the advisor: iterate over it once; `advice()` may be called at any time."""

    def __init__(
        self,
        request: AdviceRequest,
        seconds: float = DEFAULT_SECONDS,
        wording: Wording = TYPED,
    ) -> None:
        """Load the target and time its forward passes. Raises InputError for invalid settings."""
        if not math.isfinite(seconds) or not seconds > 0:
            raise InputError(f"seconds must be a positive number, got {seconds:g}")
        self._request = request
        self._seconds = seconds
        self._wording = wording
        self._began = own_time()
        self._prompts = PROMPTS
        self.probe: Probe = first_probe(request)
        # The times at which the first probe began and the last one ended, in seconds since the
        # advisor started.
        self._warmed = self._probed = 0.0

    def __iter__(self) -> Iterator[AdviceStep]:
        self._began = own_time()
        yield from self._probe_methods()
        yield from self._probe_greedy()
        yield from self._race()

    def advice(self) -> Advice | None:
        """Return the advice so far; None before the first method was measured."""
        before = self._request.before
        lengths = LENGTHS if before is None else tuple(sorted({*LENGTHS, before.draft_length}))
        return advise(self.probe, lengths, self._wording, self._untried, before)

    def _probe_methods(self) -> Iterator[AdviceStep]:
        """Probe all methods at the longer draft length in PROBED.

        Methods that may still be the fastest are then probed again, at the shorter draft length.
        """
        # The first run is not measured, because the first forwards of a process are slow.
        run_baseline(self._request, self._request.texts(self._rows(1)), FEWEST_TOKENS, 0)
        methods = likely_first(self._request.pair, self._request.methods)
        self._prompts = self._prompts_in_time(len(methods), self._spent / FEWEST_TOKENS)
        self._warmed = self._spent
        yield from self._probe(self._first_candidates(methods))
        self._probed = self._spent
        yield from self._probe([candidate_of(each, PROBED[1]) for each in self._hopeful()])

    def _first_candidates(self, methods: Sequence[str]) -> list[Candidate]:
        """Return each method at the longer draft length in PROBED.

        If the request contains the fastest setting of an earlier sweep, that setting comes first.
        """
        before = self._request.before
        usual = [candidate_of(each, PROBED[0]) for each in methods]
        if before is None or before.method not in methods:
            return usual
        first = candidate_of(before.method, before.draft_length)
        return [first, *(each for each in usual if each != first)]

    def _prompts_in_time(self, methods: int, token_seconds: float) -> int:
        """Return PROMPTS if there is probably time to probe all methods, otherwise 1."""
        runs = DRAFTED * methods + math.ceil(methods / GROUP)
        whole = runs * PROMPTS * self._probe_tokens * token_seconds
        return PROMPTS if self._spent + whole < PROBE_SHARE * self._seconds else 1

    def _hopeful(self) -> Sequence[str]:
        """Return at most SECOND methods that may still be the fastest.

        Such a method has a speedup interval whose upper end is above the best estimated speedup.
        The two best methods are always returned.
        """
        ranking = ranked(self.probe)
        highs: dict[str, float] = {}
        for each in ranking:
            method = each.candidate.method
            highs[method] = max(each.high, highs.get(method, 0.0))
        names = [
            method
            for place, (method, high) in enumerate(highs.items())
            if place < 2 or high > ranking[0].speedup
        ]
        return names[:SECOND]

    @property
    def _untried(self) -> Untried | None:
        """Return the methods that the pair can run but that had no probe yet.

        The result is None if there are none, or if no method was probed at all.
        """
        refused = {each.method for each in self.probe.refusals}
        usable = [each for each in self._request.methods if each not in refused]
        missing = tuple(each for each in usable if not self.probe.of_method(each))
        tried = len(usable) - len(missing)
        if not missing or not tried:
            return None
        each_took = (self._probed - self._warmed) / tried
        seconds = (self._warmed + each_took * len(usable)) / PROBE_SHARE
        return Untried(missing, tried, 5 * math.ceil(seconds / 5))

    def _probe(self, candidates: Sequence[Candidate]) -> Iterator[AdviceStep]:
        """Run all candidates on one set of prompts.

        A run of the baseline precedes every GROUP candidates.
        """
        tokens = self._probe_tokens
        first = self._rows(len(self.probe.baselines))
        prompts = self._request.texts(self._rows(self._prompts), first)
        for at in range(0, len(candidates), GROUP):
            if self._is_late:
                return
            block = len(self.probe.baselines)
            self._add(run_baseline(self._request, prompts, tokens, block))
            yield self._step("probe", "the baseline")
            for candidate in candidates[at : at + GROUP]:
                if not self._is_late:
                    yield from self._probe_one(candidate, prompts, tokens, block)

    @property
    def _is_late(self) -> bool:
        """Return whether the probe has used up its share of the time limit.

        The result is False until one method has been probed, because advice needs at least one.
        """
        return bool(self.probe.runs) and self._spent > PROBE_SHARE * self._seconds

    @property
    def _probe_tokens(self) -> int:
        """Return how many tokens the probe decodes per prompt."""
        step = self.probe.batch_curve.at(1)
        fits = round(self._seconds * RUN_SHARE / step / PROMPTS)
        return min(MOST_TOKENS, max(FEWEST_TOKENS, fits))

    def _probe_one(
        self, candidate: Candidate, prompts: Sequence[Prompt], tokens: int, block: int
    ) -> Iterator[AdviceStep]:
        """Probe one candidate.

        If the pair cannot run its method, record the reason and yield nothing.
        """
        try:
            self._add(run_candidate(self._request, candidate, prompts, tokens, block))
        except InputError as error:
            share = shared_share(self._request, candidate.method)
            self._refuse(Refusal(candidate.method, " ".join(str(error).split()), share))
            return
        self._probed = self._spent
        yield self._step("probe", self._wording.candidate(candidate))

    def _probe_greedy(self) -> Iterator[AdviceStep]:
        """Probe the best method again at temperature 0, unless the user asked for temperature 0."""
        ranking = ranked(self.probe)
        if not ranking or self.probe.workload.temperature == 0:
            return
        request = replace(self._request, config=replace(self._request.config, temperature=0.0))
        warm = self.probe.of_method(ranking[0].candidate.method)[0]
        found = run_candidate(request, warm.candidate, warm.prompts, self._probe_tokens, warm.block)
        self.probe = replace(self.probe, greedy=(found,))
        name = self._wording.method(warm.candidate.method)
        yield self._step("probe", f"{name} at temperature 0")

    def _race(self) -> Iterator[AdviceStep]:
        racers = self._first_racers()
        if not racers:
            return
        tokens, groups = self._race_size(len(racers))
        for number in range(MOST_PASSES):
            began = own_time()
            prompts = self._request.texts(self._rows(groups), number * self._rows(groups))
            yield from self._pass(racers, prompts, tokens, number % 2 == 1)
            per_run = (own_time() - began) / _runs(racers)
            self.probe = replace(self.probe, finalists=contenders(self.probe, racers))
            racers = (*self.probe.finalists, *challengers(self.probe))[:FINALISTS]
            if self._spent + per_run * _runs(racers) > self._seconds:
                return

    def _pass(
        self, racers: Sequence[Candidate], prompts: Sequence[Prompt], tokens: int, backwards: bool
    ) -> Iterator[AdviceStep]:
        """Run every candidate of the race on the prompts.

        One run of the baseline precedes every GROUP candidates. If `backwards` is True, everything
        runs in reverse order.
        """
        groups = [racers[at : at + GROUP] for at in range(0, len(racers), GROUP)]
        for group in reversed(groups) if backwards else groups:
            yield from self._few(group, prompts, tokens, backwards)

    def _few(
        self, group: Sequence[Candidate], prompts: Sequence[Prompt], tokens: int, backwards: bool
    ) -> Iterator[AdviceStep]:
        """Run at most GROUP candidates and their baseline.

        The runs are recorded together when the last one has ended, so that every recorded candidate
        has a baseline.
        """
        block = len(self.probe.baselines)
        found: list[CandidateRun] = []
        plain: list[BaselineRun] = []
        order: list[Candidate | None] = [None, *group]
        for each in reversed(order) if backwards else order:
            if each is None:
                plain.append(run_baseline(self._request, prompts, tokens, block))
                yield self._step("race", "the baseline")
            else:
                found.append(
                    run_candidate(self._request, each, prompts, tokens, block, is_race=True)
                )
                yield self._step("race", self._wording.candidate(each))
        self._add(*plain, *found)

    def _first_racers(self) -> Sequence[Candidate]:
        """Return the best candidate of each method, for at most FINALISTS methods.

        The result is empty if all candidates are certainly slower than plain decoding.
        """
        ranking = ranked(self.probe)
        if not ranking or max(each.high for each in ranking) < 1:
            return []
        best: dict[str, Candidate] = {}
        for each in ranking:
            best.setdefault(each.candidate.method, each.candidate)
        return list(best.values())[:FINALISTS]

    def _race_size(self, racers: int) -> tuple[int, int]:
        """Return the tokens per prompt, and the number of batches, of one pass of the race.

        They are so large that about three passes of all racers fill the remaining time.
        """
        left = max(1.0, self._seconds - self._spent)
        per_run = left / (3 * (1 + racers))
        step, wanted = self.probe.batch_curve.at(1), self._request.config.max_new_tokens
        fits = max(FEWEST_TOKENS, int(per_run / step))
        if wanted >= fits:
            return fits, 1
        groups = max(1, len(self._request.prompts) // self._request.batch_size)
        return wanted, min(groups, fits // wanted)

    def _rows(self, groups: int) -> int:
        """Return the number of prompts in `groups` batches; the batch size may be 1."""
        return groups * self._request.batch_size

    def _add(self, *runs: BaselineRun | CandidateRun) -> None:
        plain = tuple(run for run in runs if isinstance(run, BaselineRun))
        found = tuple(run for run in runs if isinstance(run, CandidateRun))
        self.probe = replace(
            self.probe,
            baselines=(*self.probe.baselines, *plain),
            runs=(*self.probe.runs, *found),
        )

    def _refuse(self, refusal: Refusal) -> None:
        self.probe = replace(self.probe, refusals=(*self.probe.refusals, refusal))

    @property
    def _spent(self) -> float:
        return own_time() - self._began

    def _step(self, stage: str, doing: str) -> AdviceStep:
        left = self._seconds - self._spent
        return AdviceStep(stage, doing, self._spent, left if left > 0 else None)


def _runs(racers: Sequence[Candidate]) -> int:
    """Return the number of runs in a pass of the race.

    There is one run for each candidate, and one of the baseline for every GROUP of them.
    """
    return len(racers) + math.ceil(len(racers) / GROUP)
