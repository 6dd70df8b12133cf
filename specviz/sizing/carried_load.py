"""What a deployment carries of requests that arrive by chance, and what a load of them takes."""

from __future__ import annotations

from functools import cache

from specviz.serving_cost import SECONDS_A_DAY, DailyCost, Load, Machine, daily_cost
from specviz.sizing.simulated_load import simulate
from specviz.sizing.sized_plan import Policy, SizedPlan

WITHIN = 0.95  # of all requests, that a deployment must serve within both limits
COUNTED = 800  # requests of one simulation
STEPS = 5  # halvings of the range in which the load is looked for


class CarriedLoad:
    """Of one plan, as `simulated_load` has it; the same numbers each time."""

    def __init__(self, found: SizedPlan) -> None:
        self.found = found
        self.rate = cache(self._rate)

    def _rate(self, policy: Policy) -> float:
        """The most requests a second of which `WITHIN` are within both limits; 0 where none are.

        Less than `goodput`, to which all seats that keep the limits are always taken: by chance
        there are more at times, and then less.
        """
        low, high = 0.0, self.found.goodput(policy)[1]
        if not high:
            return 0.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            share = simulate(self.found, policy, middle, counted=COUNTED).within_limits
            low, high = (middle, high) if share >= WITHIN else (low, middle)
        return low

    def cards(self, policy: Policy) -> int | None:
        """Of whole deployments that carry the plan's load; None where none of it is carried."""
        cost = self.cost(policy)
        return None if cost is None else cost.machines * self.found.cards(policy)

    def cost(self, policy: Policy) -> DailyCost | None:
        """Of the plan's load, on copies of this deployment; without a price its money is 0."""
        rate, plan = self.rate(policy), self.found.plan
        if not rate:
            return None
        price = self.found.cards(policy) * (plan.price or 0.0)
        return daily_cost(
            Load(plan.load * plan.output * SECONDS_A_DAY), Machine(rate * plan.output, price)
        )

    def card_seconds_per_token(self, policy: Policy) -> float | None:
        """Of an answer's token, on a deployment that carries as much as it can."""
        rate = self.rate(policy)
        return self.found.cards(policy) / (rate * self.found.plan.output) if rate else None
