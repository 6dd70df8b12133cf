"""Requests that arrive by chance at a deployment: how long they wait for their tokens.

A simulation, and told as such: arrivals are a Poisson process, the engine batches continuously (it
admits whoever waits, prefills them together, and gives every running request one round), all times
are those of `forward_time`, and acceptance is i.i.d. The same seed gives the same numbers. Beside a
plain simulation by simpy, round by round and guess by guess, it is the same without guesses, and
with them off by at most 3 % of medians (tests/sizing/test_plain_simulation.py).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

from specviz.sizing.sized_plan import Policy, SizedPlan

WARM = 4  # times that a request stays, until the first one is counted
COUNTED = 3000  # arrivals, on average, in the time that follows
SATURATED = 8  # times that a request stays, over which the most that is served is measured
TIMES = 3.0  # the plan's load, to which a curve goes where so much can be served
SHARES = (0.15, 0.3, 0.45, 0.6, 0.75, 0.85, 0.95)  # of the load to which it goes
ROUNDED = 1e-6  # tokens that sums may be off by
DRAWN_TOKENS = 128  # of an answer, that are drawn round by round; longer ones in one draw


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Seconds at the median and at the 95th percentile, requests a second within both limits.

    `keeps_up` is false where more arrive than the engine ends with every seat taken: then the queue
    grows as long as that goes on, so in the end nobody is within the limits, and the
    seconds to the first token only say how long it was simulated.
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
    """One simulation: who runs, and what the clock says.

    Nothing changes between two events (one arrives and has a seat, or one ends), so the rounds up
    to the next are one step. `written` counts the tokens that a mean answer got since the start:
    a round adds as many as its K gives on average. `running` is a heap by the count at which each
    ends, further off for one whose guesses have bad luck.
    """

    found: SizedPlan
    policy: Policy
    load: float
    seed: int
    now: float = 0.0
    written: float = 0.0
    running: list[tuple[float, int, _Request]] = field(default_factory=list)
    ended: list[_Request] = field(default_factory=list)
    round_seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    prefill_seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    row_seconds: float = 0.0  # rows that have their first token and no last one, over time
    admitted: int = 0

    def __post_init__(self) -> None:
        # the same arrivals whatever the policy
        self.arriving, self.random = Random(f"arrivals {self.seed}"), Random(self.seed)
        self.seats = self.found.seats(self.policy)
        self.arrival = self.arriving.expovariate(self.load)  # of whoever is the next to be admitted

    def run_until(self, end: float) -> None:
        """Those that are admitted before `end`, without the last that run then."""
        while self.now < end:
            if not self.running and self.arrival > self.now:
                self.now = min(self.arrival, end)
            self.admit()
            self.rounds(end)

    def admit(self) -> None:
        """Prefill what waits, as much as one forward takes; the first token comes with it."""
        most = min(self.seats - len(self.running), self.found.together)
        arrived: list[float] = []
        while len(arrived) < most and self.arrival <= self.now:
            arrived.append(self.arrival)
            self.arrival += self.arriving.expovariate(self.load)
        if not arrived:
            return
        rows = len(self.running) + len(arrived)
        K, count = self.found.length(self.policy, rows), len(arrived)
        if (K, count) not in self.prefill_seconds:
            self.prefill_seconds[K, count] = self.found.first_token_seconds(K, count)
        seconds = self.prefill_seconds[K, count]
        self.row_seconds += len(self.running) * seconds
        self.now += seconds
        for arrival in arrived:
            self.admitted += 1
            ends = self.written + self.drawn_rounds(K) * self.found.tokens(K)
            heappush(self.running, (ends, self.admitted, _Request(arrival, self.now)))

    def rounds(self, end: float) -> None:
        """Up to the next that ends or has a seat to take."""
        rows = len(self.running)
        if not rows:
            return
        K = self.found.length(self.policy, rows)
        tokens = self.found.tokens(K)
        if (rows, K) not in self.round_seconds:
            self.round_seconds[rows, K] = self.found.round_seconds(rows, K)
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
        """Rounds with guesses until an answer is written: each emits what is accepted before the
        first rejection, and one more. Those of a long answer are as good as normally distributed.
        """
        a, left = self.found.plan.acceptance, self.found.plan.output - 1
        if K == 0 or a == 0:
            return left
        if a == 1:
            return math.ceil(left / (K + 1))
        if left > DRAWN_TOKENS:
            mean = self.found.tokens(K)
            square = sum((2 * depth + 1) * a**depth for depth in range(K + 1))
            spread = math.sqrt(left * (square - mean**2) / mean**3)
            return max(math.ceil(left / (K + 1)), round(self.random.gauss(left / mean, spread)))
        count, draw, log_a = 0, self.random.random, math.log(a)
        while left > 0:
            left -= 1 + min(K, int(math.log(1 - draw()) / log_a))
            count += 1
        return count


def _stays(found: SizedPlan, policy: Policy, load: float) -> float:
    """Seconds that a request takes at this load, by Little's law; at the most, with all seats."""

    def rate(rows: int) -> float:
        return found.speeds(rows, found.length(policy, rows)).requests_per_second

    low, high = 0, found.seats(policy)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rate(middle) < load else (low, middle)
    return high / rate(high)


def simulate(
    found: SizedPlan, policy: Policy, load: float, seed: int = 0, counted: int = COUNTED
) -> LoadResult:
    """Those that arrive at a mean of `load` a second while the engine is as full as it gets."""
    plan = found.plan
    keeps_up = load < found.capacity(policy)
    stays = _stays(found, policy, load)
    start = WARM * stays
    seconds = counted / load if keeps_up else SATURATED * stays
    engine = _Engine(found, policy, load, seed)
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
    """The least value that so large a share does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def by_load(found: SizedPlan, seed: int = 0) -> list[dict[str, Any]]:
    """Every policy at several loads, the plan's own among them; nothing where no request fits."""
    if not found.seats(Policy.SPECULATIVE):
        return []
    return [
        asdict(simulate(found, policy, load, seed))
        for load in _loads(found.plan.load, max(map(found.capacity, Policy)))
        for policy in Policy
    ]


def _loads(load: float, most: float) -> list[float]:
    """The plan's own, and what can be served, up to TIMES as much."""
    return sorted({*(share * min(most, TIMES * load) for share in SHARES), load})
