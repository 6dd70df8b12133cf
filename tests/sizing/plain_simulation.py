"""A second simulation of a serving engine, written with simpy, that draws every drafted token.

It checks `simulated_load`. Requests arrive at the same moments in both simulations, so only the
numbers of accepted tokens differ by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import simpy

from specviz.sizing.sized_plan import Policy, SizedPlan


@dataclass(slots=True, eq=False)
class Request:
    arrived: float
    left: int  # the number of tokens left to write after the first one
    first: float = 0.0
    ended: float = 0.0


class PlainEngine:
    """A simulation with two processes: arriving requests, and the engine.

    The engine runs the prefill of waiting requests, then one round for all running requests. `rows`
    records each change of the number of running requests with its time.
    """

    def __init__(self, found: SizedPlan, policy: Policy, load: float, seed: int) -> None:
        self.found, self.policy, self.load = found, policy, load
        self.arriving, self.guessing = Random(f"arrivals {seed}"), Random(f"guesses {seed}")
        self.clock = simpy.Environment()
        self.waiting = simpy.Store(self.clock)
        self.arrived: list[Request] = []
        self.running: list[Request] = []
        self.rows = [(0.0, 0)]
        self.clock.process(self.arrivals())
        self.clock.process(self.rounds())

    def arrivals(self) -> Iterator[Any]:
        while True:
            yield self.clock.timeout(self.arriving.expovariate(self.load))
            self.arrived.append(Request(self.clock.now, self.found.plan.output - 1))
            yield self.waiting.put(self.arrived[-1])

    def rounds(self) -> Iterator[Any]:
        while True:
            joining = [] if self.running else [(yield self.waiting.get())]
            most = min(self.found.seats(self.policy) - len(self.running), self.found.together)
            while self.waiting.items and len(joining) < most:
                joining.append((yield self.waiting.get()))
            if joining:
                K = self.found.length(self.policy, len(self.running) + len(joining))
                yield self.clock.timeout(self.found.first_token_seconds(K, len(joining)))
                for request in joining:
                    request.first = self.clock.now
                self.run([*self.running, *joining])
            K = self.found.length(self.policy, len(self.running))
            yield self.clock.timeout(self.found.round_seconds(len(self.running), K))
            for request in self.running:
                request.left -= 1 + self.accepted(K)
                if request.left <= 0:
                    request.ended = self.clock.now
            self.run([each for each in self.running if each.left > 0])

    def run(self, requests: list[Request]) -> None:
        self.running = requests
        self.rows.append((self.clock.now, len(requests)))

    def accepted(self, K: int) -> int:
        """Draw verdicts for K drafted tokens; return how many are accepted before a rejection."""
        count = 0
        while count < K and self.guessing.random() < self.found.plan.acceptance:
            count += 1
        return count

    def served(self, start: float, end: float) -> list[Request]:
        """Simulate until all requests that arrived from `start` to `end` are over; return them."""
        self.clock.run(end)
        counted = [each for each in self.arrived if each.arrived >= start]
        while not all(each.ended for each in counted):
            self.clock.run(self.clock.now + (end - start) / 10)
        return counted

    def mean_rows(self, start: float, end: float) -> float:
        inside = [(max(start, now), rows) for now, rows in self.rows if now < end]
        ends = [*(now for now, _ in inside[1:]), end]
        total = sum((then - now) * rows for (now, rows), then in zip(inside, ends, strict=True))
        return total / (end - start)
