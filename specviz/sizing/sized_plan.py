"""What a plan comes to: times with and without speculation, memory, load and money.

Times of forwards are those of `forward_time`; rounds follow `theory`, whose acceptance is i.i.d.
Requests are alike, each decodes by itself (continuous batching), and nothing queues: `load` adds
arrivals by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from specviz import theory
from specviz.records import MAX_DRAFT_LENGTH
from specviz.serving_cost import SECONDS_A_DAY, DailyCost, Load, Machine, daily_cost
from specviz.sizing.forward_time import GIGA, MAX_GPUS, PlacedModel, placed
from specviz.sizing.serving_plan import MAX_ROWS, ServingPlan
from specviz.sizing.shape import ModelShape

DRAWN_ROWS = tuple(sorted({round(2 ** (step / 4)) for step in range(41)}))  # 1 to MAX_ROWS
PREFILL_TOKENS = 8192  # of prompts in one forward at the most: engines cut longer ones
LOGIT_BYTES = 4
ACTIVATIONS = 6  # arrays of the model's or the block's width that live at once in a layer


@dataclass(frozen=True, slots=True)
class Speeds:
    """Of one way of decoding: seconds to the first token and of each further one; tokens and
    requests a second of all rows, prefills included.
    """

    first_token: float
    token: float
    tokens_per_second: float
    requests_per_second: float
    loaded_token: float  # with the prefills of others in between


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on each card of a group, by what they are for; `limit` of them may be used."""

    cards: int
    limit: float
    target: float
    draft: float
    target_cache: float
    draft_cache: float
    activations: float

    @property
    def used(self) -> float:
        weights = self.target + self.draft
        return weights + self.target_cache + self.draft_cache + self.activations

    @property
    def headroom(self) -> float:
        return self.limit - self.used


