"""The numbers of one point of a sweep, pooled over its prompts and blocks.

Takes finished races; runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import mean, median
from typing import Any

from specviz.decoding.race import Lane
from specviz.experiments.run.racing import Race
from specviz.metrics.measured_costs import Costs, measured_costs, theory_band
from specviz.metrics.round_totals import RoundTotals
from specviz.metrics.run_summary import TheoryBand
from specviz.records import Trace
from specviz.theory.expected_time import waiting


class _LaneSums:
    """Tokens and own seconds of one lane."""

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0
        self.first_seconds: list[float] = []  # to the first token: of the prefill

    def add(self, tokens: int, first_seconds: float, seconds: float) -> None:
        self.tokens += tokens
        self.seconds += first_seconds + seconds
        self.first_seconds.append(first_seconds)

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class PointMeter:
    """Add a block's races, both lanes in any order, then end the block; `result()` at the end."""

    def __init__(self) -> None:
        self._block = {lane: _LaneSums() for lane in Lane}
        self._rates: list[tuple[float, float]] = []
        self._first_seconds: dict[Lane, list[float]] = {lane: [] for lane in Lane}
        self._totals = RoundTotals()
        self._step_seconds = 0.0
        self._steps = 0
        self._prompt_tokens: list[int] = []
        self._drafter_bytes: int | None = None
        self._rows = 1  # decoded together
        self._draft_seconds = self._verify_seconds = self._host_seconds = 0.0  # of whole batches

    def add(self, lane: Lane, race: Race) -> None:
        """One prompt's run of one lane."""
        self.add_rows(lane, (race.trace(),))

    def add_rows(self, lane: Lane, traces: Sequence[Trace]) -> None:
        """One lane's run of prompts that were decoded together.

        A row's seconds are those of all rows, so the row that ran longest tells the batch's time.
        """
        if lane is Lane.BASELINE:
            self._add_baseline(traces)
        else:
            self._add_speculative(traces)

    def _add_baseline(self, traces: Sequence[Trace]) -> None:
        longest = max(traces, key=lambda trace: len(trace.baseline_steps))
        assert longest.baseline_prefill is not None
        seconds = sum(step.seconds for step in longest.baseline_steps)
        self._step_seconds += seconds
        self._steps += len(longest.baseline_steps)
        tokens = sum(len(trace.baseline_ids) for trace in traces)
        self._block[Lane.BASELINE].add(tokens, longest.baseline_prefill.seconds, seconds)

    def _add_speculative(self, traces: Sequence[Trace]) -> None:
        longest = max(traces, key=lambda trace: len(trace.rounds))
        assert longest.prefill is not None
        self._rows = len(traces)
        for trace in traces:
            for each in trace.rounds:
                self._totals.add(each)
            self._prompt_tokens.append(len(trace.prompt_ids))
            self._drafter_bytes = trace.drafter_bytes
        for each in longest.rounds:
            self._draft_seconds += each.draft_seconds
            self._verify_seconds += each.verify_seconds
            self._host_seconds += each.host_seconds
        seconds = sum(each.seconds for each in longest.rounds)
        tokens = sum(len(trace.emitted_ids) for trace in traces)
        self._block[Lane.SPECULATIVE].add(tokens, longest.prefill.seconds, seconds)

    @property
    def baseline_rate(self) -> float:
        """Tokens per second of the block so far."""
        return self._block[Lane.BASELINE].rate

    def end_block(self) -> None:
        """Both lanes have decoded every prompt once."""
        self._rates.append((self._block[Lane.BASELINE].rate, self._block[Lane.SPECULATIVE].rate))
        for lane, sums in self._block.items():
            self._first_seconds[lane] += sums.first_seconds
        self._block = {lane: _LaneSums() for lane in Lane}

    def result(self) -> dict[str, Any]:
        """JSON-able; speedups one per block, seconds and counts sums over all of them."""
        totals = self._totals
        speedups = [speculative / baseline for baseline, speculative in self._rates]
        costs = measured_costs(totals, self._step_seconds / self._steps) if self._steps else None
        band = self._theory(costs) if costs else None
        return {
            "speedup": median(speedups),
            "speedup_spread": [min(speedups), max(speedups)],
            "speedups": speedups,
            "baseline_tokens_per_second": median(rate for rate, _ in self._rates),
            "tokens_per_second": median(rate for _, rate in self._rates),
            "baseline_ttft_seconds": median(self._first_seconds[Lane.BASELINE]),
            "ttft_seconds": median(self._first_seconds[Lane.SPECULATIVE]),
            "prompt_tokens": mean(self._prompt_tokens),
            "rounds": totals.rounds,
            "acceptance_rate": totals.acceptance_rate,
            "draft_utilization": totals.draft_utilization,
            "block_efficiency": totals.block_efficiency,
            "acceptance_by_depth": [asdict(each) for each in totals.acceptance_by_depth],
            "cost_ratio": costs.c if costs else None,
            "verify_overhead": costs.v if costs else None,
            "theory_speedup": band.expected if band else None,
            "theory_band": [band.low, band.high] if band else None,
            "prefill_seconds": sum(self._first_seconds[Lane.SPECULATIVE]),
            "draft_seconds": self._draft_seconds,
            "verify_seconds": self._verify_seconds,
            "host_seconds": self._host_seconds,
            "drafter_bytes": self._drafter_bytes,
        }

    def _theory(self, costs: Costs) -> TheoryBand:
        """At the measured acceptance and costs; a batch ends with its longest row."""
        band, totals = theory_band(self._totals, costs), self._totals
        rate, longest = totals.acceptance_rate or 0.0, max(totals.rounds_by_draft_length)
        tokens = round((totals.block_efficiency or 1.0) * totals.rounds / len(self._prompt_tokens))
        survival = [rate**depth for depth in range(1, longest + 1)]
        waits = waiting(self._rows, tokens, survival)
        return TheoryBand(band.low / waits, band.expected / waits, band.high / waits)
