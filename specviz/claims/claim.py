"""One claim that popular texts make about speculative decoding, and how it is judged."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import groupby
from typing import Any

from specviz.claims.own_numbers import OwnNumber, with_own
from specviz.claims.sentences import Templates, Values, as_values, value_at

Result = Mapping[str, Any]  # the JSON-ready result of one measured setting


class ClaimKind(Enum):
    """The kind of evidence on which the verdict about a claim is based."""

    ARITHMETIC = "arithmetic"  # theory decides, from the claim's own numbers
    MEASURABLE = "measurable"  # a measurement decides; until then the claim is undecided
    DEFINITION = "definition"  # the text of a paper, source code or a model card decides

    @property
    def decided_by(self) -> str:
        return {"arithmetic": "theory", "measurable": "measurement", "definition": "source"}[
            self.value
        ]


class ClaimVerdict(Enum):
    """The verdict on a claim.

    - HOLDS: the claim differs from theory or measurement by at most 10 %, or every part of it that
      was examined is true.
    - CONDITIONAL: the claim is true in a common setting that it does not name, or in some of its
      parts. A claimed speed that was measured on another machine also gets this verdict, and never
      WRONG, if our measurements differ from it.
    - WRONG: the claim is refuted as stated.
    - UNDECIDED: the claim is not measured yet, or some of its repeats support it and others refute
      it.
    """

    HOLDS = "holds"
    CONDITIONAL = "holds under conditions"
    WRONG = "wrong"
    UNDECIDED = "undecided"


# ---- settings of the experiments that measure a claim; all experiments use the bundled pair

DRAFT_MODEL = "draft-model"


@dataclass(frozen=True, slots=True)
class Grid:
    """An experiment: a sweep that compares speculative and plain decoding at each value of an axis.

    `values` is the text of the axis's values, as a user would type it.
    """

    axis: str
    values: str
    method: str = DRAFT_MODEL
    draft_length: int = 5
    task: str = "code"


@dataclass(frozen=True, slots=True)
class Batches:
    """An experiment that compares speculative and plain decoding at several batch sizes."""

    sizes: tuple[int, ...] = (1, 4, 16)
    draft_length: int = 5


@dataclass(frozen=True, slots=True)
class Clocks:
    """An experiment that measures the time to the first token and the time of a plain step.

    Each method is measured with each prompt length.
    """

    methods: tuple[str, ...] = (DRAFT_MODEL,)
    prompt_tokens: tuple[int | None, ...] = (None,)


@dataclass(frozen=True, slots=True)
class Exactness:
    """An experiment that compares the output's distribution with the target's."""

    method: str = DRAFT_MODEL
    temperature: float = 1.0
    draft_length: int = 3


@dataclass(frozen=True, slots=True)
class Distributions:
    """An experiment that computes p and q after held-out prompts, at each temperature."""

    temperatures: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Noise:
    """An experiment that compares the baseline with itself: how much do times vary by chance?"""


@dataclass(frozen=True, slots=True)
class LibraryLength:
    """An experiment that counts the target's forwards in assisted decoding by transformers.

    It requests each draft length once as an argument and once in the assistant's configuration.
    """

    lengths: tuple[int, int] = (1, 5)


Setting = Grid | Batches | Clocks | Exactness | Distributions | Noise | LibraryLength


# ---- what theory and measurements find


@dataclass(frozen=True, slots=True)
class Spread:
    """A measured value and the two ends of its range.

    The range is from the smallest to the largest of several measurements, or an interval that was
    computed from the measurements.
    """

    value: float
    ends: tuple[float, float]

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


@dataclass(frozen=True, slots=True)
class Number:
    """A value that theory computes, next to the value that the claim states for it, if any."""

    name: str
    value: float
    unit: str = ""
    claimed: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Theory's answer to a claim; it has no verdict if only a measurement can decide."""

    sentence: str
    numbers: tuple[Number, ...]
    verdict: ClaimVerdict | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value; `spread` holds the smallest and largest value over repeats or contexts."""

    name: str
    value: float
    unit: str = ""
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class MeasuredFinding:
    """The answer of a measurement to a claim; it holds for one pair on one machine."""

    verdict: ClaimVerdict
    sentence: str
    figures: tuple[Figure, ...]


# ---- the claim


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a claim's table: a template for the row's name, and the path of the row's value.

    A path leads to a value among the computed values of the claim, such as `five[speedup]`. `each`
    is the path of a list. If `each` is not empty, the table has one row per item of this list.
    Neighbouring rows with the same `each` alternate: all rows of the first item come before the
    rows of the second. `claimed` is the value that the claim states, or the path of that value.
    """

    name: str
    value: str
    unit: str = ""
    claimed: str | float | None = None
    each: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """The texts about a rule's result: a sentence, a table, and for theory a one-line answer."""

    sentence: str
    rows: tuple[TableRow, ...]
    wording: Templates
    answer: str = ""

    def text(self, values: Values) -> str:
        return self.wording.write(self.sentence, values)

    def line(self, values: Values) -> str:
        return self.wording.write(self.answer, values)

    def table(self, values: Values) -> Iterator[tuple[TableRow, str, Values]]:
        """Yield each row of the table: its name in words, and the values at its paths."""
        for each, rows in groupby(self.rows, key=lambda row: row.each):
            neighbours = tuple(rows)
            for item in value_at(each, values) if each else ({},):
                inner = {**values, **as_values(item)}
                for row in neighbours:
                    yield row, self.wording.write(row.name, inner), inner


