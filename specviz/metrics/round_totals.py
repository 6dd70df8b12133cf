"""Running sums over the rounds of one lane, from which every acceptance number follows.

Knows no clock but the rounds' own seconds, and neither the prefill nor the baseline.

A *level* of the tree is reached when the walk examines the children of a node, and passed when one
of them is accepted. Where the end of the sequence or the token limit cuts a round (`extra` is
None), only the levels up to the cut count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from specviz.records import Round


@dataclass(frozen=True, slots=True)
class DepthAcceptance:
    """How often the level at `depth` was reached and passed; rate = passed / reached."""

    depth: int
    reached: int
    passed: int
    rate: float


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of one round: drafted = depth of its tree, reached and passed on its walk."""

    drafted: int
    reached: int
    passed: int


def levels(round_: Round) -> Levels:
    """Count the levels of one round.

    A chain of 3 whose second token was rejected: drafted 3, reached 2, passed 1.
    """
    accepted = round_.accepted
    nodes = round_.tree.nodes
    last = accepted[-1] if accepted else -1
    failed = round_.extra is not None and any(node.parent == last for node in nodes)
    drafted = max((node.depth for node in nodes), default=0)
    return Levels(drafted, len(accepted) + failed, len(accepted))


class RoundTotals:
    """Sums that grow by one round at a time; adding is cheap and so is every question."""

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self.rounds = 0
        self.tokens = 0  # emitted by the rounds: without the first token
        self.drafted = 0
        self.accepted = 0
        self.draft_prefill_seconds = 0.0
        self.draft_seconds = 0.0
        self.verify_seconds = 0.0
        self.host_seconds = 0.0
        self.rounds_by_draft_length: Counter[int] = Counter()  # drafted levels -> rounds
        self._reached: Counter[int] = Counter()  # depth -> times
        self._passed: Counter[int] = Counter()
        for each in rounds:
            self.add(each)

    def add(self, round_: Round) -> None:
        counted = levels(round_)
        self.rounds += 1
        self.tokens += counted.passed + (round_.extra is not None)
        self.drafted += len(round_.tree.nodes)
        self.accepted += counted.passed
        self.draft_prefill_seconds += round_.draft_prefill_seconds
        self.draft_seconds += round_.draft_seconds
        self.verify_seconds += round_.verify_seconds
        self.host_seconds += round_.host_seconds
        self.rounds_by_draft_length[counted.drafted] += 1
        self._reached.update(range(1, counted.reached + 1))
        self._passed.update(range(1, counted.passed + 1))

    @property
    def levels_reached(self) -> int:
        return self._reached.total()

    @property
    def work_seconds(self) -> float:
        """Without the drafter's reading of the prompt."""
        return self.draft_seconds + self.verify_seconds + self.host_seconds

    @property
    def seconds(self) -> float:
        return self.draft_prefill_seconds + self.work_seconds

    @property
    def acceptance_rate(self) -> float | None:
        """Levels passed / levels reached; None before any level was reached."""
        return ratio(self.accepted, self.levels_reached)

    @property
    def rejection_rate(self) -> float | None:
        """Levels reached but not passed / levels reached: of a chain, rejected / examined."""
        return ratio(self.levels_reached - self.accepted, self.levels_reached)

    @property
    def draft_utilization(self) -> float | None:
        """Accepted / drafted tokens; None before anything was drafted."""
        return ratio(self.accepted, self.drafted)

    @property
    def block_efficiency(self) -> float | None:
        """Tokens emitted per target forward of a round: accepted + 1 but for cut rounds."""
        return ratio(self.tokens, self.rounds)

    @property
    def acceptance_by_depth(self) -> tuple[DepthAcceptance, ...]:
        counts = ((d, self._reached[d], self._passed[d]) for d in sorted(self._reached))
        return tuple(DepthAcceptance(d, n, k, k / n) for d, n, k in counts)


def ratio(part: float, whole: float) -> float | None:
    """part / whole, None where there is no whole yet."""
    return part / whole if whole else None
