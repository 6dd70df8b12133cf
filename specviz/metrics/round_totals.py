"""Running sums over the rounds of one lane, from which all acceptance numbers are computed.

Only the seconds of the rounds themselves are added, not those of a prefill or of the baseline.

Verification walks down the draft tree of a round, from the root. It *reaches* a level when it
examines the children of a node, and *passes* the level when it accepts one of these children. If
the end of the sequence or the token limit cuts a round short (`extra` is None), the sums ignore the
levels below the cut.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from specviz.metrics.running_mean import RunningMean
from specviz.records import Round


@dataclass(frozen=True, slots=True)
class DepthAcceptance:
    """How often verification reached and passed the level at a depth; `rate` is their ratio."""

    depth: int
    reached: int
    passed: int
    rate: float


@dataclass(frozen=True, slots=True)
class Levels:
    """How many levels of one round's tree were drafted, reached and passed."""

    drafted: int
    reached: int
    passed: int


def levels(round_: Round) -> Levels:
    """Count the drafted, reached and passed levels of one round.

    For example, if the second token of a chain of 3 was rejected, 3 levels were drafted, 2 reached
    and 1 passed.
    """
    accepted = round_.accepted
    nodes = round_.tree.nodes
    last = accepted[-1] if accepted else -1
    failed = round_.extra is not None and any(node.parent == last for node in nodes)
    drafted = max((node.depth for node in nodes), default=0)
    return Levels(drafted, len(accepted) + failed, len(accepted))


class RoundTotals:
    """Sums over the rounds of a lane. It takes little time to add a round or to read a sum."""

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self.rounds = 0
        # number of tokens that the rounds emitted; the first token of the text does not count
        self.tokens = 0
        self.drafted = 0
        self.accepted = 0
        self.forced = 0  # number of accepted tokens that a grammar forced
        self.draft_prefill_seconds = 0.0
        self.draft_seconds = 0.0
        self.verify_seconds = 0.0
        self.host_seconds = 0.0
        # Number of drafted levels -> number of rounds that drafted so many levels.
        self.rounds_by_draft_length: Counter[int] = Counter()
        # Number of drafted levels -> mean seconds of the rounds that drafted so many levels.
        self._work: defaultdict[int, RunningMean] = defaultdict(RunningMean)
        # The keys of these two counters are depths. The first one counts the rounds that reached
        # the depth, the second one the rounds that passed it.
        self._reached: Counter[int] = Counter()
        self._passed: Counter[int] = Counter()
        for each in rounds:
            self.add(each)

    def add(self, round_: Round) -> None:
        counted = levels(round_)
        self.rounds += 1
        self.tokens += counted.passed + (round_.extra is not None)
        self.drafted += len(round_.tree.nodes)
        self.accepted += counted.passed
        self.forced += counted.passed if round_.is_forced else 0
        self.draft_prefill_seconds += round_.draft_prefill_seconds
        self.draft_seconds += round_.draft_seconds
        self.verify_seconds += round_.verify_seconds
        self.host_seconds += round_.host_seconds
        self.rounds_by_draft_length[counted.drafted] += 1
        self._work[counted.drafted].add(round_.work_seconds)
        self._reached.update(range(1, counted.reached + 1))
        self._passed.update(range(1, counted.passed + 1))

    @property
    def levels_reached(self) -> int:
        return self._reached.total()

    @property
    def work_seconds(self) -> float:
        """Return the seconds of all rounds without the drafter's prefill."""
        return self.draft_seconds + self.verify_seconds + self.host_seconds

    @property
    def seconds(self) -> float:
        return self.draft_prefill_seconds + self.work_seconds

    @property
    def work_error(self) -> float:
        """Return the relative standard error of the mean seconds of a round.

        Only rounds with the same number of drafted levels are compared with each other, so that
        different numbers of levels do not count as noise. The error is 0 if no two rounds have the
        same number of drafted levels.
        """
        alike = [each for each in self._work.values() if each.count > 1]
        freedom = sum(each.count - 1 for each in alike)
        if not freedom or not self.work_seconds > 0:
            return 0.0
        variance = sum(each.squares for each in alike) / freedom
        return math.sqrt(variance / self.rounds) / (self.work_seconds / self.rounds)

    @property
    def acceptance_rate(self) -> float | None:
        """Return levels passed / levels reached, or None if no level was reached yet."""
        return ratio(self.accepted, self.levels_reached)

    @property
    def rejection_rate(self) -> float | None:
        """Return (levels reached - passed) / levels reached; for a chain, rejected / examined."""
        return ratio(self.levels_reached - self.accepted, self.levels_reached)

    @property
    def draft_utilization(self) -> float | None:
        """Return accepted / drafted tokens, or None if nothing was drafted yet."""
        return ratio(self.accepted, self.drafted)

    @property
    def block_efficiency(self) -> float | None:
        """Return the mean number of tokens per target forward.

        A round emits its accepted tokens and one more token, or fewer if it was cut short.
        """
        return ratio(self.tokens, self.rounds)

    @property
    def acceptance_by_depth(self) -> tuple[DepthAcceptance, ...]:
        counts = ((d, self._reached[d], self._passed[d]) for d in sorted(self._reached))
        return tuple(DepthAcceptance(d, n, k, k / n) for d, n, k in counts)


def ratio(part: float, whole: float) -> float | None:
    """Return part / whole, or None if `whole` is 0."""
    return part / whole if whole else None
