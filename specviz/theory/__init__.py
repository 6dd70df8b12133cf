"""What theory says of speculative decoding: closed forms, the memory bound, mean request times."""

from specviz.theory.closed_forms import (
    best_draft_length,
    break_even_acceptance,
    expected_accepted,
    expected_tokens,
    round_cost,
    speedup,
)

__all__ = [
    "best_draft_length",
    "break_even_acceptance",
    "expected_accepted",
    "expected_tokens",
    "round_cost",
    "speedup",
]
