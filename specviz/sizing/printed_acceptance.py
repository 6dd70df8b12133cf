"""Convert the acceptance that engines print into a plan's acceptance rate.

Three numbers are called acceptance:

- The *acceptance rate* is accepted / examined guesses. A guess is examined if all guesses before it
  were accepted.
- The *draft utilization* is accepted / drafted guesses.
- The *tokens per forward* are 1 + accepted guesses / drafts. vLLM calls this number the mean
  acceptance length.

vLLM also prints a *per-position acceptance rate*: for each position of a draft, the share of all
drafts whose guess at this position was accepted. That is the probability that this guess and all
guesses before it are accepted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from specviz import theory
from specviz.errors import InputError, read_number, short
from specviz.records import MAX_DRAFT_LENGTH


def read_positions(value: object, name: str) -> tuple[float, ...]:
    """Read the acceptance rate at each position, such as "0.8, 0.61, 0.47".

    Raises InputError that names the rule and the value.

    >>> read_positions("0.8, 0.61, 0.47", "acceptance_per_position")
    (0.8, 0.61, 0.47)
    """
    words = value if isinstance(value, (list, tuple)) else str(value).replace(",", " ").split()
    rates = tuple(float(read_number(each, name, 0, 1)) for each in words)
    if not 1 <= len(rates) <= MAX_DRAFT_LENGTH:
        raise InputError(f"{name} must be 1 to {MAX_DRAFT_LENGTH} rates, got {len(rates)}")
    if any(later > sooner for sooner, later in zip(rates, rates[1:], strict=False)):
        raise InputError(
            f"{name} must not rise: a guess passes only if all before it did, got {short(value)}"
        )
    return rates


def rate_of_positions(survival: Sequence[float]) -> float:
    """Return accepted / examined guesses.

    `survival` has the probabilities that at least 1, 2, … guesses are accepted.

    >>> round(rate_of_positions((0.8, 0.64, 0.512)), 2)
    0.8
    """
    return math.fsum(survival) / (1 + math.fsum(survival[:-1]))


def rate_of_length(tokens: float, draft_length: int) -> float:
    """Return the acceptance rate, the same at all depths, that gives the tokens per forward.

    >>> round(rate_of_length(2.952, 3), 3)
    0.8
    """
    if not 1 <= tokens <= draft_length + 1:
        raise InputError(
            f"acceptance_length must be from 1 to {draft_length + 1}, the tokens of a forward with "
            f"draft_length {draft_length}, got {tokens:g}"
        )
    rate = theory.break_even_acceptance(draft_length, 0.0, tokens - 1)
    assert rate is not None  # `rate` exists because `tokens` is at most draft_length + 1
    return rate