class SizedPlan:
    """A plan's target and draft in their places. K = 0 is plain decoding throughout."""

    def __init__(self, plan: ServingPlan) -> None:
        self.plan = plan
        self.target = placed(plan.target, plan.gpu, plan.gpus, plan.precision, plan.cache_precision)
        self.draft: PlacedModel | None = None
        if plan.draft is not None:
            cards = plan.draft_gpus or plan.gpus
            self.draft = placed(
                plan.draft, plan.gpu, cards, plan.draft_precision, plan.cache_precision
            )
        self.context = plan.prompt + plan.output / 2  # of a mean moment of an answer

    # ---- rounds

    def cost_ratio(self, rows: int) -> float:
        """c: a draft forward in target forwards, both over one token of each row."""
        if self.draft is None:
            return 0.0
        return self.draft.seconds(rows, 1, self.context) / self.step_seconds(rows)

    def verification_overhead(self, rows: int, K: int) -> float:
        """v: what K further tokens of each row add to a target forward, in forwards."""
        return self.target.seconds(rows, K + 1, self.context) / self.step_seconds(rows) - 1

    def step_seconds(self, rows: int) -> float:
        return self.target.seconds(rows, 1, self.context)

    def round_seconds(self, rows: int, K: int) -> float:
        cost = theory.round_cost(K, self.cost_ratio(rows), self.verification_overhead(rows, K))
        return cost * self.step_seconds(rows)

    def speedup(self, rows: int, K: int) -> float:
        """Of a token; 1 for K = 0."""
        c, v = self.cost_ratio(rows), self.verification_overhead(rows, K)
        return theory.speedup(self.plan.acceptance, K, c, v)

    def best_length(self, rows: int) -> int:
        """The K from 1 on with the highest speedup, which may lose still."""
        return max(range(1, MAX_DRAFT_LENGTH + 1), key=lambda K: self.speedup(rows, K))

    @cached_property
    def K(self) -> int:
        return self.plan.draft_length or self.best_length(self.plan.batch)

    @cached_property
    def paying_batches(self) -> tuple[int, int] | None:
        """The least and the most requests with which the plan's K pays, of the range that the plan
        lies in, else of the first one; None where it never does, MAX_ROWS at the most.

        A mixture of experts may lose alone and pay in company: its experts are then read anyway.
        """
        ranges: list[tuple[int, int]] = []
        for rows in range(1, MAX_ROWS + 1):
            if self.speedup(rows, self.K) <= 1:
                continue
            if ranges and ranges[-1][1] == rows - 1:
                ranges[-1] = (ranges[-1][0], rows)
            else:
                ranges.append((rows, rows))
        here = (each for each in ranges if each[0] <= self.plan.batch <= each[1])
        return next(here, ranges[0] if ranges else None)

    # ---- requests

    def first_token_seconds(self, K: int, rows: int = 1) -> float:
        """The prefill of `rows` prompts together; a draft has one of its own, at the same time
        where its cards are its own.
        """
        own = self.target.prefill_seconds(rows, self.plan.prompt)
        if not K or self.draft is None:
            return own
        other = self.draft.prefill_seconds(rows, self.plan.prompt)
        return max(own, other) if self.plan.draft_gpus else own + other

    def speeds(self, rows: int, K: int) -> Speeds:
        """Of `rows` requests that are always there: one that ends makes room for the next.

        Each prefill holds all rows up for its time, and takes the prompts of all that came in one
        round, so a request takes its share of a prefill and of the rounds:
        1 / (prefill / prompts + answer x token time / rows) requests a second.
        """
        left = self.plan.output - 1
        tokens = theory.expected_tokens(self.plan.acceptance, K)
        rounds = max(1, left / tokens)
        prompts = max(1, min(self.together, int(rows / rounds)))
        first = self.first_token_seconds(K, prompts)
        token = self.round_seconds(rows, K) / tokens
        rate = 1 / (first / prompts + rounds * tokens * token / rows)
        return Speeds(
            first_token=first,
            token=token,
            tokens_per_second=rate * self.plan.output,
            requests_per_second=rate,
            loaded_token=(rows / rate - first) / left,
        )

    @property
    def together(self) -> int:
        """Prompts of one prefill at the most."""
        return max(1, PREFILL_TOKENS // self.plan.prompt)

    def goodput(self, K: int) -> tuple[int, float]:
        """Rows, and the requests a second that they serve within both limits; 0 where none do."""
        limit, first = self.plan.token_limit / 1000, self.plan.first_token_limit / 1000
        best = (0, 0.0)
        for rows in range(1, self.largest_batch + 1):
            found = self.speeds(rows, K)
            waited = found.first_token + self.round_seconds(rows, K) / 2  # for the round under way
            if found.loaded_token <= limit and waited <= first:
                best = max(best, (rows, found.requests_per_second), key=lambda each: each[1])
        return best

    # ---- memory

    def memory(self, rows: int) -> list[Memory]:
        """Of a card of the target's, and of one of the draft's where it has its own."""
        plan, whole = self.plan, self.plan.prompt + self.plan.output + MAX_DRAFT_LENGTH
        limit = plan.gpu.memory * GIGA * plan.memory_share
        cache = rows * whole * self.target.context_bytes / self.target.cache_cards
        activations = self._activation_bytes(plan.target, rows)
        draft = draft_cache = 0.0
        if self.draft is not None:
            draft = self.draft.stored_bytes
            draft_cache = rows * whole * self.draft.context_bytes / self.draft.cache_cards
        cards, own = plan.gpus, plan.draft_gpus
        first = Memory(
            cards=cards,
            limit=limit,
            target=self.target.stored_bytes / cards,
            draft=0.0 if own else draft / cards,
            target_cache=cache,
            draft_cache=0.0 if own else draft_cache,
            activations=activations / cards,
        )
        if not own or plan.draft is None:
            return [first]
        little = self._activation_bytes(plan.draft, rows) / own
        return [first, Memory(own, limit, 0.0, draft / own, 0.0, draft_cache, little)]

    def _activation_bytes(self, model: ModelShape, rows: int) -> float:
        """Of a forward over the longest prefill, and the logits of what is scored."""
        scored = rows * (self.K + 1)
        tokens = max(scored, min(PREFILL_TOKENS, rows * self.plan.prompt))
        width = max(model.intermediate_size, model.expert_size * model.active_experts)
        values = tokens * (ACTIVATIONS * model.hidden_size + 2 * width)
        return 2 * values + scored * model.vocabulary * LOGIT_BYTES

    def fits(self, rows: int) -> bool:
        return all(each.headroom >= 0 for each in self.memory(rows))

    def fitting(self, batches: Iterable[int]) -> list[int]:
        return [rows for rows in batches if self.fits(rows)]

    @cached_property
    def largest_batch(self) -> int:
        """Rows of whole requests that the memory holds; 0 where not even one fits."""
        low, high = 0, MAX_ROWS + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle) else (low, middle)
        return low

    @cached_property
    def fewest_gpus(self) -> int | None:
        """Powers of two of the target's that hold the plan's batch; None where MAX_GPUS do not."""
        counts = (2**power for power in range(MAX_GPUS.bit_length()))
        plans = ((count, replace(self.plan, gpus=count)) for count in counts)
        groups = ((n, SizedPlan(plan).memory(plan.batch)) for n, plan in plans)
        return next((n for n, (own, *_) in groups if own.headroom >= 0), None)

    # ---- money

    def cards(self, K: int) -> int:
        return self.plan.gpus + (self.plan.draft_gpus if K else 0)

    def cost(self, rows: int, K: int) -> DailyCost:
        """Of the plan's load, on copies of this deployment that each decode `rows` rows."""
        load = Load(self.plan.load * self.plan.output * SECONDS_A_DAY)
        rate = self.speeds(rows, K).tokens_per_second
        return daily_cost(load, Machine(rate, self.cards(K) * self.plan.price))

    def money_per_million(self, rows: int, K: int) -> float:
        """Of answer tokens, by a deployment that always has `rows` requests."""
        an_hour = self.cards(K) * self.plan.price
        return an_hour / (3600 * self.speeds(rows, K).tokens_per_second) * 1e6


def acceptance_of(tokens_per_round: float, K: int) -> float | None:
    """The i.i.d. acceptance rate that emits so many tokens a round; None where none does.

    >>> round(acceptance_of(3.69, 5), 2)
    0.8
    """
    if not math.isfinite(tokens_per_round) or not 1 <= tokens_per_round <= K + 1:
        return None
    return theory.break_even_acceptance(K, 0.0, tokens_per_round - 1)
