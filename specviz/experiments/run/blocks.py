"""The speedup of a setting over plain decoding, in blocks that alternate between the lanes.

A block decodes the prompt once in one lane. The blocks run in the order baseline, speculative,
speculative, baseline, … If the machine slowly gets faster or slower, this therefore affects both
lanes alike. The numbers that are shown come from one repeat, so that they agree with each other:
see `repeats`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from specviz.experiments.run.racing import Race, RaceRequest, start_race
from specviz.experiments.run.repeats import Repeats, chosen, repeated
from specviz.metrics import RunSummary, summarise
from specviz.metrics.measured_costs import Costs, theory_speedup
from specviz.metrics.round_totals import RoundTotals
from specviz.records import BASELINE, SPECULATIVE, Trace
from specviz.slices import give_way, giving_way

WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement of a setting, with one block of each lane per repeat.

    The trace and the texts come from the repeat that is shown.
    """

    trace: Trace
    baseline_text: str
    text: str
    summaries: tuple[RunSummary, ...]

    @property
    def repeats(self) -> Repeats:
        return _chosen(self.summaries)

    @property
    def speedups(self) -> tuple[float, ...]:
        """Return the speedup of each counted repeat (see `Repeats`)."""
        return tuple(self.summaries[index].speedup or 0.0 for index in self.repeats.counted)

    @property
    def typical(self) -> RunSummary:
        """Return the summary of the repeat whose numbers are shown."""
        return self.summaries[self.repeats.shown]

    @property
    def speedup(self) -> float:
        return self.typical.speedup or 0.0

    @property
    def spread(self) -> tuple[float, float]:
        """Return the smallest and the largest speedup among the counted repeats (see `Repeats`)."""
        return min(self.speedups), max(self.speedups)

    @property
    def predicted_speedup(self) -> float | None:
        """Return the speedup that theory predicts from the costs of the other repeats.

        This is a real prediction for the shown repeat. The summary's `theory_speedup` only explains
        that repeat, because it uses the costs of the same repeat. The result is None if there are
        no other repeats.
        """
        shown = self.repeats.shown
        others = [self.summaries[index] for index in self.repeats.counted if index != shown]
        costs = [
            (each.cost_ratio, each.verify_overhead)
            for each in others
            if each.cost_ratio is not None and each.verify_overhead is not None
        ]
        totals = RoundTotals(self.trace.rounds)
        if not costs or totals.acceptance_rate is None:
            return None
        c, v = (fmean(part) for part in zip(*costs, strict=True))
        return theory_speedup(totals.acceptance_rate, totals, Costs(c, v))


@dataclass(frozen=True, slots=True)
class _LanesOfRepeat:
    trace: Trace
    baseline_text: str
    text: str
    summary: RunSummary


def measure(
    request: RaceRequest, repeats: int, progress: Callable[[str], None] = lambda line: None
) -> Measurement:
    """Run `repeats` (>= 1) blocks of each lane in alternation, after a short warm-up.

    If other work disturbed some repeat, further repeats follow, at most `repeats` of them.
    """
    warm_up(request)

    def once(number: int) -> _LanesOfRepeat:
        race = run_lanes(request, alternating(number))
        trace = race.trace()
        summary = summarise(trace)
        again = ", impossible: other work disturbed it" if summary.is_disturbed else ""
        progress(f"repeat {number + 1} of {repeats}: {summary.speedup:.2f}x{again}")
        give_way()
        return _LanesOfRepeat(trace, race.text(BASELINE), race.text(SPECULATIVE), summary)

    blocks = repeated(once, lambda block: block.summary.is_disturbed, repeats)
    summaries = tuple(block.summary for block in blocks)
    shown = blocks[_chosen(summaries).shown]
    return Measurement(shown.trace, shown.baseline_text, shown.text, summaries)


def _chosen(summaries: Sequence[RunSummary]) -> Repeats:
    speedups = [each.speedup or 0.0 for each in summaries]
    return chosen(speedups, [each.is_disturbed for each in summaries])


def alternating(repeat: int) -> tuple[str, ...]:
    """Return the order of the lanes in a repeat.

    The baseline is first in even repeats, the speculative lane in odd ones.
    """
    lanes = (BASELINE, SPECULATIVE)
    return lanes if repeat % 2 == 0 else lanes[::-1]


def warm_up(request: RaceRequest) -> None:
    """Decode a few tokens in both lanes before any measurement, because first forwards are slow."""
    tokens = min(WARM_UP_TOKENS + request.config.draft_length, request.config.max_new_tokens)
    short = replace(request, config=replace(request.config, max_new_tokens=tokens))
    run_lanes(short, alternating(0))


def run_lanes(request: RaceRequest, order: Sequence[str]) -> Race:
    """Run one prompt to its end in each lane of `order`, one lane after the other."""
    race = start_race(request)
    try:
        for lane in order:
            for _ in giving_way(race.run_lane(lane)):
                pass
    finally:
        race.close()
    return race
