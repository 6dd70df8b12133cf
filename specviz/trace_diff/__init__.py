"""The first token in which two runs differ, and why: pure, from their traces alone."""

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
