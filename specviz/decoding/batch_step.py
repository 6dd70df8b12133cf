"""What one forward of the target did to every row of a batch.

Knows nothing of how it came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.decoding.row import Row
from specviz.decoding.target_rows import TargetRows
from specviz.records import BaselineStep, FinishReason, Prefill, Round


@dataclass(frozen=True, slots=True)
class RowEvent:
    """What happened to one row; its seconds are those of all rows together."""

    row: int
    event: Prefill | Round | BaselineStep | FinishReason


@dataclass(frozen=True, slots=True)
class BatchStep:
    """Of the slots that the forward computed, `tokens` held one and `padding` none."""

    events: tuple[RowEvent, ...]
    seconds: float
    tokens: int
    padding: int


def batch_step(
    rows: Sequence[Row], events: Sequence[Prefill | Round | BaselineStep], target: TargetRows
) -> BatchStep:
    """One event per row, then the reasons of those that it ended."""
    happened = [RowEvent(row.number, each) for row, each in zip(rows, events, strict=True)]
    ended = [RowEvent(row.number, row.finish) for row in rows if row.finish is not None]
    return BatchStep((*happened, *ended), events[0].seconds, target.tokens, target.padding)
