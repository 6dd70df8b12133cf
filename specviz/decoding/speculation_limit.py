"""Above how many rows speculation stops to pay.

A batch fills the device by itself, so a drafted token costs more the more rows there are. With n
drafted tokens in each of b rows a round is worth its while as long as

    tokens per row and round  >  (1 + d) * t(b, 1 + n) / t(b, 1),

t(b, c) being the time of a target forward over b rows of c tokens, and d what drafting and the host
take per second of verification. t is measured on the model, the rest on the rounds so far. Knows
nothing of drafters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specviz.records import Round

WARM_UP_ROUNDS = 3  # with anything drafted; they tell what a round gains and costs

RowsTime = Callable[[int, int], float]  # rows, tokens of each -> seconds of a target forward


class FixedLimit:
    """The same all the time."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def add(self, rounds: Sequence[Round]) -> None:
        """Nothing that happens changes it."""


class MeasuredLimit:
    """`rows` is the largest number that pays, as far as is known; at most `most`."""

    def __init__(self, most: int, time: RowsTime) -> None:
        self.rows = most
        self._most = most
        self._time = time
        self._rounds = self._trees = self._tokens = self._nodes = 0
        self._verify = self._beside = 0.0

    def add(self, rounds: Sequence[Round]) -> None:
        """One round of every row; those that drafted nothing tell nothing."""
        drafted = [each for each in rounds if each.tree.nodes]
        if not drafted:
            return
        self._rounds += 1
        self._trees += len(drafted)
        self._tokens += sum(len(each.emitted_ids) for each in drafted)
        self._nodes += sum(len(each.tree.nodes) for each in drafted)
        self._verify += drafted[0].verify_seconds
        self._beside += drafted[0].draft_seconds + drafted[0].host_seconds
        if self._rounds >= WARM_UP_ROUNDS:
            self.rows = max((b for b in range(1, self._most + 1) if self._pays(b)), default=0)

    def _pays(self, rows: int) -> bool:
        nodes = round(self._nodes / self._trees)
        cost = (1 + self._beside / self._verify) * self._time(rows, 1 + nodes)
        return self._tokens / self._trees * self._time(rows, 1) > cost


SpeculationLimit = FixedLimit | MeasuredLimit
