"""A small plan of a sweep, and points as the sweep would measure them."""

from __future__ import annotations

from typing import Any

from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import SweepPlan
from specviz.models.pair_catalog import pair_named
from specviz.records import DecodingConfig

PLAN = SweepPlan(
    SweepSetting(pair_named("bundled"), DecodingConfig(), device="cpu"),
    (("draft-length", (1, 2)),),
)


def whole_point(draft_length: int) -> dict[str, Any]:
    return {
        "setting": {"draft-length": draft_length},
        "speedup": 1.5,
        "speedup_spread": [1.4, 1.6],
        "speedups": [1.4, 1.6],
        "baseline_tokens_per_second": 100.0,
        "tokens_per_second": 150.0,
        "baseline_ttft_seconds": 0.01,
        "ttft_seconds": 0.01,
        "prompt_tokens": 20.5,
        "texts": 2,
        "rounds": 10,
        "acceptance_rate": 0.8,
        "rejection_rate": 0.2,
        "draft_utilization": 0.8,
        "block_efficiency": 1.8,
        "acceptance_by_depth": [{"depth": 1, "reached": 10, "passed": 8, "rate": 0.8}],
        "cost_ratio": 0.2,
        "verify_overhead": 0.1,
        "theory_speedup": 1.4,
        "theory_band": [1.3, 1.5],
        "prefill_seconds": 0.1,
        "draft_prefill_seconds": 0.1,
        "draft_seconds": 0.1,
        "verify_seconds": 0.1,
        "host_seconds": 0.1,
        "drafter_bytes": 1000,
        "drafter_cache_bytes": 500,
    }
