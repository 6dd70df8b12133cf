"""Requests that arrive by chance at a deployment: how long they wait for their tokens.

A simulation, and told as such: arrivals are a Poisson process, the engine batches continuously (it
admits whoever waits, prefills, and gives every running request one round), all times are those of
`forward_time`, and acceptance is i.i.d. The same seed gives the same numbers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from enum import Enum
from random import Random
from typing import Any

import simpy

from specviz import theory
from specviz.sizing.sized_plan import PREFILL_TOKENS, SizedPlan

SEATS = 256  # requests that decode together at the most, as engines have it by default
REQUESTS = 240  # of a simulation; the first tenth finds an empty engine and is not counted
LOADS = (0.5, 1.0, 1.5, 2.0, 3.0)  # of the plan's, in a curve
SHARES = (0.3, 0.6, 0.8, 0.95)  # of the most that it can serve, where the plan's load is more
MOST_ROUNDS = 128  # of an answer, that are simulated one by one; longer ones go several at a time


class Policy(Enum):
    PLAIN = "plain"
    SPECULATIVE = "speculative"
    SWITCHED = "switched"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Seconds at the median and at the 95th percentile, requests a second within both limits.

    `keeps_up` is false where more arrive than the engine can serve at its best: then the queue
    grows as long as that goes on, and the seconds only say how long it was simulated.
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
    left: float
    first: float = math.nan
    ended: float = math.nan


@dataclass
class _Engine:
    """One simulation: the requests that wait and run, and what the clock says."""

    found: SizedPlan
    policy: Policy
    load: float
    seed: int
    env: simpy.Environment = field(default_factory=simpy.Environment)
    waiting: deque[_Request] = field(default_factory=deque)
    running: list[_Request] = field(default_factory=list)
    ended: list[_Request] = field(default_factory=list)
    round_seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    row_seconds: float = 0.0  # rows that have their first token and no last one, over time

    def __post_init__(self) -> None:
        plan = self.found.plan
        # the same arrivals whatever the policy
        self.arriving, self.random = Random(f"arrivals {self.seed}"), Random(self.seed)
        self.seats = min(SEATS, max(1, self.found.largest_batch))
        self.stride = math.ceil(plan.output / MOST_ROUNDS)
        self.together = max(1, PREFILL_TOKENS // plan.prompt)  # prompts of one prefill
        self.arrival = self.env.event()

    def run(self) -> None:
        self.env.process(self.arrivals())
        self.env.run(self.env.process(self.serve()))

    def arrivals(self) -> Generator[simpy.Event]:
        for _ in range(REQUESTS):
            yield self.env.timeout(self.arriving.expovariate(self.load))
            self.waiting.append(_Request(self.env.now, self.found.plan.output))
            if not self.arrival.triggered:
                self.arrival.succeed()

    def serve(self) -> Generator[simpy.Event]:
        while len(self.ended) < REQUESTS:
            if not self.waiting and not self.running:
                self.arrival = self.env.event()
                yield self.arrival
            yield from self.admit()
            yield from self.round()

    def admit(self) -> Generator[simpy.Event]:
        """Prefill what waits, as much as one forward takes; the first token comes with it."""
        free = self.seats - len(self.running)
        count = min(free, self.together, len(self.waiting))
        admitted = [self.waiting.popleft() for _ in range(count)]
        if not admitted:
            return
        K = self.length(len(self.running) + count)
        seconds = self.found.first_token_seconds(K, count)
        yield self.env.timeout(seconds)
        self.row_seconds += len(self.running) * seconds
        for request in admitted:
            request.first = self.env.now
            request.left -= 1
        self.running += admitted

    def length(self, rows: int) -> int:
        """Guesses of a round with so many rows."""
        if self.policy is Policy.PLAIN:
            return 0
        if self.policy is Policy.SPECULATIVE:
            return self.found.K
        paying = self.found.paying_batches
        return self.found.K if paying and paying[0] <= rows <= paying[1] else 0

    def round(self) -> Generator[simpy.Event]:
        rows = len(self.running)
        if not rows:
            return
        K = self.length(rows)
        if (rows, K) not in self.round_seconds:
            self.round_seconds[rows, K] = self.found.round_seconds(rows, K)
        seconds = self.stride * self.round_seconds[rows, K]
        yield self.env.timeout(seconds)
        self.row_seconds += rows * seconds
        still = []
        for request in self.running:
            request.left -= self.emitted(K)
            if request.left > 0:
                still.append(request)
                continue
            request.ended = self.env.now
            self.ended.append(request)
        self.running = still

    def emitted(self, K: int) -> float:
        """Tokens of a row: what is accepted before the first rejection, and one more.

        Several rounds at once give their mean.
        """
        a = self.found.plan.acceptance
        if self.stride > 1:
            return self.stride * theory.expected_tokens(a, K)
        if not K or a == 0:
            return 1
        if a == 1:
            return K + 1
        return 1 + min(K, int(math.log(1 - self.random.random()) / math.log(a)))


def simulate(found: SizedPlan, policy: Policy, load: float, seed: int = 0) -> LoadResult:
    """REQUESTS requests at a mean of `load` a second."""
    engine = _Engine(found, policy, load, seed)
    engine.run()
    plan = found.plan
    counted = sorted(engine.ended, key=lambda each: each.arrived)[REQUESTS // 10 :]
    firsts = [each.first - each.arrived for each in counted]
    tokens = [(each.ended - each.first) / max(1, plan.output - 1) for each in counted]
    good = sum(
        1000 * first <= plan.first_token_limit and 1000 * token <= plan.token_limit
        for first, token in zip(firsts, tokens, strict=True)
    )
    best = found.speeds(engine.seats, engine.length(engine.seats)).requests_per_second
    share = good / len(counted)
    return LoadResult(
        policy=policy.value,
        load=load,
        first_token_p50=_percentile(firsts, 0.5),
        first_token_p95=_percentile(firsts, 0.95),
        token_p50=_percentile(tokens, 0.5),
        token_p95=_percentile(tokens, 0.95),
        goodput=share * min(load, best),
        within_limits=share,
        mean_rows=engine.row_seconds / engine.env.now,
        keeps_up=load < best,
    )


def _percentile(values: list[float], share: float) -> float:
    """The least value that so large a share does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def by_load(found: SizedPlan, seed: int = 0) -> list[dict[str, Any]]:
    """Every policy at several loads, the plan's own among them; nothing where no request fits."""
    if not found.largest_batch:
        return []
    return [
        asdict(simulate(found, policy, load, seed)) for load in _loads(found) for policy in Policy
    ]


def _loads(found: SizedPlan) -> list[float]:
    """Shares and multiples of the plan's load; where that is too much, what can be served, too."""
    load, rows = found.plan.load, min(SEATS, found.largest_batch)
    most = max(found.speeds(rows, K).requests_per_second for K in (0, found.K))
    return [share * load for share in LOADS] if load < most else [*(s * most for s in SHARES), load]
