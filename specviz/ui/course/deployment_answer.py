"""A lesson's calculator: what theory says of speculation on a deployment that somebody plans.

Target and draft are taken for rooflines: each forward reads the weights, or computes, whichever
takes longer. What is left out only adds time: attention, the cache, the host. The page Serve says
more of a deployment, from the same forwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz import theory
from specviz.errors import InputError, short
from specviz.figures.batch_speedup import batch_speedup_figure
from specviz.forward_curve import ForwardCurve
from specviz.records import MAX_DRAFT_LENGTH
from specviz.sizing.forward_time import GIGA, TERA, Hardware
from specviz.sizing.shape import Weights
from specviz.ui.course.numbers import number_between, whole_between

MOST_ROWS = 512
DRAWN_ROWS = tuple(sorted({round(2 ** (step / 4)) for step in range(37)}))  # 1 to MOST_ROWS
COUNTS = tuple(sorted({*range(1, 65), *(round(2 ** (step / 8)) for step in range(48, 133))}))


@dataclass(frozen=True, slots=True)
class Deployment:
    """Parameters in billions, memory in GB/s, arithmetic in TFLOP/s, lengths in tokens.

    A target of several experts reads, per forward, those that its tokens take, and computes with
    `active` of them per token; `experts` is 1 for any other target.
    """

    parameters: float
    draft_parameters: float
    bytes_per_weight: float
    bandwidth: float
    arithmetic: float
    a: float
    K: int
    rows: int
    prompt: int
    answer: int
    experts: int
    active: int

    def target_seconds(self, count: int) -> float:
        """Of a forward over `count` tokens of all rows together."""
        return self._hardware.roofline(self._target, self.bytes_per_weight, count)

    def draft_seconds(self, count: int) -> float:
        draft = Weights(self.draft_parameters * GIGA)
        return self._hardware.roofline(draft, self.bytes_per_weight, count)

    @property
    def ridge(self) -> float:
        """Tokens from which the target's arithmetic takes longer than reading all its weights."""
        hardware, target = self._hardware, self._target
        read = self.bytes_per_weight * self.parameters * GIGA / hardware.bytes_per_second
        return read * hardware.flops_per_second / (2 * target.used)

    @property
    def _hardware(self) -> Hardware:
        """At its peaks."""
        return Hardware(self.bandwidth * GIGA, self.arithmetic * TERA)

    @property
    def _target(self) -> Weights:
        return Weights(0.0, self.parameters * GIGA, self.experts, self.active)

    @property
    def curves(self) -> tuple[ForwardCurve, ForwardCurve]:
        """Of the target and of the draft."""
        times = (self.target_seconds, self.draft_seconds)
        target, draft = (ForwardCurve(COUNTS, tuple(map(each, COUNTS))) for each in times)
        return target, draft

    def request_seconds(self, length: int) -> float:
        """Of one row, prompt included, that drafts `length` tokens a round; 0: plain decoding."""
        drafted = self.draft_seconds(self.prompt) if length else 0.0
        survival = [self.a**depth for depth in range(1, length + 1)]
        draft = self.draft_seconds(1)
        costs = [self.target_seconds(k + 1) + k * draft for k in range(length + 1)]
        prefill = self.target_seconds(self.prompt) + drafted  # and with it the first token
        return prefill + theory.expected_seconds(self.answer - 1, survival, costs)


def deployment_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Deployment` by name -> a figure over the rows, and its numbers."""
    plan = _deployment(question)
    target, draft = plan.curves
    speedup = theory.batch_speedup(plan.a, plan.K, plan.rows, target, draft)
    drawn = [
        (rows, theory.batch_speedup(plan.a, plan.K, rows, target, draft)) for rows in DRAWN_ROWS
    ]
    lengths = range(1, MAX_DRAFT_LENGTH + 1)
    gains = [theory.batch_speedup(plan.a, each, plan.rows, target, draft) for each in lengths]
    plain, fast = plan.request_seconds(0), plan.request_seconds(plan.K)
    return {
        "figure": batch_speedup_figure(drawn, (plan.rows, speedup)),
        "speedup": speedup,
        "cost": plan.draft_seconds(plan.rows) / plan.target_seconds(plan.rows),
        "overhead": plan.target_seconds(plan.rows * (plan.K + 1)) / plan.target_seconds(plan.rows),
        "tokens": theory.expected_tokens(plan.a, plan.K),
        "ridge": plan.ridge,
        "paying_rows": theory.largest_paying_batch(plan.a, plan.K, target, draft),
        "best": 1 + gains.index(max(gains)),
        "best_speedup": max(gains),
        "token_seconds": plan.target_seconds(plan.rows),
        "rate": plan.rows / plan.target_seconds(plan.rows),
        "prefill_share": plan.target_seconds(plan.prompt) / plain,
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
