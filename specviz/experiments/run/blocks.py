"""Speed of a setting against its baseline, measured in blocks: baseline, speculative, speculative,
baseline, … so that a slow drift of the machine hits both alike.

Ratios are medians over neighbouring blocks, of an even number the lower one: each was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from specviz.experiments.run.racing import Race, RaceRequest, start_race
from specviz.metrics import RunSummary, summarise
from specviz.records import BASELINE, SPECULATIVE, Trace
from specviz.slices import give_way, letting_by

WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Measurement:
    """One block of each lane per repeat; `trace` and the texts are those of `typical`."""

    trace: Trace
    baseline_text: str
    text: str
    summaries: tuple[RunSummary, ...]

    @property
    def speedups(self) -> tuple[float, ...]:
        """How much sooner as many tokens were there, one per repeat: see `RunSummary`."""
        return tuple(each.speedup for each in self.summaries if each.speedup is not None)

    @property
    def typical(self) -> RunSummary:
        """The repeat whose speedup is the median one."""
        return self.summaries[_typical(self.summaries)]

    @property
    def speedup(self) -> float:
        return median_low(self.speedups)

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest speedup of all repeats."""
        return min(self.speedups), max(self.speedups)


def measure(
    request: RaceRequest, repeats: int, progress: Callable[[str], None] = lambda line: None
) -> Measurement:
    """Run `repeats` (>= 1) pairs of blocks after a short warm-up of both lanes."""
    warm_up(request)
    races, summaries = [], []
    for repeat in range(repeats):
        race = run_lanes(request, alternating(repeat))
        races.append((race.trace(), race.text(BASELINE), race.text(SPECULATIVE)))
        summaries.append(summarise(races[-1][0]))
        progress(f"repeat {repeat + 1} of {repeats}: {summaries[-1].speedup:.2f}x")
        give_way()
    return Measurement(*races[_typical(summaries)], tuple(summaries))


def _typical(summaries: Sequence[RunSummary]) -> int:
    """Index of the one whose speedup is the lower median."""
    ordered = sorted(range(len(summaries)), key=lambda index: summaries[index].speedup or 0.0)
    return ordered[(len(ordered) - 1) // 2]


def alternating(repeat: int) -> tuple[str, ...]:
    """Baseline first, then speculative first, …"""
    lanes = (BASELINE, SPECULATIVE)
    return lanes if repeat % 2 == 0 else lanes[::-1]


def warm_up(request: RaceRequest) -> None:
    """Decode a few tokens in both lanes, untimed: the first forwards are slow."""
    tokens = min(WARM_UP_TOKENS + request.config.draft_length, request.config.max_new_tokens)
    short = replace(request, config=replace(request.config, max_new_tokens=tokens))
    run_lanes(short, alternating(0))


def run_lanes(request: RaceRequest, order: Sequence[str]) -> Race:
    """One prompt in each lane of `order`, one after the other, to its end."""
    race = start_race(request)
    try:
        for lane in order:
            for _ in letting_by(race.run_lane(lane)):
                pass
    finally:
        race.close()
    return race
