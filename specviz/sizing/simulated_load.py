"""Simulate requests that arrive at random, and find out how long they wait for their tokens.

Arrivals are a Poisson process. The engine batches continuously: it takes in waiting requests,
prefills them together, and gives every running request one round. All times come from
`forward_time`, and rounds are independent of each other. The same seed gives the same numbers.

A test simulates the same with simpy, round by round and guess by guess. Without guesses it gives
the same numbers, and with guesses the medians differ by at most 3 %
(tests/sizing/test_plain_simulation.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

from specviz.sizing.sized_plan import Policy, SizedPlan

# The length of the warm-up before the first counted request, as a multiple of the time that one
# request takes.
WARM = 4
# The average number of requests that arrive after the warm-up.
COUNTED = 3000
# The length of the counted period, as a multiple of the time that one request takes, if more
# requests arrive than the engine can finish.
SATURATED = 8
# The highest load on the page's curve of times, as a multiple of the planned load. If the
# deployment can serve less, the curve ends at the load that it can serve.
TIMES = 3.0
# The loads at which the page's curve of times has points, as shares of the curve's highest load.
SHARES = (0.15, 0.3, 0.45, 0.6, 0.75, 0.85, 0.95)
# The difference below which two sums of tokens count as equal, because of rounding errors.
ROUNDED = 1e-6
# The longest answer, in tokens, for which each round is drawn at random. For a longer answer, one
# random draw gives the number of rounds.
DRAWN_TOKENS = 128


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Waiting times at the median and the 95th percentile, and requests per second within limits.

    `keeps_up` is False if more requests arrive than the full engine can finish. The queue then
    grows without end. In the long run no request meets the limits, and the time to first token
    depends only on the length of the simulation.
    """

    policy: str
    load: float
    first_token_p50: float
    first_token_p95: float
    token_p50: float
    token_p95: float
    goodput: float
    within_limits: float
    mean_rows: float
    keeps_up: bool


@dataclass(slots=True)
class _Request:
    arrived: float
    first: float
    ended: float = math.nan


@dataclass
class _Engine:
    """One simulation: its running requests and its clock.

    A seat is room for one running request. A request waits in a queue until a seat is free. There
    are two kinds of events: a request arrives and finds a free seat, or a request ends. Between two
    events nothing changes, so the simulation computes all rounds up to the next event in one step.

    `written` is the number of tokens that an average request would have received since the start.
    Each round adds the average number of tokens for its K. `running` is a heap of requests, sorted
    by the value of `written` at which a request ends. That value is larger for a request whose
    guesses are often rejected.
    """

    sized: SizedPlan
    policy: Policy
    load: float
    seed: int
    now: float = 0.0
    written: float = 0.0
    running: list[tuple[float, int, _Request]] = field(default_factory=list)
    ended: list[_Request] = field(default_factory=list)
    round_seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    prefill_seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    # The number of requests that are writing tokens, summed over the simulated time. The unit is
    # requests x seconds.
    row_seconds: float = 0.0
    admitted: int = 0

    def __post_init__(self) -> None:
        # Arrivals have a random generator of their own, so that all policies get the same arrivals.
        self.arriving, self.random = Random(f"arrivals {self.seed}"), Random(self.seed)
        self.seats = self.sized.seats(self.policy)
        # The time at which the next request arrives.
        self.arrival = self.arriving.expovariate(self.load)

    def run_until(self, end: float) -> None:
        """Simulate until the time `end`. Requests that run at that time keep running."""
        while self.now < end:
            if not self.running and self.arrival > self.now:
                self.now = min(self.arrival, end)
            self.admit()
            self.rounds(end)

    def admit(self) -> None:
        """Prefill waiting requests, as many as fit in one forward. Each gets its first token."""
        most = min(self.seats - len(self.running), self.sized.together)
        arrived: list[float] = []
        while len(arrived) < most and self.arrival <= self.now:
            arrived.append(self.arrival)
            self.arrival += self.arriving.expovariate(self.load)
        if not arrived:
            return
        rows = len(self.running) + len(arrived)
        K, count = self.sized.length(self.policy, rows), len(arrived)
        if (K, count) not in self.prefill_seconds:
            self.prefill_seconds[K, count] = self.sized.first_token_seconds(K, count)
        seconds = self.prefill_seconds[K, count]
        self.row_seconds += len(self.running) * seconds
        self.now += seconds
        for arrival in arrived:
            self.admitted += 1
            ends = self.written + self.drawn_rounds(K) * self.sized.tokens(K)
            heappush(self.running, (ends, self.admitted, _Request(arrival, self.now)))

    def rounds(self, end: float) -> None:
        """Run rounds until a request ends, or until one arrives and finds a free seat."""
        rows = len(self.running)
        if not rows:
            return
        K = self.sized.length(self.policy, rows)
        tokens = self.sized.tokens(K)
        if (rows, K) not in self.round_seconds:
            self.round_seconds[rows, K] = self.sized.round_seconds(rows, K)
        each = self.round_seconds[rows, K]
        until = self.arrival if rows < self.seats else end
        left = math.ceil((self.running[0][0] - self.written) / tokens - ROUNDED)
        count = max(1, min(left, math.ceil((until - self.now) / each)))
        self.written += count * tokens
        self.now += count * each
        self.row_seconds += rows * count * each
        while self.running and self.running[0][0] <= self.written + ROUNDED:
            request = heappop(self.running)[2]
            request.ended = self.now
            self.ended.append(request)

    def drawn_rounds(self, K: int) -> int:
        """Return a random number of rounds that an answer needs.

        Each round emits the guesses before the first rejection and one more token. For a long
        answer, the number of rounds is nearly normally distributed.
        """
        survival, left = self.sized.survival(K), self.sized.plan.output - 1
        if not any(survival):
            return left
        if left > DRAWN_TOKENS:
            mean = self.sized.tokens(K)
            square = 1 + sum((2 * d + 1) * chance for d, chance in enumerate(survival, 1))
            spread = math.sqrt(max(0.0, left * (square - mean**2) / mean**3))
            return max(math.ceil(left / (K + 1)), round(self.random.gauss(left / mean, spread)))
        count, draw = 0, self.random.random
        while left > 0:
            left -= 1 + _passed(survival, 1 - draw())
            count += 1
        return count