TheoryRule = Callable[..., tuple[ClaimVerdict | None, dict[str, Any]]]
MeasuredRule = Callable[[Sequence[Result], Values], tuple[ClaimVerdict, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with its own numbers, the rules that judge it, and the texts for the judgement.

    `theory_rule` takes the numbers as named arguments. `measured_rule` takes one result per setting
    and the numbers. Without settings, `reason` says why nothing is measured. `own_numbers` are the
    fields for a user's own numbers, and `example` is their initial content. `lesson` is the folder
    of the lesson that explains the subject.
    """

    number: int
    title: str
    said: str
    sources: tuple[tuple[str, str], ...]  # letter and title of each text that makes the claim
    kind: ClaimKind
    numbers: Values
    theory_rule: TheoryRule
    theory_account: Account
    lesson: str
    own_numbers: tuple[OwnNumber, ...]
    example: Values
    settings: tuple[Setting, ...] = ()
    measured_rule: MeasuredRule | None = None
    measured_account: Account | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        assert bool(self.settings) == (self.measured_rule is not None) != bool(self.reason)

    def theory(self, **others: Any) -> Finding:
        """Judge the claim by its own numbers, or by other numbers if the caller gives some."""
        verdict, values = self._judged(others)
        numbers = (
            Number(name, value_at(row.value, inner), row.unit, _claimed(row, inner))
            for row, name, inner in self.theory_account.table(values)
        )
        return Finding(self.theory_account.text(values), tuple(numbers), verdict)

    @property
    def answer(self) -> str:
        """Return theory's answer in one line."""
        return self.theory_account.line(self._judged({})[1])

    def _judged(self, others: Values) -> tuple[ClaimVerdict | None, dict[str, Any]]:
        """Return the verdict, and all values that a sentence may name."""
        arguments = self._arguments(others)
        verdict, found = self.theory_rule(**arguments)
        return verdict, {**self.numbers, **arguments, **found}

    def _arguments(self, others: Values) -> dict[str, Any]:
        """Return the theory rule's arguments.

        `others` take precedence over the claim's numbers, which take precedence over the defaults
        of the rule.
        """
        taken = inspect.signature(self.theory_rule)
        own = {name: value for name, value in self.numbers.items() if name in taken.parameters}
        given = taken.bind(**{**own, **others})
        given.apply_defaults()
        return dict(given.arguments)

    def tried(self, typed: Mapping[str, Any]) -> Finding:
        """Judge the claim by a user's own numbers: `typed` maps the name of an OwnNumber to a text.

        Raises InputError for a number that breaks a rule.
        """
        numbers = self._arguments(self.example)
        return self.theory(**with_own(numbers, self.own_numbers, typed))

    def _own_report(self) -> list[dict[str, str]]:
        numbers = self._arguments(self.example)
        return [
            {"name": field.name, "title": field.title, "text": field.text(numbers)}
            for field in self.own_numbers
        ]

    def judge(self, results: Sequence[Result]) -> MeasuredFinding:
        """Judge the claim by measured results, one per setting."""
        assert self.measured_rule is not None and self.measured_account is not None
        verdict, found = self.measured_rule(results, self.numbers)
        values = {**self.numbers, **found}
        figures = (
            _figure(name, row, value_at(row.value, inner))
            for row, name, inner in self.measured_account.table(values)
        )
        return MeasuredFinding(verdict, self.measured_account.text(values), tuple(figures))

    def verdict(self, measured: MeasuredFinding | None = None) -> ClaimVerdict:
        """Return the verdict of theory or of the claim's source, if there is one.

        Otherwise, return the verdict of the measurement, or UNDECIDED without a measurement.
        """
        found = self.theory().verdict
        if found is not None:
            return found
        return measured.verdict if measured else ClaimVerdict.UNDECIDED

    def report(self, measured: MeasuredFinding | None = None) -> dict[str, Any]:
        """Return the claim, theory's answer and the measurement, JSON-ready.

        The measurement is None if there is none.
        """
        found = self.theory()
        return {
            "number": self.number,
            "title": self.title,
            "said": self.said,
            "sources": [{"letter": letter, "title": title} for letter, title in self.sources],
            "kind": self.kind.value,
            "decided_by": self.kind.decided_by,
            "verdict": self.verdict(measured).value,
            "answer": self.answer,
            "theory": finding_report(found),
            "lesson": self.lesson,
            "own_numbers": self._own_report(),
            "settings": [_setting_report(setting) for setting in self.settings],
            "not_measurable": self.reason or None,
            "measured": None if measured is None else _measured_report(measured),
        }


def finding_report(found: Finding) -> dict[str, Any]:
    """Return theory's sentence, table and verdict, JSON-ready.

    The verdict is None if only a measurement can decide.
    """
    return {
        "sentence": found.sentence,
        "numbers": [asdict(number) for number in found.numbers],
        "verdict": found.verdict and found.verdict.value,
    }


def _claimed(row: TableRow, values: Values) -> float | None:
    if isinstance(row.claimed, str):
        claimed: float | None = value_at(row.claimed, values)
        return claimed
    return row.claimed


def _figure(name: str, row: TableRow, value: float | Spread) -> Figure:
    if isinstance(value, Spread):
        return Figure(name, value.value, row.unit, value.ends)
    return Figure(name, value, row.unit)


def _setting_report(setting: Setting) -> dict[str, Any]:
    fields = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(setting).items()
    }
    return {"experiment": type(setting).__name__.lower(), **fields}


def _measured_report(measured: MeasuredFinding) -> dict[str, Any]:
    return {
        "verdict": measured.verdict.value,
        "sentence": measured.sentence,
        "figures": [
            {**asdict(figure), "spread": None if figure.spread is None else list(figure.spread)}
            for figure in measured.figures
        ],
    }
