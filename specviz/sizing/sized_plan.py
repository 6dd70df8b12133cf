"""What a plan comes to: times with and without speculation, what it carries, load and money.

Times of forwards are those of `forward_time`; rounds follow `theory`, whose acceptance is i.i.d.
Requests are alike, each decodes by itself (continuous batching), and nothing queues:
`simulated_load` adds arrivals by chance, to an engine with the same lengths, seats and times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property

from specviz import theory
from specviz.sizing.forward_time import MAX_GPUS, PlacedModel, placed
from specviz.sizing.plan_memory import PREFILL_TOKENS, Memory, memory_of
from specviz.sizing.serving_plan import MAX_ROWS, ServingPlan

DRAWN_ROWS = tuple(sorted({round(2 ** (step / 4)) for step in range(41)}))  # 1 to MAX_ROWS
NO_GAIN = 0.005  # of a speedup, that nobody would see: with less, speculation is switched off
SEATS = 256  # requests that decode together, as engines have it where nobody plans for more


class Policy(Enum):
    """How an engine decodes: never with guesses, always, or only with the batches that gain."""

    PLAIN = "plain"
    SPECULATIVE = "speculative"
    SWITCHED = "switched"


@dataclass(frozen=True, slots=True)
class Speeds:
    """Of one way of decoding: seconds to the first token, of each further one and of a whole
    request; tokens and requests a second of all rows, prefills included.
    """

    first_token: float
    token: float
    request: float
    tokens_per_second: float
    requests_per_second: float
    loaded_token: float  # with the prefills of others in between
    prompt_share: float  # of the time, that goes into prefills


@dataclass(frozen=True, slots=True)
class LengthRange:
    """K for the requests at once from `first` to `last`; 0 where speculation loses."""

    first: int
    last: int
    K: int


@dataclass(frozen=True, slots=True)
class Job:
    """Of all requests of a batch job, on one deployment that decodes `rows` of them at once."""

    rows: int
    seconds: float
    card_hours: float
    prompt_share: float  # of that time, that goes into prefills


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
        # each is asked for again and again, by the sums over all batches
        self.tokens = cache(self._tokens)
        self.step_seconds = cache(self._step_seconds)
        self.cost_ratio = cache(self._cost_ratio)
        self.best_length = cache(self._best_length)
        self.length = cache(self._length)
        self.first_token_seconds = cache(self._first_token_seconds)
        self.speeds = cache(self._speeds)

    # ---- rounds

    def _tokens(self, K: int) -> float:
        """Of a row in a round."""
        return theory.expected_tokens(self.plan.acceptance, K)

    def _cost_ratio(self, rows: int) -> float:
        """c: a draft forward in target forwards, both over one token of each row."""
        if self.draft is None:
            return 0.0
        return self.draft.seconds(rows, 1, self.context) / self.step_seconds(rows)

    def verification_overhead(self, rows: int, K: int) -> float:
        """v: what K further tokens of each row add to a target forward, in forwards."""
        return self.target.seconds(rows, K + 1, self.context) / self.step_seconds(rows) - 1

    def _step_seconds(self, rows: int) -> float:
        return self.target.seconds(rows, 1, self.context)

    def round_seconds(self, rows: int, K: int) -> float:
        cost = theory.round_cost(K, self.cost_ratio(rows), self.verification_overhead(rows, K))
        return cost * self.step_seconds(rows)

    def speedup(self, rows: int, K: int) -> float:
        """Of a token after the first; 1 for K = 0."""
        c, v = self.cost_ratio(rows), self.verification_overhead(rows, K)
        return self.tokens(K) / theory.round_cost(K, c, v)

    def request_speedup(self, rows: int, K: int) -> float:
        """Of whole requests, prefills included: of their times as of the tokens a second."""
        return self.speeds(rows, 0).request / self.speeds(rows, K).request

    def _best_length(self, rows: int) -> int:
        """The K from 1 on with the highest speedup, which may lose still.

        A longer round gains ever less and costs ever more, so the first that gains nothing ends the
        search; but in a mixture of experts further tokens may find their experts read.
        """
        longest = self.plan.longest_draft
        if self.plan.target.experts > 1:
            return max(range(1, longest + 1), key=lambda K: self.speedup(rows, K))
        K = 1
        while K < longest and self.speedup(rows, K + 1) > self.speedup(rows, K):
            K += 1
        return K

    def _length(self, policy: Policy, rows: int) -> int:
        """Guesses of a round with so many rows: the plan's own K, or the best for each batch."""
        if policy is Policy.PLAIN:
            return 0
        K = self.plan.draft_length or self.best_length(rows)
        if policy is Policy.SWITCHED and self.request_speedup(rows, K) < 1 + NO_GAIN:
            return 0
        return K

    @property
    def K(self) -> int:
        return self.length(Policy.SPECULATIVE, self.plan.batch)

    @cached_property
    def lengths(self) -> tuple[LengthRange, ...]:
        """K by requests at once, up to the most that are looked at."""
        found: list[LengthRange] = []
        for rows in range(1, MAX_ROWS + 1):
            K = self.length(Policy.SWITCHED, rows)
            if found and found[-1].K == K:
                found[-1] = replace(found[-1], last=rows)
            else:
                found.append(LengthRange(rows, rows, K))
        return tuple(found)

    @cached_property
    def paying_batches(self) -> tuple[int, int] | None:
        """The least and the most requests with which it pays, of the range that the plan lies in,
        else of the first one; None where it never does, MAX_ROWS at the most.

        A mixture of experts may lose alone and pay in company: its experts are then read anyway.
        """
        ranges: list[tuple[int, int]] = []
        for each in self.lengths:
            if not each.K:
                continue
            if ranges and ranges[-1][1] == each.first - 1:
                ranges[-1] = (ranges[-1][0], each.last)
            else:
                ranges.append((each.first, each.last))
        here = (each for each in ranges if each[0] <= self.plan.batch <= each[1])
        return next(here, ranges[0] if ranges else None)

    # ---- requests

    def _first_token_seconds(self, K: int, rows: int = 1) -> float:
        """The prefill of `rows` prompts together; a draft has one of its own, at the same time
        where its cards are its own.
        """
        if K and self.draft is not None:
            own, other = self.first_token_seconds(0, rows), self._draft_prefill(rows)
            return max(own, other) if self.plan.draft_gpus else own + other
        return self.target.prefill_seconds(rows, self.plan.prompt)

    def _draft_prefill(self, rows: int) -> float:
        assert self.draft is not None
        return self.draft.prefill_seconds(rows, self.plan.prompt)

    def _speeds(self, rows: int, K: int) -> Speeds:
        """Of `rows` requests that are always there: one that ends makes room for the next.

        Each prefill holds all rows up for its time, and takes the prompts of all that came in one
        round, so a request takes its share of a prefill and of the rounds:
        1 / (prefill / prompts + answer x token time / rows) requests a second. With n that end in a
        mean round, by chance, those rounds in which any end have n / (1 - exp(-n)).
        """
        left = self.plan.output - 1
        tokens = self.tokens(K)
        rounds = max(1, left / tokens)
        ended = rows / rounds
        prompts = max(1.0, min(self.together, rows, ended / -math.expm1(-ended)))
        first = self._prefill(1 if K else 0, prompts)
        token = self.round_seconds(rows, K) / tokens
        rate = 1 / (first / prompts + rounds * tokens * token / rows)
        return Speeds(
            first_token=first,
            token=token,
            request=rows / rate,
            tokens_per_second=rate * self.plan.output,
            requests_per_second=rate,
            loaded_token=(rows / rate - first) / left,
            prompt_share=first / prompts * rate,
        )

    def _prefill(self, K: int, prompts: float) -> float:
        """Of a mean number of prompts."""
        least = int(prompts)
        low, high = (self.first_token_seconds(K, rows) for rows in (least, least + 1))
        return low + (prompts - least) * (high - low)

    @property
    def together(self) -> int:
        """Prompts of one prefill at the most."""
        return max(1, PREFILL_TOKENS // self.plan.prompt)

    def capacity(self, policy: Policy) -> float:
        """Requests a second that end with every seat taken: where more arrive, the queue grows."""
        rows = self.seats(policy)
        return self.speeds(rows, self.length(policy, rows)).requests_per_second

    def goodput(self, policy: Policy) -> tuple[int, float]:
        """Rows, and the requests a second that they serve within both limits, all of them always
        taken; 0 where none do.
        """
        return self._goodputs[policy]

    @cached_property
    def _goodputs(self) -> dict[Policy, tuple[int, float]]:
        return {policy: self._goodput(policy) for policy in Policy}

    def _goodput(self, policy: Policy) -> tuple[int, float]:
        limit, first = self.plan.token_limit / 1000, self.plan.first_token_limit / 1000
        best = (0, 0.0)
        for rows in range(1, self.seats(policy) + 1):
            K = self.length(policy, rows)
            found = self.speeds(rows, K)
            waited = found.first_token + self.round_seconds(rows, K) / 2  # for the round under way
            if found.loaded_token <= limit and waited <= first:
                best = max(best, (rows, found.requests_per_second), key=lambda each: each[1])
        return best

    # ---- memory

    def memory(self, rows: int, policy: Policy = Policy.SPECULATIVE) -> list[Memory]:
        """Of a card of the target's, and of one of the draft's where it has its own; plain
        decoding holds no draft.
        """
        draft = None if policy is Policy.PLAIN else self.draft
        return memory_of(self.plan, self.target, draft, rows, self.length(policy, rows))

    def fits(self, rows: int, policy: Policy = Policy.SPECULATIVE) -> bool:
        return all(each.headroom >= 0 for each in self.memory(rows, policy))

    def largest_batch(self, policy: Policy = Policy.SPECULATIVE) -> int:
        """Rows of whole requests that the memory holds; 0 where not even one fits."""
        return self._largest[policy]

    @cached_property
    def _largest(self) -> dict[Policy, int]:
        return {policy: self._largest_batch(policy) for policy in Policy}

    def _largest_batch(self, policy: Policy) -> int:
        low, high = 0, MAX_ROWS + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle, policy) else (low, middle)
        return low

    def seats(self, policy: Policy) -> int:
        """Requests that decode together at the most: those that fit, and that engines let in."""
        return min(max(SEATS, self.plan.batch), self.largest_batch(policy))

    @cached_property
    def fewest_gpus(self) -> int | None:
        """Powers of two of the target's that hold the plan's batch and share its heads; None where
        no number up to MAX_GPUS does.
        """
        counts = (2**power for power in range(MAX_GPUS.bit_length()))
        shared = (n for n in counts if self.plan.target.heads % n == 0)
        groups = (
            (n, SizedPlan(replace(self.plan, gpus=n)).memory(self.plan.batch)) for n in shared
        )
        return next((n for n, (own, *_) in groups if own.headroom >= 0), None)

    # ---- cards

    def cards(self, policy: Policy) -> int:
        return self.plan.gpus + (0 if policy is Policy.PLAIN else self.plan.draft_gpus)

    def job(self, policy: Policy) -> Job | None:
        """Of the plan's batch job, with as many rows as there are seats and nobody's limits; None
        where there is no job or nothing fits.
        """
        if self.plan.job is None or not self.seats(policy):
            return None
        rows = min(self.plan.job, self.seats(policy))
        speeds = self.speeds(rows, self.length(policy, rows))
        seconds = self.plan.job / speeds.requests_per_second
        return Job(rows, seconds, self.cards(policy) * seconds / 3600, speeds.prompt_share)
