"""How much load a deployment can serve, and how many deployments a planned load needs.

Requests arrive at random.
"""

from __future__ import annotations

from functools import cache

from specviz.serving_cost import SECONDS_A_DAY, DailyCost, Load, Machine, daily_cost
from specviz.sizing.simulated_load import simulate
from specviz.sizing.sized_plan import Policy, SizedPlan

# A deployment serves a load if at least this share of the requests meets the plan's two limits: the
# time to the first token, and the time for each further token.
WITHIN = 0.95
COUNTED = 800  # number of requests in one simulation
# The number of steps of the search for the largest load. Each step halves the range in which this
# load must be.
STEPS = 5


class CarriedLoad:
    """The load that a planned deployment can serve, found by `simulated_load`.

    Repeated simulations use the same random draws, so the same plan always gives the same load.
    """

    def __init__(self, sized: SizedPlan) -> None:
        self.sized = sized
        self.rate = cache(self._rate)

    def _rate(self, policy: Policy) -> float:
        """Return the largest load at which `WITHIN` of all requests meet both time limits.

        The load is in requests per second, and 0 if no load meets them. It is smaller than
        `goodput`, which assumes that requests arrive so regularly that the deployment is always
        full. Randomly arriving requests sometimes come close together, and sometimes with long
        gaps.
        """
        low, high = 0.0, self.sized.goodput(policy)[1]
        if not high:
            return 0.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            share = simulate(self.sized, policy, middle, counted=COUNTED).within_limits
            low, high = (middle, high) if share >= WITHIN else (low, middle)
        return low

    def cards(self, policy: Policy) -> int | None:
        """Return how many GPUs the planned load needs in all, or None if no number is enough."""
        cost = self.cost(policy)
        return None if cost is None else cost.machines * self.sized.cards(policy)

    def cost(self, policy: Policy) -> DailyCost | None:
        """Return the cost per day of as many deployments as the planned load needs.

        Return None if a deployment can serve no load. If the plan has no price, the cost is 0.
        """
        rate, plan = self.rate(policy), self.sized.plan
        if not rate:
            return None
        price = self.sized.cards(policy) * (plan.price or 0.0)
        return daily_cost(
            Load(plan.load * plan.output * SECONDS_A_DAY), Machine(rate * plan.output, price)
        )

    def card_seconds_per_token(self, policy: Policy) -> float | None:
        """Return the GPU seconds per output token when a deployment serves its largest load."""
        rate = self.rate(policy)
        return self.sized.cards(policy) / (rate * self.sized.plan.output) if rate else None
