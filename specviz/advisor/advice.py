"""Speculate or not, with what, and what to expect: from a probe to advice, with its reasons.

Pure; runs nothing. Of the candidates that stayed in the race to its end the fastest is chosen;
before any race the one with the highest predicted speedup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specviz.advisor.estimate import Estimate, estimate
from specviz.advisor.probe import Candidate, Probe, Refusal
from specviz.advisor.reasons import Reason, reasons
from specviz.advisor.wording import TYPED, Wording

LENGTHS = (1, 2, 3, 5, 8, 12)  # the draft lengths that are weighed
MIN_GAIN = 1.05  # of the speedup: for less a second way to decode is not worth its trouble


@dataclass(frozen=True, slots=True)
class Advice:
    """`best` is what to use if at all; `ranking` all candidates, those that raced first.

    `refusals` are the methods that the pair cannot run; `wording` is that of its sentences.
    """

    speculate: bool
    best: Estimate
    ranking: tuple[Estimate, ...]
    reasons: tuple[Reason, ...]
    refusals: tuple[Refusal, ...]
    wording: Wording = TYPED

    @property
    def verdict(self) -> str:
        """One sentence."""
        best, factor = self.best, self.wording.factor
        name, gain = self.wording.candidate(best.candidate), factor(best.speedup)
        interval = f"{factor(best.low)} to {factor(best.high)}"
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
            "refusals": [asdict(each) for each in self.refusals],
        }


def advise(
    probe: Probe, lengths: tuple[int, ...] = LENGTHS, wording: Wording = TYPED
) -> Advice | None:
    """None before any method was probed."""
    ranking = ranked(probe, lengths)
    if not ranking:
        return None
    best = ranking[0]
    speculate = best.speedup >= MIN_GAIN
    found = reasons(probe, best, speculate, wording)
    return Advice(speculate, best, ranking, found, probe.refusals, wording)


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
    return tuple(sorted(found, key=lambda each: (_place(probe, each), -each.speedup)))


def _place(probe: Probe, found: Estimate) -> int:
    return 0 if found.candidate in probe.finalists else 1 if found.races else 2
