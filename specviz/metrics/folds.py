"""The numbers of a run, computed from its records: acceptance, speed, speedup, first divergence.

Each function reads all records of a complete run. For a live run, use a `RunMeter`, to which every
event is added. A number that does not exist is None, for example if nothing was drafted or a lane
has not started.
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
    """Return alpha: levels passed / levels reached.

    For a chain, alpha is the number of accepted tokens / the number of examined tokens.
    """
    return RoundTotals(rounds).acceptance_rate


def draft_utilization(rounds: Iterable[Round]) -> float | None:
    """Return accepted / drafted tokens. Several other tools call this ratio the acceptance rate."""
    return RoundTotals(rounds).draft_utilization


def block_efficiency(rounds: Iterable[Round]) -> float | None:
    """Return tau, the mean number of tokens that a round emits.

    A round emits its accepted tokens and one more token, or fewer if it was cut short.
    """
    return RoundTotals(rounds).block_efficiency


def acceptance_by_depth(rounds: Iterable[Round]) -> tuple[DepthAcceptance, ...]:
    """Return how many rounds reached and passed each depth, and the ratio of both numbers."""
    return RoundTotals(rounds).acceptance_by_depth


def target_forwards(trace: Trace) -> int:
    """Return how often the target ran in the main lane: once for the prefill, once per round."""
    return (trace.prefill is not None) + len(trace.rounds)


def meter(trace: Trace) -> RunMeter:
    """Return a meter to which all events of the trace have been added."""
    made = RunMeter(trace)
    for lane in trace.lanes:
        for event in lane.events:
            made.add(lane.name, event)
    return made


def summarise(trace: Trace) -> RunSummary:
    """Return all numbers of a race as a `RunSummary`."""
    return meter(trace).summary()


def speedup_points(trace: Trace) -> tuple[SpeedupPoint, ...]:
    """Return the speedup so far after every token of the race, once both lanes have a token."""
    return meter(trace).points


def first_divergence(trace: Trace) -> Divergence | None:
    """Return the first new token at which the lanes differ, at any temperature.

    The result also contains the gap between the baseline's two largest logits at this token.
    """
    return meter(trace).divergence


def root_ids(trace: Trace) -> tuple[int, ...]:
    """Return the root of each round's tree: the last token that was committed before the round."""
    ids = (*trace.prompt_ids, *trace.emitted_ids)
    return tuple(ids[each.context_length - 1] for each in trace.rounds)
