"""A meter that both lanes of a run feed, one record at a time; it answers at any moment.

Knows no model and no chart. Adding a record and asking are cheap (far below a millisecond), however
long the run, so a live page may ask after each event.
"""

from __future__ import annotations

from specviz.metrics.measured_costs import Costs, measured_costs, theory_band
from specviz.metrics.round_totals import RoundTotals, ratio
from specviz.metrics.run_summary import (
    BaselineSummary,
    Divergence,
    RunSummary,
    SpeculativeSummary,
    TheoryBand,
)
from specviz.metrics.speedup_curve import SpeedupCurve, SpeedupPoint
from specviz.records import BaselineStep, FinishReason, Prefill, Round


class RunMeter:
    """Takes the records of both lanes as they come, in any order between the lanes."""

    def __init__(self, temperature: float = 0.0) -> None:
        self.totals = RoundTotals()
        self.curve = SpeedupCurve()
        self._temperature = temperature
        self._prefill: Prefill | None = None
        self._baseline_prefill: Prefill | None = None
        self._baseline_seconds = 0.0  # of the steps: without the prefill
        self._ids: list[int] = []
        self._baseline_ids: list[int] = []
        self._margins: list[float] = []
        self._finish: FinishReason | None = None
        self._baseline_finish: FinishReason | None = None
        self._compared = 0
        self._divergence: Divergence | None = None

    def add_prefill(self, prefill: Prefill) -> None:
        self._prefill = prefill
        self._ids.append(prefill.extra.token_id)
        self.curve.add_speculative(prefill.seconds, 1)
        self._compare()

    def add_round(self, round_: Round) -> None:
        ids = round_.emitted_ids
        self.totals.add(round_)
        self._ids.extend(ids)
        self.curve.add_speculative(round_.seconds, len(ids))
        self._compare()

    def add_finish(self, finish: FinishReason) -> None:
        self._finish = finish
        self._compare()

    def add_baseline_prefill(self, prefill: Prefill) -> None:
        self._baseline_prefill = prefill
        self._add_baseline(prefill.extra.token_id, prefill.position.margin, prefill.seconds)

    def add_baseline_step(self, step: BaselineStep) -> None:
        self._baseline_seconds += step.seconds
        self._add_baseline(step.token_id, step.margin, step.seconds)

    def add_baseline_finish(self, finish: FinishReason) -> None:
        self._baseline_finish = finish
        self._compare()

    def _add_baseline(self, token_id: int, margin: float, seconds: float) -> None:
        self._baseline_ids.append(token_id)
        self._margins.append(margin)
        self.curve.add_baseline(seconds)
        self._compare()

    def _compare(self) -> None:
        while self._divergence is None and self._compared < self._comparable:
            here = slice(self._compared, self._compared + 1)  # empty where a lane has ended
            if self._ids[here] != self._baseline_ids[here]:
                margin = next(iter(self._margins[here]), None)
                self._divergence = Divergence(self._compared, margin)
            self._compared += 1

    @property
    def _comparable(self) -> int:
        """Tokens that both lanes have; once both have finished, those that either has."""
        lengths = len(self._ids), len(self._baseline_ids)
        ended = _is_end(self._finish) and _is_end(self._baseline_finish)
        return max(lengths) if ended and min(lengths) else min(lengths)

    @property
    def points(self) -> tuple[SpeedupPoint, ...]:
        """The cumulative speedup so far."""
        return tuple(self.curve.points)

    @property
    def divergence(self) -> Divergence | None:
        """The first difference at any temperature (the summary shows it at 0 only)."""
        return self._divergence

    @property
    def costs(self) -> Costs | None:
        """Measured against the mean baseline step; None until both lanes have taken one."""
        steps = len(self._baseline_ids) - 1
        return measured_costs(self.totals, self._baseline_seconds / steps) if steps > 0 else None

    @property
    def theory_band(self) -> TheoryBand | None:
        costs = self.costs
        return theory_band(self.totals, costs) if costs else None

    def summary(self) -> RunSummary:
        baseline, speculative = self._baseline(), self._speculative()
        costs, band = self.costs, self.theory_band
        rates = (speculative.tokens_per_second, baseline.tokens_per_second)
        at_zero = self._temperature == 0
        return RunSummary(
            baseline=baseline,
            speculative=speculative,
            speedup=rates[0] / rates[1] if rates[0] and rates[1] else None,
            cost_ratio=costs.c if costs else None,
            verify_overhead=costs.v if costs else None,
            theory_speedup=band.expected if band else None,
            theory_band=band,
            compared=self._compared,
            identical=self._divergence is None if at_zero and self._compared else None,
            first_divergence=self._divergence if at_zero else None,
        )

    def _baseline(self) -> BaselineSummary:
        prefill, tokens = self._baseline_prefill, len(self._baseline_ids)
        ttft = prefill.seconds if prefill else None
        seconds = self._baseline_seconds + (ttft or 0.0)
        return BaselineSummary(tokens, seconds, ratio(tokens, seconds), ttft)

    def _speculative(self) -> SpeculativeSummary:
        totals, prefill, tokens = self.totals, self._prefill, len(self._ids)
        ttft = prefill.seconds if prefill else None
        seconds = totals.seconds + (ttft or 0.0)
        return SpeculativeSummary(
            tokens=tokens,
            seconds=seconds,
            tokens_per_second=ratio(tokens, seconds),
            ttft_seconds=ttft,
            target_forwards=totals.rounds + (prefill is not None),
            acceptance_rate=totals.acceptance_rate,
            draft_utilization=totals.draft_utilization,
            block_efficiency=totals.block_efficiency,
            acceptance_by_depth=totals.acceptance_by_depth,
            draft_seconds=totals.draft_seconds,
            verify_seconds=totals.verify_seconds,
            host_seconds=totals.host_seconds,
        )


def _is_end(finish: FinishReason | None) -> bool:
    return finish not in (None, FinishReason.STOPPED)
