"""Probes a pair on some prompts and races the best candidates, until the advice stands.

Yields after every run, so that whoever iterates can show progress and stop at any moment: the
advice so far is there at any time. First every method drafts at one length, those that can be
fastest first, then at another those that may still win; theory predicts the others; the best few
race the baseline at the real output length in passes. After each, those that are surely slower than
the best leave, and what now promises more than any joins. Knows nothing of how advice is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from specviz.advisor.advice import (
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
PROBED = (8, 2)  # draft lengths, the longer one first
SECOND = 5  # methods that are probed at the shorter one too
PROBE_SHARE = 0.6  # of the time; what is left is for the race
FEWEST_TOKENS, MOST_TOKENS = 16, 32  # of a probed prompt
RUN_SHARE = 1 / 100  # of the time that a probed run of the baseline may take, roughly
PROMPTS = 2  # of a probed run, 1 where time is short; in a batch, so many batches
DRAFTED = 1.5  # of a baseline run's time: what a probed run may take, its drafter's prompt included
GROUP = 3  # candidates beside one run of the baseline
FINALISTS = 6  # and those that challenge them, at the most
MOST_PASSES = 8


@dataclass(frozen=True, slots=True)
class AdviceStep:
    """Progress: `stage` is "probe" or "race", `doing` what ran last.

    `seconds_left` is the rest of the time that was given, or None where it is used up.
    """

    stage: str
    doing: str
    seconds: float
    seconds_left: float | None


class Advising:
    """One run of measurements. Iterate it once; `advice()` may be called at any time."""

    def __init__(
        self,
        request: AdviceRequest,
        seconds: float = DEFAULT_SECONDS,
        wording: Wording = TYPED,
    ) -> None:
        """Load the target and measure its forwards; InputError for what a user can mend."""
        if not math.isfinite(seconds) or not seconds > 0:
            raise InputError(f"seconds must be a positive number, got {seconds:g}")
        self._request = request
        self._seconds = seconds
        self._wording = wording
        self._began = own_time()
        self._prompts = PROMPTS
        self.probe: Probe = first_probe(request)
        self._warmed = self._probed = 0.0  # seconds until the first probe, and until the last

    def __iter__(self) -> Iterator[AdviceStep]:
        self._began = own_time()
        yield from self._probe_methods()
        yield from self._probe_greedy()
        yield from self._race()

    def advice(self) -> Advice | None:
        """From the measurements so far; None before the first method was measured."""
        return advise(self.probe, wording=self._wording, untried=self._untried)

    # --- probe

    def _probe_methods(self) -> Iterator[AdviceStep]:
        """Every method at the longer draft length, then those that may win at the shorter one."""
        run_baseline(self._request, self._request.texts(self._rows(1)), FEWEST_TOKENS, 0)  # warm-up
        methods = likely_first(self._request.pair, self._request.methods)
        self._prompts = self._prompts_in_time(len(methods), self._spent / FEWEST_TOKENS)
        self._warmed = self._spent
        yield from self._probe([candidate_of(each, PROBED[0]) for each in methods])
        self._probed = self._spent
        yield from self._probe([candidate_of(each, PROBED[1]) for each in self._hopeful()])

    def _prompts_in_time(self, methods: int, token_seconds: float) -> int:
        """PROMPTS where all methods are likely to be probed in time, else 1."""
        runs = DRAFTED * methods + math.ceil(methods / GROUP)
        whole = runs * PROMPTS * self._probe_tokens * token_seconds
        return PROMPTS if self._spent + whole < PROBE_SHARE * self._seconds else 1

    def _hopeful(self) -> Sequence[str]:
        """The best methods whose intervals reach up to the best estimate; two at the least."""
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
        """Methods that the pair can run and that have not been tried so far, but some have."""
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
        """All on the same prompts, a few beside each run of the baseline."""
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
        """Whether the rest of the time belongs to the race; one method is probed in any case."""
        return bool(self.probe.runs) and self._spent > PROBE_SHARE * self._seconds

    @property
    def _probe_tokens(self) -> int:
        """How many tokens to decode per prompt."""
        step = self.probe.batch_curve.at(1)
        fits = round(self._seconds * RUN_SHARE / step / PROMPTS)
        return min(MOST_TOKENS, max(FEWEST_TOKENS, fits))

    def _probe_one(
        self, candidate: Candidate, prompts: Sequence[Prompt], tokens: int, block: int
    ) -> Iterator[AdviceStep]:
        """None where the method is refused, which is noted."""
        try:
            self._add(run_candidate(self._request, candidate, prompts, tokens, block))
        except InputError as error:
            share = shared_share(self._request, candidate.method)
            self._refuse(Refusal(candidate.method, " ".join(str(error).split()), share))
            return
        self._probed = self._spent
        yield self._step("probe", self._wording.candidate(candidate))

    def _probe_greedy(self) -> Iterator[AdviceStep]:
        """Above temperature 0: the best method's first run again at 0, to tell what it costs."""
        ranking = ranked(self.probe)
        if not ranking or self.probe.workload.temperature == 0:
            return
        request = replace(self._request, config=replace(self._request.config, temperature=0.0))
        warm = self.probe.of_method(ranking[0].candidate.method)[0]
        found = run_candidate(request, warm.candidate, warm.prompts, self._probe_tokens, warm.block)
        self.probe = replace(self.probe, greedy=(found,))
        name = self._wording.method(warm.candidate.method)
        yield self._step("probe", f"{name} at temperature 0")

    # --- race

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
        """The racers over the same prompts, a few beside each run of the baseline.

        The next pass has all of them backwards.
        """
        groups = [racers[at : at + GROUP] for at in range(0, len(racers), GROUP)]
        for group in reversed(groups) if backwards else groups:
            yield from self._few(group, prompts, tokens, backwards)

    def _few(
        self, group: Sequence[Candidate], prompts: Sequence[Prompt], tokens: int, backwards: bool
    ) -> Iterator[AdviceStep]:
        """Runs count only together with their baseline: without it they say nothing."""
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
        """Of each of the best methods the best length; none where all surely lose."""
        ranking = ranked(self.probe)
        if not ranking or max(each.high for each in ranking) < 1:
            return []
        best: dict[str, Candidate] = {}
        for each in ranking:
            best.setdefault(each.candidate.method, each.candidate)
        return list(best.values())[:FINALISTS]

    def _race_size(self, racers: int) -> tuple[int, int]:
        """Tokens of a prompt, and how many groups of rows a pass takes.

        About three passes of all racers fill the time that is left; more as some leave.
        """
        left = max(1.0, self._seconds - self._spent)
        per_run = left / (3 * (1 + racers))
        step, wanted = self.probe.batch_curve.at(1), self._request.config.max_new_tokens
        fits = max(FEWEST_TOKENS, int(per_run / step))
        if wanted >= fits:
            return fits, 1
        groups = max(1, len(self._request.prompts) // self._request.batch_size)
        return wanted, min(groups, fits // wanted)

    # --- both

    def _rows(self, groups: int) -> int:
        """Prompts in so many groups; alone, each prompt is one."""
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
    """Of a pass: each racer's, and the baseline's beside every few of them."""
    return len(racers) + math.ceil(len(racers) / GROUP)
