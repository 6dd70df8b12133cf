"""A meter that all lanes of a run feed, one event at a time; it answers at any moment.

Adding an event and asking are cheap (far below a millisecond), however long the run, so a live page
may ask after each event.
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
from specviz.records import (
    PLAIN_SERVER,
    SERVER,
    EngineToken,
    Event,
    FinishReason,
    Prefill,
    Round,
    TokenStep,
    Trace,
)


class LaneMeter:
    """Running sums over one lane."""

    def __init__(self) -> None:
        self.totals = RoundTotals()
        self.ids: list[int] = []
        self.margins: list[float | None] = []  # of each token; None where it is not recorded
        self.steps = 0
        self.step_seconds = 0.0
        self.ttft_seconds: float | None = None
        self.finish: FinishReason | None = None

    def add(self, event: Event) -> None:
        match event:
            case Prefill():
                self.ttft_seconds = event.seconds
                self._append((event.extra.token_id,), event.position.margin)
            case Round():
                self.totals.add(event)
                self._append(event.emitted_ids, None)
            case TokenStep():
                self.steps += 1
                self.step_seconds += event.seconds
                self._append((event.token_id,), event.margin)
            case EngineToken() if self.ttft_seconds is None:
                self.ttft_seconds = event.seconds
                self._append((event.token_id,), None)
            case EngineToken():
                self.step_seconds += event.seconds
                self._append((event.token_id,), None)
            case FinishReason():
                self.finish = event

    def _append(self, ids: tuple[int, ...], margin: float | None) -> None:
        self.ids.extend(ids)
        self.margins.extend([margin] * len(ids))

    @property
    def tokens(self) -> int:
        return len(self.ids)

    @property
    def seconds(self) -> float:
        """The lane's own time so far."""
        return self.totals.seconds + self.step_seconds + (self.ttft_seconds or 0.0)

    @property
    def is_ended(self) -> bool:
        """Whether the text has ended, not only the run."""
        return self.finish not in (None, FinishReason.STOPPED)


class RunMeter:
    """Takes the events of all lanes of `header` as they come, in any order between the lanes.

    The summary compares the main lane with the baseline; any other lane has a meter of its own in
    `lanes`.
    """

    def __init__(self, header: Trace) -> None:
        self.lanes = {lane.name: LaneMeter() for lane in header.lanes}
        self.curve, self.server_curve = SpeedupCurve(), SpeedupCurve()
        self._is_greedy = header.config.temperature == 0
        self._baseline_name = header.baseline.name if header.baseline else None
        self._main_name = header.main.name
        self._main = self.lanes[self._main_name]
        self._baseline = self.lanes[self._baseline_name] if self._baseline_name else LaneMeter()
        self._compared = 0
        self._divergence: Divergence | None = None

    def add(self, lane: str, event: Event) -> None:
        """What the lane of that name did."""
        meter = self.lanes[lane]
        before = meter.tokens
        meter.add(event)
        if not isinstance(event, FinishReason):
            if lane == self._baseline_name:
                self.curve.add_baseline(event.seconds)
            elif lane == self._main_name:
                self.curve.add_speculative(event.seconds, meter.tokens - before)
        if isinstance(event, EngineToken) and lane == PLAIN_SERVER:
            self.server_curve.add_baseline(event.seconds)
        elif isinstance(event, EngineToken) and lane == SERVER:
            self.server_curve.add_speculative(event.seconds, 1)  # which came together is not told
        self._compare()

    def _compare(self) -> None:
        while self._divergence is None and self._compared < self._comparable:
            here = slice(self._compared, self._compared + 1)  # empty where a lane has ended
            if self._main.ids[here] != self._baseline.ids[here]:
                margin = next(iter(self._baseline.margins[here]), None)
                self._divergence = Divergence(self._compared, margin)
            self._compared += 1

    @property
    def _comparable(self) -> int:
        """Tokens that both lanes have; once both have finished, those that either has."""
        lengths = self._main.tokens, self._baseline.tokens
        ended = self._main.is_ended and self._baseline.is_ended
        return max(lengths) if ended and min(lengths) else min(lengths)

    @property
    def totals(self) -> RoundTotals:
        """The sums over the main lane's rounds."""
        return self._main.totals

    @property
    def points(self) -> tuple[SpeedupPoint, ...]:
        """The cumulative speedup so far; the last point is the speedup of the summary."""
        return tuple(self.curve.points)

    @property
    def divergence(self) -> Divergence | None:
        """The first difference at any temperature (the summary shows it at 0 only)."""
        return self._divergence

    @property
    def costs(self) -> Costs | None:
        """Measured against the mean baseline step; None until both lanes have taken one."""
        plain = self._baseline
        if not plain.steps:
            return None
        return measured_costs(self.totals, plain.step_seconds / plain.steps)

    @property
    def theory_band(self) -> TheoryBand | None:
        costs = self.costs
        return theory_band(self.totals, costs) if costs else None

    def summary(self) -> RunSummary:
        baseline, speculative = self._baseline_summary(), self._speculative_summary()
        costs, band = self.costs, self.theory_band
        last, servers = (
            next(reversed(each.points), None) for each in (self.curve, self.server_curve)
        )
        return RunSummary(
            baseline=baseline,
            speculative=speculative,
            speedup=last.speedup if last else None,
            speedup_tokens=last.tokens if last else 0,
            cost_ratio=costs.c if costs else None,
            verify_overhead=costs.v if costs else None,
            theory_speedup=band.expected if band else None,
            theory_band=band,
            compared=self._compared,
            identical=self._divergence is None if self._is_greedy and self._compared else None,
            first_divergence=self._divergence if self._is_greedy else None,
            server_speedup=servers.speedup if servers else None,
            server_speedup_tokens=servers.tokens if servers else 0,
        )

    def _baseline_summary(self) -> BaselineSummary:
        lane = self._baseline
        rate = ratio(lane.tokens, lane.seconds)
        return BaselineSummary(lane.tokens, lane.seconds, rate, lane.ttft_seconds)

    def _speculative_summary(self) -> SpeculativeSummary:
        lane, totals = self._main, self._main.totals
        return SpeculativeSummary(
            tokens=lane.tokens,
            seconds=lane.seconds,
            tokens_per_second=ratio(lane.tokens, lane.seconds),
            ttft_seconds=lane.ttft_seconds,
            target_forwards=totals.rounds + lane.steps + (lane.ttft_seconds is not None),
            acceptance_rate=totals.acceptance_rate,
            draft_utilization=totals.draft_utilization,
            block_efficiency=totals.block_efficiency,
            acceptance_by_depth=totals.acceptance_by_depth,
            draft_prefill_seconds=totals.draft_prefill_seconds,
            draft_seconds=totals.draft_seconds,
            verify_seconds=totals.verify_seconds,
            host_seconds=totals.host_seconds,
        )