def _passed(survival: Sequence[float], draw: float) -> int:
    """Return how many guesses of a round are accepted, given a random number `draw` in (0, 1].

    >>> _passed((0.5, 0.25), 0.6), _passed((0.5, 0.25), 0.4), _passed((1.0, 1.0), 1.0)
    (0, 1, 2)
    """
    return next((d for d, chance in enumerate(survival) if draw > chance), len(survival))


def _stays(sized: SizedPlan, policy: Policy, load: float) -> float:
    """Return the average seconds that a request takes at this load, computed with Little's law.

    If the load is too high, return the time of a request while all seats are taken.
    """

    def rate(rows: int) -> float:
        return sized.speeds(rows, sized.length(policy, rows)).requests_per_second

    low, high = 0, sized.seats(policy)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rate(middle) < load else (low, middle)
    return high / rate(high)


def simulate(
    sized: SizedPlan, policy: Policy, load: float, seed: int = 0, counted: int = COUNTED
) -> LoadResult:
    """Simulate requests that arrive at an average rate of `load` per second.

    Counting starts when the engine has filled up.
    """
    plan = sized.plan
    keeps_up = load < sized.capacity(policy)
    stays = _stays(sized, policy, load)
    start = WARM * stays
    seconds = counted / load if keeps_up else SATURATED * stays
    engine = _Engine(sized, policy, load, seed)
    engine.run_until(start)
    before, started = engine.row_seconds, engine.now
    engine.run_until(start + seconds)
    rows = (engine.row_seconds - before) / (engine.now - started)
    while keeps_up and any(start <= each.arrived < start + seconds for *_, each in engine.running):
        engine.run_until(engine.now + stays)
    ended = [each for each in engine.ended if each.arrived >= start] if keeps_up else engine.ended
    ended = [each for each in ended if each.arrived < start + seconds]
    firsts = [each.first - each.arrived for each in ended]
    tokens = [(each.ended - each.first) / (plan.output - 1) for each in ended]
    good = sum(
        1000 * first <= plan.first_token_limit and 1000 * token <= plan.token_limit
        for first, token in zip(firsts, tokens, strict=True)
    )
    share = good / len(ended) if keeps_up else 0.0
    return LoadResult(
        policy=policy.value,
        load=load,
        first_token_p50=_percentile(firsts, 0.5),
        first_token_p95=_percentile(firsts, 0.95),
        token_p50=_percentile(tokens, 0.5),
        token_p95=_percentile(tokens, 0.95),
        goodput=share * load,
        within_limits=share,
        mean_rows=rows,
        keeps_up=keeps_up,
    )


def _percentile(values: list[float], share: float) -> float:
    """Return the smallest value v such that at least the fraction `share` of all values is <= v."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def by_load(sized: SizedPlan, seed: int = 0) -> list[dict[str, Any]]:
    """Return the result of every policy at several loads, one of them the planned load.

    The list is empty if not even one request fits into memory.
    """
    if not sized.seats(Policy.SPECULATIVE):
        return []
    return [
        asdict(simulate(sized, policy, load, seed))
        for load in _loads(sized.plan.load, max(map(sized.capacity, Policy)))
        for policy in Policy
    ]


def _loads(load: float, most: float) -> list[float]:
    """Return the loads to simulate: the planned load, and SHARES of an upper limit.

    The upper limit is `most`, the largest load that the deployment can serve, or TIMES the planned
    load if that is less.
    """
    return sorted({*(share * min(most, TIMES * load) for share in SHARES), load})
