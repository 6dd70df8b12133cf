"""Options of a whole batch: when to stop speculating, how much to draft, and the seed per row.

A large batch keeps the device busy, so each drafted token costs more than in a small batch. With n
drafted tokens in each of b rows, speculation is faster than plain decoding as long as

new tokens per row and round  >  (1 + d) * t(b, 1 + n) / t(b, 1)

Here t(b, c) is the time of a target forward with c tokens in each of b rows. d is the time for
drafting and for work on the host, divided by the time for verification. The times t are measured on
the model. The other numbers come from the rounds so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specviz.decoding.streams import derived_seed
from specviz.records import BATCH, Round

# The number of rounds with drafted tokens after which the limit is computed for the first time.
WARM_UP_ROUNDS = 3

# A function: (rows, tokens per row) -> seconds of one target forward.
RowsTime = Callable[[int, int], float]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Limits on the drafting of a whole batch.

    While more than `speculate_up_to` rows are unfinished, rounds draft nothing; 0 means that the
    run measures the best limit. `draft_budget` is the largest number of drafted tokens per round,
    over all rows; 0 means no limit.

    Both limits apply before any token is drawn, so the output keeps the target's distribution. With
    a limit, a row makes other random draws than without one. Above temperature 0 its text may
    therefore differ from the text of the same prompt decoded alone. A measured limit may also
    differ from run to run.
    """

    speculate_up_to: int = BATCH["speculate_up_to"].default
    draft_budget: int = BATCH["draft_budget"].default

    def __post_init__(self) -> None:
        for name in ("speculate_up_to", "draft_budget"):
            BATCH[name].check(getattr(self, name))


ALL_DRAFT = BatchOptions()


def row_seed(seed: int, row: int) -> int:
    """Return the seed of one row (sequence) of a batch.

    Row 0 has the seed of the batch, so a batch with one prompt equals a single run. To repeat
    another row as a single run with the same draws, use the seed of that row.
    """
    return derived_seed(seed, row) if row else seed


def shares(budget: int, rows: int, round_index: int) -> list[int]:
    """Divide a budget of drafted tokens over the rows of a batch.

    If the budget cannot be divided evenly, some rows may draft one token more than the others.
    These rows change from round to round.

    >>> shares(8, 3, 0), shares(8, 3, 1)
    ([3, 3, 2], [2, 3, 3])
    """
    each, left = divmod(budget, rows)
    return [each + ((row - round_index) % rows < left) for row in range(rows)]


class FixedLimit:
    """A fixed limit: the batch drafts nothing while more rows than `rows` are unfinished."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def add(self, rounds: Sequence[Round]) -> None:
        """Do nothing, because rounds do not change a fixed limit."""


class MeasuredLimit:
    """A limit on the rows of a batch, computed from the times and the acceptance of earlier rounds.

    `rows` is the largest number of rows, up to `most`, with which speculation is faster than plain
    decoding.
    """

    def __init__(self, most: int, time: RowsTime) -> None:
        self.rows = most
        self._most = most
        self._time = time
        self._rounds = self._trees = self._tokens = self._nodes = 0
        self._verify = self._others = 0.0

    def add(self, rounds: Sequence[Round]) -> None:
        """Add the times and the acceptance of one round; rows that drafted nothing do not count."""
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
