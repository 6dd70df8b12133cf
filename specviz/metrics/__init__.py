"""The numbers of a run, computed from its records: acceptance, speed, speedup, first divergence."""

from specviz.metrics.folds import (
    acceptance_by_depth,
    acceptance_rate,
    block_efficiency,
    draft_utilization,
    first_divergence,
    meter,
    root_ids,
    speedup_points,
    summarise,
    target_forwards,
)
from specviz.metrics.round_totals import DepthAcceptance, Levels, RoundTotals, levels
from specviz.metrics.run_meter import RunMeter
from specviz.metrics.run_summary import (
    BaselineSummary,
    Divergence,
    RunSummary,
    SpeculativeSummary,
    TheoryBand,
)
from specviz.metrics.speedup_curve import SpeedupPoint, exceeds

__all__ = [
    "BaselineSummary",
    "DepthAcceptance",
    "Divergence",
    "Levels",
    "RoundTotals",
    "RunMeter",
    "RunSummary",
    "SpeculativeSummary",
    "SpeedupPoint",
    "TheoryBand",
    "acceptance_by_depth",
    "acceptance_rate",
    "block_efficiency",
    "draft_utilization",
    "exceeds",
    "first_divergence",
    "levels",
    "meter",
    "root_ids",
    "speedup_points",
    "summarise",
    "target_forwards",
]
