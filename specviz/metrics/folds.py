"""From the records of a run to its numbers: acceptance, speed, speedup, first divergence.

Each function is a fold over records; a live run keeps a `RunMeter` instead and asks it. Numbers
that do not exist (nothing drafted, a lane that has not started) are None.
"""

from __future__ import annotations

from collections.abc import Iterable

from specviz.metrics.round_totals import DepthAcceptance, RoundTotals
from specviz.metrics.run_meter import RunMeter
from specviz.metrics.run_summary import (
    Divergence,
    RunSummary,
)
from specviz.metrics.speedup_curve import SpeedupPoint
from specviz.records import Round, Trace


def acceptance_rate(rounds: Iterable[Round]) -> float | None:
    """alpha: levels passed / levels reached (for a chain: accepted / examined)."""
    return RoundTotals(rounds).acceptance_rate


def draft_utilization(rounds: Iterable[Round]) -> float | None:
    """Accepted / drafted tokens; several tools call this the acceptance rate."""
    return RoundTotals(rounds).draft_utilization


def block_efficiency(rounds: Iterable[Round]) -> float | None:
    """tau: tokens emitted per round, that is accepted + 1 but for cut rounds."""
    return RoundTotals(rounds).block_efficiency


def acceptance_by_depth(rounds: Iterable[Round]) -> tuple[DepthAcceptance, ...]:
    """Reached, passed and their ratio for each depth that was reached."""
    return RoundTotals(rounds).acceptance_by_depth


def target_forwards(trace: Trace) -> int:
    """Forwards of the target in the main lane: the prefill's and one per round."""
    return (trace.prefill is not None) + len(trace.rounds)


def meter(trace: Trace) -> RunMeter:
    """A meter that has seen the whole trace."""
    made = RunMeter(trace)
    for lane in trace.lanes:
        for event in lane.events:
            made.add(lane.name, event)
    return made


def summarise(trace: Trace) -> RunSummary:
    """Every number of the race."""
    return meter(trace).summary()


def speedup_points(trace: Trace) -> tuple[SpeedupPoint, ...]:
    """The speedup at the end of the prefill and of each round; see `SpeedupCurve`."""
    return meter(trace).points


def first_divergence(trace: Trace) -> Divergence | None:
    """The first new token in which the lanes differ, at any temperature, and the margin there."""
    return meter(trace).divergence


def root_ids(trace: Trace) -> tuple[int, ...]:
    """The root of each round's tree: the last token that was committed before it."""
    ids = (*trace.prompt_ids, *trace.emitted_ids)
    return tuple(ids[each.context_length - 1] for each in trace.rounds)
