"""The numbers of a plan: times with and without speculation, capacity, load and money.

Forward times come from `forward_time`. Rounds follow `theory`: each guess is accepted
independently. All requests are alike, each is decoded at its own speed (continuous batching), and
none waits in a queue. `simulated_load` adds requests that arrive at random.
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

# The batch sizes that charts show, from 1 to MAX_ROWS.
DRAWN_ROWS = tuple(sorted({round(2 ** (step / 4)) for step in range(41)}))
# The smallest speedup that counts as faster. Users would not notice a smaller speedup, and the
# error of the computed times is larger.
PAYS = 1.05
# The smallest relative gain in decoding speed with which the engine drafts at a batch size.
NO_GAIN = 0.005
# The number of concurrent requests that engines allow, unless the plan has a larger number.
SEATS = 256


class Policy(Enum):
    """When an engine drafts: never, always, or only for batch sizes at which it is faster."""

    PLAIN = "plain"
    SPECULATIVE = "speculative"
    SWITCHED = "switched"


@dataclass(frozen=True, slots=True)
class Speeds:
    """The speeds of plain or of speculative decoding.

    `first_token`, `token` and `request` are the seconds to the first token, per further token and
    per whole request. The two rates count the tokens and requests of all sequences together.
    `request` and the rates include the time in which a sequence waits for the prefills of other
    requests, and `token` does not.
    """

    first_token: float
    token: float
    request: float
    tokens_per_second: float
    requests_per_second: float
    loaded_token: float  # seconds per token when prefills of other requests interrupt the rounds
    prompt_share: float  # share of the engine's time that prefills take


@dataclass(frozen=True, slots=True)
class LengthRange:
    """The draft length K for `first` to `last` concurrent requests.

    K is 0 if speculation is not faster.
    """

    first: int
    last: int
    K: int


@dataclass(frozen=True, slots=True)
class Job:
    """A batch job on one deployment that decodes `rows` of its requests at once."""

    rows: int
    seconds: float
    card_hours: float
    prompt_share: float  # share of the job's `seconds` that prefills take


class SizedPlan:
    """A plan with its target and draft on their GPUs.

    In every method of this class, the argument K = 0 means plain decoding.
    """

    def __init__(self, plan: ServingPlan) -> None:
        self.plan = plan
        self.target = placed(plan.target, plan.gpu, plan.gpus, plan.precision, plan.cache_precision)
        self.draft: PlacedModel | None = None
        if plan.draft is not None:
            cards = plan.draft_gpus or plan.gpus
            self.draft = placed(
                plan.draft, plan.gpu, cards, plan.draft_precision, plan.cache_precision
            )
        # the average number of tokens in the context while an answer is written
        self.context = plan.prompt + plan.output / 2
        # These functions are cached, because sums over all batch sizes call them again and again.
        self.tokens = cache(self._tokens)
        self.step_seconds = cache(self._step_seconds)
        self.cost_ratio = cache(self._cost_ratio)
        self.best_length = cache(self._best_length)
        self.length = cache(self._length)
        self.first_token_seconds = cache(self._first_token_seconds)
        self.speeds = cache(self._speeds)

    def _tokens(self, K: int) -> float:
        """Return the average number of tokens that each sequence gets in a round."""
        return 1 + math.fsum(self.survival(K))

    def survival(self, K: int) -> tuple[float, ...]:
        """Return the probabilities that at least 1, 2, … K guesses are accepted.

        They were measured, or they are computed from one acceptance rate for all depths.
        """
        if self.plan.survival:
            return self.plan.survival[:K]
        return tuple(self.plan.acceptance**depth for depth in range(1, K + 1))

    def _cost_ratio(self, rows: int) -> float:
        """Return the cost ratio c, for one token per sequence.

        It is the time of a draft forward divided by the time of a target forward.
        """
        if self.draft is None:
            return 0.0
        return self.draft.seconds(rows, 1, self.context) / self.step_seconds(rows)

    def verification_overhead(self, rows: int, K: int) -> float:
        """Return the verification overhead v for K drafted tokens per sequence.

        It is the extra time of a target forward for K more tokens per sequence, divided by the time
        of a forward with one token per sequence.
        """
        return self.target.seconds(rows, K + 1, self.context) / self.step_seconds(rows) - 1

    def _step_seconds(self, rows: int) -> float:
        return self.target.seconds(rows, 1, self.context)

    def round_seconds(self, rows: int, K: int) -> float:
        cost = theory.round_cost(K, self.cost_ratio(rows), self.verification_overhead(rows, K))
        return cost * self.step_seconds(rows)

    def speedup(self, rows: int, K: int) -> float:
        """Return the speedup per token after the first token. It is 1 for K = 0."""
        c, v = self.cost_ratio(rows), self.verification_overhead(rows, K)
        return self.tokens(K) / theory.round_cost(K, c, v)

    def request_speedup(self, rows: int, K: int) -> float:
        """Return the speedup of whole requests, prefills included.

        Tokens per second rise by the same factor.
        """
        return self.speeds(rows, 0).request / self.speeds(rows, K).request

    def _best_length(self, rows: int) -> int:
        """Return the K of at least 1 with the highest speedup.

        Even the highest speedup may be below 1. Each further guess gains less and costs more, so
        the search stops at the first guess that gains nothing. For a mixture of experts all K are
        tried, because further tokens may use experts that are already read.
        """
        longest = self.plan.longest_draft
        if self.plan.target.experts > 1:
            return max(range(1, longest + 1), key=lambda K: self.speedup(rows, K))
        K = 1
        while K < longest and self.speedup(rows, K + 1) > self.speedup(rows, K):
            K += 1
        return K

    def _length(self, policy: Policy, rows: int) -> int:
        """Return K for a round with `rows` sequences: the plan's K, or the best for that batch.

        The result is 0 if the policy does not draft at this batch size.
        """
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
        """Return K for each number of concurrent requests, up to MAX_ROWS.

        K is the plan's, or the best one if the plan has none. It is 0 where speculation is not
        faster.
        """
        found: list[LengthRange] = []
        for rows in range(1, MAX_ROWS + 1):
            K = self.length(Policy.SWITCHED, rows)
            if found and found[-1].K == K:
                found[-1] = replace(found[-1], last=rows)
            else:
                found.append(LengthRange(rows, rows, K))
        return tuple(found)

    @cached_property
    def paying_ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of concurrent requests in which speculation is faster, up to MAX_ROWS.

        There may be several ranges. For a mixture of experts, speculation may be slower with one
        request and faster with more requests. The reason is that a large batch reads most experts
        even without speculation.
        """
        ranges: list[tuple[int, int]] = []
        for each in self.lengths:
            if not each.K:
                continue
            if ranges and ranges[-1][1] == each.first - 1:
                ranges[-1] = (ranges[-1][0], each.last)
            else:
                ranges.append((each.first, each.last))
        return ranges

    @cached_property
    def paying_batches(self) -> tuple[int, int] | None:
        """Return the range in which speculation is faster and that includes the planned batch.

        If the planned batch is in none, return the range with the highest speedup. Return None if
        speculation is never faster.
        """
        rows, ranges = self.plan.batch, self.paying_ranges
        if self._gain(rows) >= PAYS:
            return next(each for each in ranges if each[0] <= rows <= each[1])
        return max(ranges, key=self._highest_speedup) if ranges else None

    def _gain(self, rows: int) -> float:
        return self.request_speedup(rows, self.length(Policy.SPECULATIVE, rows))

    def _highest_speedup(self, rows: tuple[int, int]) -> float:
        """Return the highest speedup in a range of batch sizes, among DRAWN_ROWS and both ends."""
        first, last = rows
        seen = {first, last, *(each for each in DRAWN_ROWS if first <= each <= last)}
        return max(map(self._gain, seen))

    def _first_token_seconds(self, K: int, rows: int = 1) -> float:
        """Return the seconds of a prefill of `rows` prompts.

        A draft model needs its own prefill. If it has its own GPUs, both prefills run at the same
        time.
        """
        if K and self.draft is not None:
            own, other = self.first_token_seconds(0, rows), self._draft_prefill(rows)
            return max(own, other) if self.plan.draft_gpus else own + other
        return self.target.prefill_seconds(rows, self.plan.prompt)

    def _draft_prefill(self, rows: int) -> float:
        assert self.draft is not None
        return self.draft.prefill_seconds(rows, self.plan.prompt)

    def _speeds(self, rows: int, K: int) -> Speeds:
        """Return the speeds while `rows` requests always run.

        A new request replaces each request that ends. A prefill stops all sequences. It reads the
        prompts of all requests that arrived during one round. So each request takes its share of
        the time of a prefill and of the rounds, and the requests per second are

            1 / (prefill / prompts + answer x token time / rows)

        A prefill follows only a round in which at least one request ends. Let n be the mean number
        of requests that end in a round. Over the rounds with at least one such request, the mean is
        n / (1 - exp(-n)), as for a Poisson distribution without zero. This is the number of prompts
        in a prefill.
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
        """Return the seconds of a prefill; `prompts` is an average number and may be a fraction."""
        least = int(prompts)
        low, high = (self.first_token_seconds(K, rows) for rows in (least, least + 1))
        return low + (prompts - least) * (high - low)

    @property
    def together(self) -> int:
        """Return how many prompts fit into one prefill."""
        return max(1, PREFILL_TOKENS // self.plan.prompt)

    def capacity(self, policy: Policy) -> float:
        """Return how many requests per second a full engine finishes.

        If more arrive, the queue grows.
        """
        rows = self.seats(policy)
        return self.speeds(rows, self.length(policy, rows)).requests_per_second

    def goodput(self, policy: Policy) -> tuple[int, float]:
        """Return the batch size with the highest rate of requests within both latency limits.

        Return also that rate, in requests per second. All seats of the batch are assumed to be in
        use at all times. The rate is 0 if no batch size meets the limits.
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
            # a request arrives during a round, and waits for half a round on average
            waited = found.first_token + self.round_seconds(rows, K) / 2
            if found.loaded_token <= limit and waited <= first:
                best = max(best, (rows, found.requests_per_second), key=lambda each: each[1])
        return best

    def memory(self, rows: int, policy: Policy = Policy.SPECULATIVE) -> list[Memory]:
        """Return the memory of one of the target's GPUs, and of one of the draft's own GPUs.

        For plain decoding, no draft is loaded.
        """
        draft = None if policy is Policy.PLAIN else self.draft
        return memory_of(self.plan, self.target, draft, rows, self.length(policy, rows))

    def fits(self, rows: int, policy: Policy = Policy.SPECULATIVE) -> bool:
        return all(each.headroom >= 0 for each in self.memory(rows, policy))

    def largest_batch(self, policy: Policy = Policy.SPECULATIVE) -> int:
        """Return how many whole requests fit into memory. It is 0 if not even one does."""
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
        """Return how many requests may decode together: limited by memory and by the engine."""
        return min(max(SEATS, self.plan.batch), self.largest_batch(policy))

    @cached_property
    def fewest_gpus(self) -> int | None:
        """Return the smallest number of target GPUs that have enough memory for the planned batch.

        Only powers of two that divide the number of attention heads are tried. Return None if no
        number up to MAX_GPUS is enough.
        """
        counts = (2**power for power in range(MAX_GPUS.bit_length()))
        shared = (n for n in counts if self.plan.target.heads % n == 0)
        groups = (
            (n, SizedPlan(replace(self.plan, gpus=n)).memory(self.plan.batch)) for n in shared
        )
        return next((n for n, (own, *_) in groups if own.headroom >= 0), None)

    def cards(self, policy: Policy) -> int:
        return self.plan.gpus + (0 if policy is Policy.PLAIN else self.plan.draft_gpus)

    def job(self, policy: Policy) -> Job | None:
        """Return the planned batch job with all seats in use. Time limits do not matter to it.

        Return None if no job is planned or nothing fits into memory.
        """
        if self.plan.job is None or not self.seats(policy):
            return None
        rows = min(self.plan.job, self.seats(policy))
        speeds = self.speeds(rows, self.length(policy, rows))
        seconds = self.plan.job / speeds.requests_per_second
        return Job(rows, seconds, self.cards(policy) * seconds / 3600, speeds.prompt_share)
