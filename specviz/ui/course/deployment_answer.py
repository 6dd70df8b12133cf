"""A lesson's calculator: what theory predicts for speculation on a planned deployment.

The target and the draft are each modelled as a roofline: a forward takes the time to read its
weights or the time to compute with them, whichever is longer. To this the calculator adds the time
to read the KV cache of its sequences. The calculator leaves out the arithmetic of attention and the
work of the host, which can only add time. The page Serve uses the same model of a forward and
reports more about a deployment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from specviz import theory
from specviz.errors import InputError, number_between, short, whole_between
from specviz.figures.batch_speedup import batch_speedup_figure
from specviz.records import MAX_DRAFT_LENGTH
from specviz.sizing.forward_time import GIGA, TERA, Hardware
from specviz.sizing.shape import Weights

MOST_ROWS = 512
# Batch sizes (numbers of sequences) in the figure, from 1 to MOST_ROWS.
DRAWN_ROWS = tuple(sorted({round(2 ** (step / 4)) for step in range(37)}))
KILO = 1e3


@dataclass(frozen=True, slots=True)
class Deployment:
    """A planned deployment.

    `a` is the acceptance rate, `K` the number of drafted tokens per round, and `rows` the number of
    sequences in a batch. Units: parameters in billions, memory in GB, bandwidth in GB/s, arithmetic
    in TFLOP/s, lengths in tokens, caches in kB per token. In a mixture of experts, a forward reads
    the experts that its tokens select and computes with `active` experts per token. `experts` is 1
    for a dense target.
    """

    parameters: float
    draft_parameters: float
    bytes_per_weight: float
    cache: float
    draft_cache: float
    memory: float
    bandwidth: float
    arithmetic: float
    a: float
    K: int
    rows: int
    prompt: int
    answer: int
    experts: int
    active: int

    def target_seconds(self, rows: int, tokens: int) -> float:
        """Return the time of a forward that adds `tokens` new tokens to each of `rows` sequences.

        The function assumes that every sequence is halfway through its answer.
        """
        return self._target_seconds(rows * tokens, rows * self._context)

    def draft_seconds(self, rows: int) -> float:
        """Return the time to draft one token for each of `rows` sequences."""
        return self._draft_seconds(rows, rows * self._context)

    @property
    def ridge(self) -> float:
        """Return the number of tokens above which arithmetic, not memory, limits a forward."""
        hardware = self._hardware
        reading = self.bytes_per_weight * self.parameters * GIGA / hardware.bytes_per_second
        return reading * hardware.flops_per_second / (2 * self._target.used)

    @property
    def cache_bytes(self) -> float:
        """Return the bytes of KV cache that a target forward reads, halfway through all answers."""
        return self.rows * self._context * self.cache * KILO

    @property
    def fitting_rows(self) -> int:
        """Return how many sequences fit in memory next to both models' weights; 0 if none fits."""
        weights = (self.parameters + self.draft_parameters) * self.bytes_per_weight * GIGA
        row = (self.prompt + self.answer) * (self.cache + self.draft_cache) * KILO
        room = self.memory * GIGA - weights
        return 0 if room < row else int(min(MOST_ROWS, room / row)) if row else MOST_ROWS

    def speedup(self, rows: int, length: int) -> float:
        """Return the speedup over plain decoding, without the time to the first token.

        `length` is the number of drafted tokens per round.
        """
        look = self.target_seconds(rows, 1)
        overhead = self.target_seconds(rows, length + 1) / look - 1
        return theory.speedup(self.a, length, self.draft_seconds(rows) / look, overhead)

    @property
    def paying_rows(self) -> tuple[int, int] | None:
        """Return the smallest and the largest batch size of the first range with a speedup above 1.

        The result is None if no batch size has a speedup above 1. With a mixture of experts, the
        range may begin at several sequences, because their forwards read most experts anyway.
        """
        first = next((n for n in range(1, MOST_ROWS + 1) if self.speedup(n, self.K) > 1), None)
        if first is None:
            return None
        gaining = takewhile(lambda n: self.speedup(n, self.K) > 1, range(first, MOST_ROWS + 1))
        return first, max(gaining)

    def prefill_seconds(self, is_drafted: bool) -> float:
        """Return the time until a sequence's first token.

        If `is_drafted`, it includes the time in which the draft model reads the prompt.
        """
        own = self._target_seconds(self.prompt, 0)
        return own + self._draft_seconds(self.prompt, 0) if is_drafted else own

    def request_seconds(self, length: int) -> float:
        """Return the time of one request; `length` is the number of drafted tokens per round.

        A length of 0 is plain decoding.
        """
        survival = [self.a**depth for depth in range(1, length + 1)]
        draft = self.draft_seconds(1)
        costs = [self.target_seconds(1, k + 1) + k * draft for k in range(length + 1)]
        written = theory.expected_seconds(self.answer - 1, survival, costs)
        return self.prefill_seconds(length > 0) + written

    @property
    def _hardware(self) -> Hardware:
        return Hardware(self.bandwidth * GIGA, self.arithmetic * TERA)

    @property
    def _target(self) -> Weights:
        return Weights(0.0, self.parameters * GIGA, self.experts, self.active)

    @property
    def _context(self) -> float:
        return self.prompt + self.answer / 2

    def _target_seconds(self, tokens: int, context: float) -> float:
        read = context * self.cache * KILO
        return self._hardware.roofline(self._target, self.bytes_per_weight, tokens, read)

    def _draft_seconds(self, tokens: int, context: float) -> float:
        draft, read = Weights(self.draft_parameters * GIGA), context * self.draft_cache * KILO
        return self._hardware.roofline(draft, self.bytes_per_weight, tokens, read)


