"""A meter of a run: it gets every event of every lane, and can compute the summary at any moment.

A lane is one way of decoding the prompt, such as plain decoding.

Adding an event and reading a number take far less than a millisecond, however long the run is. A
live page can therefore read all numbers after each event.
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
from specviz.metrics.running_mean import RunningMean
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
    """Running sums over the events of one lane."""

    def __init__(self) -> None:
        self.totals = RoundTotals()
        self.ids: list[int] = []
        # for each token, the gap between the two largest logits; None if it was not recorded
        self.margins: list[float | None] = []
        self.steps = RunningMean()  # the mean seconds of the plain steps
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
                self.steps.add(event.seconds)
                self._append((event.token_id,), event.margin)
            case EngineToken() if self.ttft_seconds is None:
                self.ttft_seconds = event.seconds
                self._append((event.token_id,), None)
            case EngineToken():
                self.steps.add(event.seconds)
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
        """Return the time on the lane's own clock so far, in seconds."""
        return self.totals.seconds + self.steps.total + (self.ttft_seconds or 0.0)

    @property
    def is_ended(self) -> bool:
        """Return whether the text of the lane has ended. A text that was stopped has not ended."""
        return self.finish not in (None, FinishReason.STOPPED)


class RunMeter:
    """A meter to which all events of all lanes of a run are added.

    The events of different lanes may arrive in any order. `header` is the trace of the run before
    its first event. The summary compares the main lane with the baseline; `lanes` has a meter for
    every lane by its name.
    """

    def __init__(self, header: Trace) -> None:
        self.lanes = {lane.name: LaneMeter() for lane in header.lanes}
        self.curve, self.server_curve = SpeedupCurve(), SpeedupCurve()
        self._reading = header.reading
        self._is_greedy = header.config.temperature == 0
        self._baseline_name = header.baseline.name if header.baseline else None
        self._main_name = header.main.name
        self._main = self.lanes[self._main_name]
        self._baseline = self.lanes[self._baseline_name] if self._baseline_name else LaneMeter()
        self._compared = 0
        self._divergence: Divergence | None = None

    def add(self, lane: str, event: Event) -> None:
        """Add an event of the lane with this name."""
        meter = self.lanes[lane]
        before = meter.tokens
        meter.add(event)
        if not isinstance(event, FinishReason):
            if lane == self._baseline_name:
                self.curve.add_baseline(event.seconds)
            elif lane == self._main_name:
                forwards = 0 if isinstance(event, (Prefill, EngineToken)) else 1
                self.curve.add_speculative(event.seconds, meter.tokens - before, forwards)
        if isinstance(event, EngineToken) and lane == PLAIN_SERVER:
            self.server_curve.add_baseline(event.seconds)
        elif isinstance(event, EngineToken) and lane == SERVER:
            # A server may send several tokens at once. The event does not say how many, so each
            # token is added as a step of its own.
            self.server_curve.add_speculative(event.seconds, 1)
        self._compare()

    def _compare(self) -> None:
        while self._divergence is None and self._compared < self._comparable:
            # A slice avoids an IndexError: in a lane whose text is shorter, the slice is empty.
            here = slice(self._compared, self._compared + 1)
            if self._main.ids[here] != self._baseline.ids[here]:
                margin = next(iter(self._baseline.margins[here]), None)
                self._divergence = Divergence(self._compared, margin)
            self._compared += 1

    @property
    def _comparable(self) -> int:
        """Return how many tokens of the main lane can be compared with the baseline's tokens.

        These are the tokens that both lanes have. Once both lanes have finished, all tokens of the
        longer text count.
        """
        lengths = self._main.tokens, self._baseline.tokens
        ended = self._main.is_ended and self._baseline.is_ended
        return max(lengths) if ended and min(lengths) else min(lengths)

    @property
    def totals(self) -> RoundTotals:
        """Return the sums over the rounds of the main lane."""
        return self._main.totals

    @property
    def points(self) -> tuple[SpeedupPoint, ...]:
        """Return the speedup at every moment. The last point equals the speedup in the summary."""
        return tuple(self.curve.points)

    @property
    def divergence(self) -> Divergence | None:
        """Return the first token that differs between the lanes, at any temperature.

        The summary contains this token only at temperature 0, because sampled texts differ by
        chance.
        """
        return self._divergence

    @property
    def costs(self) -> Costs | None:
        """Return the costs of drafting and verification, in units of a mean baseline step.

        Return None until both lanes have taken a step.
        """
        return measured_costs(self.totals, self._baseline.steps)

    @property
    def theory_band(self) -> TheoryBand | None:
        costs = self.costs
        return theory_band(self.totals, costs) if costs else None

    def summary(self) -> RunSummary:
        baseline, speculative = self._baseline_summary(), self._speculative_summary()
        costs, band = self.costs, self.theory_band
        last, servers = self.curve.last, self.server_curve.last
        return RunSummary(
            baseline=baseline,
            speculative=speculative,
            speedup=last.speedup if last else None,
            speedup_tokens=min(self._main.tokens, self._baseline.tokens) if last else 0,
            cost_ratio=costs.c if costs else None,
            verify_overhead=costs.v if costs else None,
            theory_speedup=band.expected if band else None,
            theory_band=band,
            compared=self._compared,
            identical=self._divergence is None if self._is_greedy and self._compared else None,
            first_divergence=self._divergence if self._is_greedy else None,
            server_speedup=servers.speedup if servers else None,
            server_speedup_tokens=self._server_tokens if servers else 0,
            speedup_limit=last.limit if last else None,
            is_disturbed=last is not None and last.is_disturbed,
        )

    @property
    def _server_tokens(self) -> int:
        return min(self.lanes[name].tokens for name in (SERVER, PLAIN_SERVER))

    def _baseline_summary(self) -> BaselineSummary:
        lane = self._baseline
        rate = ratio(lane.tokens, lane.seconds)
        share = None
        if self._reading is not None and lane.steps.total:
            share = self._reading.step_seconds / lane.steps.mean
        return BaselineSummary(lane.tokens, lane.seconds, rate, lane.ttft_seconds, share)

    def _speculative_summary(self) -> SpeculativeSummary:
        lane, totals = self._main, self._main.totals
        return SpeculativeSummary(
            tokens=lane.tokens,
            seconds=lane.seconds,
            tokens_per_second=ratio(lane.tokens, lane.seconds),
            ttft_seconds=lane.ttft_seconds,
            target_forwards=totals.rounds + lane.steps.count + (lane.ttft_seconds is not None),
            acceptance_rate=totals.acceptance_rate,
            draft_utilization=totals.draft_utilization,
            block_efficiency=totals.block_efficiency,
            acceptance_by_depth=totals.acceptance_by_depth,
            draft_prefill_seconds=totals.draft_prefill_seconds,
            draft_seconds=totals.draft_seconds,
            verify_seconds=totals.verify_seconds,
            host_seconds=totals.host_seconds,
            forced_tokens=totals.forced,
        )
