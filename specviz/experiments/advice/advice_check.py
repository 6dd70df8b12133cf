"""Measures every setting that the advisor could have chosen, beside its choice.

All settings run once; those near the best, and the chosen one, then run in passes of alternating
order, the baseline between every few of them. Knows nothing of how advice comes about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from specviz.advisor.probe import Candidate
from specviz.errors import InputError
from specviz.experiments.advice.probing import (
    AdviceRequest,
    candidate_of,
    run_baseline,
    run_candidate,
)
from specviz.records import MAX_TREE_NODES, Prompt

WARM_UP_TOKENS = 8
NEAR = 0.8  # of the best speedup: settings above it are measured again
PASSES = 3  # over the settings near the best
FIRST_PROMPTS, PROMPTS = 2, 4  # of the first pass, and of the others
MOST_NEAR = 8


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """A setting's median speedup over its passes, with the smallest and the largest."""

    candidate: Candidate
    speedup: float
    spread: tuple[float, float]
    passes: int


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`settings` are sorted, fastest first; advice not to speculate has a speedup of 1."""

    chosen: Candidate | None
    settings: tuple[MeasuredSetting, ...]

    @property
    def advised_speedup(self) -> float:
        """What the advice gives; 1 for not speculating."""
        found = (each.speedup for each in self.settings if each.candidate == self.chosen)
        return next(found, 1.0)

    @property
    def best_speedup(self) -> float:
        """The best of the settings measured most often, so that luck does not count; at least 1."""
        most = max((each.passes for each in self.settings), default=0)
        return max([1.0, *(each.speedup for each in self.settings if each.passes == most)])

    @property
    def reached(self) -> float:
        return self.advised_speedup / self.best_speedup

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "settings": [asdict(each) | {"spread": list(each.spread)} for each in self.settings],
            "advised_speedup": self.advised_speedup,
            "best_speedup": self.best_speedup,
            "reached": self.reached,
        }


class AdviceCheck:
    """One run of the check. Iterate it once, then call `result()`."""

    def __init__(
        self, request: AdviceRequest, chosen: Candidate | None, lengths: Sequence[int]
    ) -> None:
        self._request = request
        self._chosen = chosen
        grid = (candidate_of(method, k) for method in request.methods for k in lengths)
        settings = [each for each in grid if each.node_count <= MAX_TREE_NODES]
        self._settings = list(dict.fromkeys([*settings, *([chosen] if chosen else [])]))
        self._ratios: dict[Candidate, list[float]] = {}

    def __iter__(self) -> Iterator[str]:
        yield from self._pass(self._warm(), 0)
        near = self._near()
        for number in range(1, PASSES + 1):
            yield from self._pass(near if number % 2 == 0 else near[::-1], number)

    def result(self) -> CheckResult:
        """From what has run."""
        found = [
            MeasuredSetting(each, median(ratios), (min(ratios), max(ratios)), len(ratios))
            for each, ratios in self._ratios.items()
        ]
        return CheckResult(self._chosen, tuple(sorted(found, key=lambda each: -each.speedup)))

    def _warm(self) -> list[Candidate]:
        """The settings that this pair can run; a few tokens of each method count for nothing."""
        refused = set()
        for method in self._request.methods:
            try:
                run_candidate(
                    self._request, candidate_of(method, 2), self._prompts(0), WARM_UP_TOKENS, 0
                )
            except InputError:
                refused.add(method)
        return [each for each in self._settings if each.method not in refused]

    def _near(self) -> list[Candidate]:
        """The best of the first pass, and the chosen one."""
        order = sorted(self._ratios, key=lambda each: -self._ratios[each][0])
        least = NEAR * self._ratios[order[0]][0]
        near = [each for each in order[:MOST_NEAR] if self._ratios[each][0] >= least]
        if self._chosen is None or self._chosen in near:
            return near
        return [*near, self._chosen]

    def _pass(self, settings: Sequence[Candidate], number: int) -> Iterator[str]:
        """Every setting once, each beside the mean of the baselines before and behind it."""
        prompts, tokens = self._prompts(number), self._request.config.max_new_tokens
        rate = self._baseline_rate(prompts, tokens)
        for at in range(0, len(settings), 4):
            found = {}
            for each in settings[at : at + 4]:
                run = run_candidate(self._request, each, prompts, tokens, 0)
                found[each] = run.tokens / run.total_seconds
            later = self._baseline_rate(prompts, tokens)
            for each, own in found.items():
                self._ratios.setdefault(each, []).append(own / fmean((rate, later)))
            rate = later
            yield f"pass {number + 1} of {1 + PASSES}: {at + len(found)} of {len(settings)}"

    def _baseline_rate(self, prompts: Sequence[Prompt], tokens: int) -> float:
        run = run_baseline(self._request, prompts, tokens, 0)
        return run.tokens / run.total_seconds

    def _prompts(self, number: int) -> tuple[Prompt, ...]:
        """As many as are near PROMPTS a pass, whole batches, going on from pass to pass."""
        size = self._request.batch_size
        count = max(1, (PROMPTS if number else FIRST_PROMPTS) // size) * size
        return self._request.texts(count, number * count)
