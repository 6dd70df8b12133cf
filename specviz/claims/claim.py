"""A claim of a popular text about speculative decoding, and what can be said of it.

Holds values and a few functions; knows no formula and runs no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from specviz.claims.setting import Setting

Result = Mapping[str, Any]  # what one measured setting gave, JSON-able


class Kind(Enum):
    """What decides a claim."""

    ARITHMETIC = "arithmetic"  # theory, from the claim's own numbers
    MEASURABLE = "measurable"  # a measurement; undecided until it is made
    DEFINITION = "definition"  # what a paper, a program's source or a model card says

    @property
    def decided_by(self) -> str:
        return {"arithmetic": "theory", "measurable": "measurement", "definition": "source"}[
            self.value
        ]


class Verdict(Enum):
    """How a claim stands.

    HOLDS: agrees within 10 %, or in every part that was looked at. CONDITIONAL: true in a usual
    setting that the claim does not name, or in some of its parts; speeds of other machines that
    differ here are no more than this. WRONG: refuted as it stands. UNDECIDED: not measured yet, or
    the repeats lie on both sides of the line.
    """

    HOLDS = "holds"
    CONDITIONAL = "holds under conditions"
    WRONG = "wrong"
    UNDECIDED = "undecided"


class Text(Enum):
    """Where claims come from; value: what kind of text it is."""

    A = 'an article on "SSD", with benchmarks (2026)'
    B = "a chatbot company's glossary page"
    C = "a course notebook"
    D = "a blog post on halving latency"
    E = "a lecture page on vLLM"


@dataclass(frozen=True, slots=True)
class Number:
    """What theory gives, beside what the claim says of the same thing where it says something."""

    name: str
    value: float
    unit: str = ""
    claimed: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Theory's answer; no verdict where only a measurement can give one."""

    sentence: str
    numbers: tuple[Number, ...]
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value; `spread` from the smallest to the largest repeat or context."""

    name: str
    value: float
    unit: str = ""
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a measurement says of a claim, on the pair and the machine it was made with."""

    verdict: Verdict
    sentence: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """`theory` takes the claim's own numbers as defaults, so that others can be tried.

    `judge` takes one result per setting; without settings `reason` says why nothing is measured.
    """

    number: int
    title: str
    said: str
    texts: tuple[Text, ...]
    kind: Kind
    theory: Callable[..., Finding]
    settings: tuple[Setting, ...] = ()
    judge: Callable[[Sequence[Result]], Judgement] | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        assert bool(self.settings) == (self.judge is not None) != bool(self.reason)

    def verdict(self, measured: Judgement | None = None) -> Verdict:
        """Theory or source where they decide, else the measurement."""
        found = self.theory().verdict
        if found is not None:
            return found
        return measured.verdict if measured else Verdict.UNDECIDED
