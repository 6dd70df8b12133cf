"""A check of the advisor: it measures every setting and compares the fastest with the advice.

All settings run once. The advised setting and those close to the best then run in several passes.
Every second pass runs the settings in reverse order. A baseline runs after every few settings. This
module does not know how advice is made.
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
NEAR = 0.8  # share of the best speedup that a setting must reach to be measured again
PASSES = 3  # number of passes that measure the settings close to the best
FIRST_PROMPTS, PROMPTS = 2, 4  # number of prompts in the first pass, and in each later pass
MOST_NEAR = 8


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """The speedup of one setting: its median, smallest and largest value over the passes."""

    candidate: Candidate
    speedup: float
    spread: tuple[float, float]
    passes: int


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All measured settings, the fastest first, and the advised setting.

    `chosen` is None if the advice is not to speculate, which has a speedup of 1.
    """

    chosen: Candidate | None
    settings: tuple[MeasuredSetting, ...]

    @property
    def advised_speedup(self) -> float:
        """Return the advised setting's measured speedup; 1 if the advice is not to speculate."""
        found = (each.speedup for each in self.settings if each.candidate == self.chosen)
        return next(found, 1.0)

    @property
    def best_speedup(self) -> float:
        """Return the best speedup among the settings that ran in the largest number of passes.

        The result is at least 1, because plain decoding has a speedup of 1.
        """
        most = max((each.passes for each in self.settings), default=0)
        return max([1.0, *(each.speedup for each in self.settings if each.passes == most)])

    @property
    def reached(self) -> float:
        return self.advised_speedup / self.best_speedup

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready values."""
        return {
            "settings": [asdict(each) | {"spread": list(each.spread)} for each in self.settings],
            "advised_speedup": self.advised_speedup,
            "best_speedup": self.best_speedup,
            "reached": self.reached,
        }


class AdviceCheck:
    """One run of the check: iterate over it once, then call `result()`."""

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
        """Return the result of all passes that have ended so far."""
        found = [
            MeasuredSetting(each, median(ratios), (min(ratios), max(ratios)), len(ratios))
            for each, ratios in self._ratios.items()
        ]
        return CheckResult(self._chosen, tuple(sorted(found, key=lambda each: -each.speedup)))

    def _warm(self) -> list[Candidate]:
        """Run each method for a few tokens; return the settings whose method runs on this pair."""
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
        """Return the settings to measure again.

        They are the advised setting, and at most MOST_NEAR settings that reached the share NEAR of
        the best speedup in the first pass.
        """
        order = sorted(self._ratios, key=lambda each: -self._ratios[each][0])
        least = NEAR * self._ratios[order[0]][0]
        near = [each for each in order[:MOST_NEAR] if self._ratios[each][0] >= least]
        if self._chosen is None or self._chosen in near:
            return near
        return [*near, self._chosen]

    def _pass(self, settings: Sequence[Candidate], number: int) -> Iterator[str]:
        """Run every setting once and yield progress.

        Each speed is compared with the mean of the baselines that ran before and after it.
        """
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
        """Return the prompts of pass `number`: about PROMPTS, and a multiple of the batch size.

        Each pass takes the prompts that follow those of the pass before. If the request has too few
        prompts, they are used again.
        """
        size = self._request.batch_size
        count = max(1, (PROMPTS if number else FIRST_PROMPTS) // size) * size
        return self._request.texts(count, number * count)
