"""From the records of a run to its numbers: acceptance, speed, speedup, first divergence."""

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
from specviz.metrics.speedup_curve import SpeedupPoint

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
    "first_divergence",
    "levels",
    "meter",
    "root_ids",
    "speedup_points",
    "summarise",
    "target_forwards",
]