def deployment_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return a figure of the speedup over the batch size, and the numbers of a deployment.

    The question has a value for every field of `Deployment`.
    """
    plan = _deployment(question)
    speedup, look = plan.speedup(plan.rows, plan.K), plan.target_seconds(plan.rows, 1)
    drawn = [(rows, plan.speedup(rows, plan.K)) for rows in DRAWN_ROWS]
    gains = [plan.speedup(plan.rows, each) for each in range(1, MAX_DRAFT_LENGTH + 1)]
    plain, fast = plan.request_seconds(0), plan.request_seconds(plan.K)
    weights = plan.bytes_per_weight * plan.parameters * GIGA
    return {
        "figure": batch_speedup_figure(drawn, (plan.rows, speedup), plan.fitting_rows),
        "speedup": speedup,
        "cost": plan.draft_seconds(plan.rows) / look,
        "overhead": plan.target_seconds(plan.rows, plan.K + 1) / look,
        "tokens": theory.expected_tokens(plan.a, plan.K),
        "ridge": plan.ridge,
        "cache_weight": plan.cache_bytes / weights,
        "paying_rows": plan.paying_rows,
        "fitting_rows": plan.fitting_rows,
        "best": 1 + gains.index(max(gains)),
        "best_speedup": max(gains),
        "token_seconds": look,
        "rate": plan.rows / look,
        "prefill_share": plan.prefill_seconds(False) / plain,
        "plain_seconds": plain,
        "request_seconds": fast,
        "request_speedup": plain / fast,
        "touched_one": theory.touched_experts(plan.experts, plan.active, 1),
        "touched": theory.touched_experts(plan.experts, plan.active, plan.K + 1),
    }


def _deployment(question: Mapping[str, Any]) -> Deployment:
    def number(name: str, low: float, high: float) -> float:
        return number_between(question.get(name), name, low, high)

    def whole(name: str, low: int, high: int) -> int:
        return whole_between(question.get(name), name, low, high)

    experts = whole("experts", 1, 512)
    active = whole("active", 1, 512)
    if active > experts:
        raise InputError(f"active must be at most experts = {experts}, got {short(active)}")
    return Deployment(
        parameters=number("parameters", 0.001, 10_000),
        draft_parameters=number("draft_parameters", 0.001, 10_000),
        bytes_per_weight=number("bytes_per_weight", 0.25, 8),
        cache=number("cache", 0, 100_000),
        draft_cache=number("draft_cache", 0, 100_000),
        memory=number("memory", 0.1, 1_000_000),
        bandwidth=number("bandwidth", 1, 1_000_000),
        arithmetic=number("arithmetic", 0.01, 1_000_000),
        a=number("a", 0, 1),
        K=whole("K", 1, MAX_DRAFT_LENGTH),
        rows=whole("rows", 1, MOST_ROWS),
        prompt=whole("prompt", 1, 100_000),
        answer=whole("answer", 1, 100_000),
        experts=experts,
        active=active,
    )
