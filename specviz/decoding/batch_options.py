"""What the rows of a batch share: how many of them speculate, how much is drafted, the seeds.

A batch fills the device by itself, so a drafted token costs more the more rows there are. With n
drafted tokens in each of b rows speculation pays as long as

    tokens per row and round  >  (1 + d) * t(b, 1 + n) / t(b, 1),

where t(b, c) is the time of a target forward over b rows of c tokens, and d the time of drafting
and of the host per second of verification. t is measured on the model, the rest on the rounds so
far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specviz.decoding.streams import derived_seed
from specviz.records import BATCH, Round

WARM_UP_ROUNDS = 3  # with anything drafted, before the limit is first measured

RowsTime = Callable[[int, int], float]  # rows, tokens of each -> seconds of a target forward


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """`speculate_up_to`: while more rows are alive, rounds draft nothing (0: measured in the run).

    `draft_budget`: at most so many drafted tokens in one round over all rows (0: no budget).
    Both are applied before anything is drawn, so the output's distribution stays the target's. But
    a row that drafts less than it would alone uses other draws, so above temperature 0 its text may
    differ from its single run. A measured limit may differ from run to run.
    """

    speculate_up_to: int = BATCH["speculate_up_to"].default
    draft_budget: int = BATCH["draft_budget"].default

    def __post_init__(self) -> None:
        for name in ("speculate_up_to", "draft_budget"):
            BATCH[name].check(getattr(self, name))


ALL_DRAFT = BatchOptions()


def row_seed(seed: int, row: int) -> int:
    """The seed of a row: row 0 has the batch's own, so a batch of one is a single run.

    A single run of a row's prompt with this seed makes the same draws as the row.
    """
    return derived_seed(seed, row) if row else seed


def shares(budget: int, rows: int, round_index: int) -> list[int]:
    """A budget divided over rows; the rows that get one more change from round to round.

    >>> shares(8, 3, 0), shares(8, 3, 1)
    ([3, 3, 2], [2, 3, 3])
    """
    each, left = divmod(budget, rows)
    return [each + ((row - round_index) % rows < left) for row in range(rows)]


class FixedLimit:
    """Speculation stops above a fixed number of rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def add(self, rounds: Sequence[Round]) -> None:
        """Rounds do not change it."""


class MeasuredLimit:
    """`rows` is the largest number of rows, at most `most`, for which speculation pays so far."""

    def __init__(self, most: int, time: RowsTime) -> None:
        self.rows = most
        self._most = most
        self._time = time
        self._rounds = self._trees = self._tokens = self._nodes = 0
        self._verify = self._others = 0.0

    def add(self, rounds: Sequence[Round]) -> None:
        """One round of every row; those that drafted nothing are left out."""
        drafted = [each for each in rounds if each.tree.nodes]
        if not drafted:
            return
        self._rounds += 1
        self._trees += len(drafted)
        self._tokens += sum(len(each.emitted_ids) for each in drafted)
        self._nodes += sum(len(each.tree.nodes) for each in drafted)
        self._verify += drafted[0].verify_seconds
        self._others += drafted[0].draft_seconds + drafted[0].host_seconds
        if self._rounds >= WARM_UP_ROUNDS:
            self.rows = max((b for b in range(1, self._most + 1) if self._pays(b)), default=0)

    def _pays(self, rows: int) -> bool:
        nodes = round(self._nodes / self._trees)
        cost = (1 + self._others / self._verify) * self._time(rows, 1 + nodes)
        return self._tokens / self._trees * self._time(rows, 1) > cost
