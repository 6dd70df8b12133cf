"""The first token at which two runs differ, and the reason, computed from their traces."""

from specviz.trace_diff.first_difference import (
    SAME_PROB,
    Difference,
    difference,
    shared_texts,
    totals,
)

__all__ = [
    "Difference",
    "SAME_PROB",
    "difference",
    "shared_texts",
    "totals",
]
