"""The numbers of one point of a sweep, pooled over its prompts and blocks.

Takes finished races; runs nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from statistics import mean, median
from typing import Any

from specviz.decoding.race import Lane
from specviz.experiments.racing import Race
from specviz.measured_costs import measured_costs, theory_band
from specviz.round_totals import RoundTotals


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

    def add(self, lane: Lane, race: Race) -> None:
        """One prompt's run of one lane."""
        trace = race.trace()
        if lane is Lane.BASELINE:
            assert trace.baseline_prefill is not None
            seconds = sum(step.seconds for step in trace.baseline_steps)
            self._step_seconds += seconds
            self._steps += len(trace.baseline_steps)
            tokens, first = len(trace.baseline_ids), trace.baseline_prefill.seconds
        else:
            assert trace.prefill is not None
            seconds = sum(each.seconds for each in trace.rounds)
            for each in trace.rounds:
                self._totals.add(each)
            tokens, first = len(trace.emitted_ids), trace.prefill.seconds
            self._prompt_tokens.append(len(trace.prompt_ids))
            self._drafter_bytes = trace.drafter_bytes
        self._block[lane].add(tokens, first, seconds)

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
        band = theory_band(totals, costs) if costs else None
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
            "draft_seconds": totals.draft_seconds,
            "verify_seconds": totals.verify_seconds,
            "host_seconds": totals.host_seconds,
            "drafter_bytes": self._drafter_bytes,
        }
