"""How a batch shares what it has: how many rows speculate, how much is drafted, and their seeds.

Knows nothing of rows that run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from specviz.decoding.streams import derived_seed
from specviz.errors import InputError
from specviz.records import DecodingConfig

MAX_BATCH_SIZE = 64
MAX_DRAFT_BUDGET = 4096


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """`speculate_up_to`: while more rows are alive, rounds draft nothing (0: measured in the run).

    `draft_budget`: at most so many drafted tokens in one round over all rows (0: no budget).
    Whichever is in force, the output's distribution stays the target's: all is decided before
    anything is drawn. But a row that drafts less than it would alone consumes other draws, so
    above temperature 0 its text may differ from its single run. A measured limit may differ from
    run to run.
    """

    speculate_up_to: int = MAX_BATCH_SIZE
    draft_budget: int = 0

    def __post_init__(self) -> None:
        for name, high in (("speculate_up_to", MAX_BATCH_SIZE), ("draft_budget", MAX_DRAFT_BUDGET)):
            value = getattr(self, name)
            if not 0 <= value <= high:
                raise InputError(f"{name} must be an integer from 0 to {high}, got {value}")


def row_seed(seed: int, row: int) -> int:
    """The seed of a row: row 0 has the batch's own, so that a batch of one is a single run.

    A single run of a row's prompt with the row's seed draws what the row draws.
    """
    return derived_seed(seed, row) if row else seed


def row_configs(config: DecodingConfig, rows: int) -> list[DecodingConfig]:
    """The setting of every row, each with a seed of its own."""
    return [replace(config, seed=row_seed(config.seed, row)) for row in range(rows)]


def shares(budget: int, rows: int, round_index: int) -> list[int]:
    """A budget divided over rows; what is left over goes round with the rounds.

    >>> shares(8, 3, 0), shares(8, 3, 1)
    ([3, 3, 2], [2, 3, 3])
    """
    each, left = divmod(budget, rows)
    return [each + ((row - round_index) % rows < left) for row in range(rows)]
