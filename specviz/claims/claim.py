"""A claim of a popular text about speculative decoding, and what can be said of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import groupby
from typing import Any

from specviz.claims.own_numbers import OwnNumber, with_own
from specviz.claims.sentences import Templates, Values, as_values, value_at

Result = Mapping[str, Any]  # what one measured setting gave, JSON-able


class ClaimKind(Enum):
    """What decides a claim."""

    ARITHMETIC = "arithmetic"  # theory, from the claim's own numbers
    MEASURABLE = "measurable"  # a measurement; undecided until it is made
    DEFINITION = "definition"  # what a paper, a program's source or a model card says

    @property
    def decided_by(self) -> str:
        return {"arithmetic": "theory", "measurable": "measurement", "definition": "source"}[
            self.value
        ]


class ClaimVerdict(Enum):
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


# ---- what would measure a claim here: settings of the experiments, all of the bundled pair

DRAFT_MODEL = "draft-model"


@dataclass(frozen=True, slots=True)
class Grid:
    """A sweep: speculative against plain decoding over one axis, `values` as they are typed."""

    axis: str
    values: str
    method: str = DRAFT_MODEL
    draft_length: int = 5
    task: str = "code"


@dataclass(frozen=True, slots=True)
class Batches:
    """The same by batch size."""

    sizes: tuple[int, ...] = (1, 4, 16)
    draft_length: int = 5


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds to the first token and of a plain step, by method and tokens of the prompt."""

    methods: tuple[str, ...] = (DRAFT_MODEL,)
    prompt_tokens: tuple[int | None, ...] = (None,)


@dataclass(frozen=True, slots=True)
class Exactness:
    """The output's distribution compared with the target's."""

    method: str = DRAFT_MODEL
    temperature: float = 1.0
    draft_length: int = 3


@dataclass(frozen=True, slots=True)
class Distributions:
    """Exact p and q of both models after held-out prompts, by temperature."""

    temperatures: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Noise:
    """The baseline compared with itself."""


@dataclass(frozen=True, slots=True)
class LibraryLength:
    """Target forwards of the library's assisted decoding, by how the draft length is asked for."""

    lengths: tuple[int, int] = (1, 5)


Setting = Grid | Batches | Clocks | Exactness | Distributions | Noise | LibraryLength


# ---- what is found


@dataclass(frozen=True, slots=True)
class Spread:
    """A measured value; `ends` are the smallest and the largest repeat or context."""

    value: float
    ends: tuple[float, float]

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


@dataclass(frozen=True, slots=True)
class Number:
    """A value that theory gives, and what the claim says of the same thing, if it does."""

    name: str
    value: float
    unit: str = ""
    claimed: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Theory's answer; no verdict where only a measurement can give one."""

    sentence: str
    numbers: tuple[Number, ...]
    verdict: ClaimVerdict | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value; `spread` from the smallest to the largest repeat or context."""

    name: str
    value: float
    unit: str = ""
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class MeasuredFinding:
    """What a measurement says of a claim, on the pair and the machine it was made with."""

    verdict: ClaimVerdict
    sentence: str
    figures: tuple[Figure, ...]


# ---- the claim


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a claim's table: the template of its name, and the path of its value.

    With `each` there is one row per item of that list; neighbours with the same `each` take turns.
    `claimed` is the path of what the claim says of the value, or that number itself.
    """

    name: str
    value: str
    unit: str = ""
    claimed: str | float | None = None
    each: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """How a rule's values are put: a sentence and a table; theory's also in a line, the answer."""

    sentence: str
    rows: tuple[TableRow, ...]
    wording: Templates
    answer: str = ""

    def text(self, values: Values) -> str:
        return self.wording.write(self.sentence, values)

    def line(self, values: Values) -> str:
        return self.wording.write(self.answer, values)

    def table(self, values: Values) -> Iterator[tuple[TableRow, str, Values]]:
        """Each row with its name in words and the values that its paths are looked up in."""
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
    """A claim with its own numbers, the rules that judge it and the words for what they find.

    `theory_rule` takes the numbers by name; `measured_rule` takes one result per setting and the
    numbers. Without settings `reason` says why nothing is measured. `own_numbers` are the fields
    for numbers of one's own, `example` what then stands in the place of the claim's; `lesson` is
    the course's lesson (its folder) that explains the matter.
    """

    number: int
    title: str
    said: str
    sources: tuple[tuple[str, str], ...]  # letter and title of each text
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
        """By the claim's own numbers, or with others in their place."""
        verdict, values = self._judged(others)
        numbers = (
            Number(name, value_at(row.value, inner), row.unit, _claimed(row, inner))
            for row, name, inner in self.theory_account.table(values)
        )
        return Finding(self.theory_account.text(values), tuple(numbers), verdict)

    @property
    def answer(self) -> str:
        """Theory's, in a line."""
        return self.theory_account.line(self._judged({})[1])

    def _judged(self, others: Values) -> tuple[ClaimVerdict | None, dict[str, Any]]:
        """The verdict, and all values that a sentence may name."""
        arguments = self._arguments(others)
        verdict, found = self.theory_rule(**arguments)
        return verdict, {**self.numbers, **arguments, **found}

    def _arguments(self, others: Values) -> dict[str, Any]:
        """What the rule is given: others, the claim's numbers, or the rule's defaults."""
        taken = inspect.signature(self.theory_rule)
        own = {name: value for name, value in self.numbers.items() if name in taken.parameters}
        given = taken.bind(**{**own, **others})
        given.apply_defaults()
        return dict(given.arguments)

    def tried(self, typed: Mapping[str, Any]) -> Finding:
        """By numbers of one's own: texts by the names of `own_numbers`. InputError for bad ones."""
        numbers = self._arguments(self.example)
        return self.theory(**with_own(numbers, self.own_numbers, typed))

    def _own_report(self) -> list[dict[str, str]]:
        numbers = self._arguments(self.example)
        return [
            {"name": field.name, "title": field.title, "text": field.text(numbers)}
            for field in self.own_numbers
        ]

    def judge(self, results: Sequence[Result]) -> MeasuredFinding:
        """What the results, one per setting, say of the claim."""
        assert self.measured_rule is not None and self.measured_account is not None
        verdict, found = self.measured_rule(results, self.numbers)
        values = {**self.numbers, **found}
        figures = (
            _figure(name, row, value_at(row.value, inner))
            for row, name, inner in self.measured_account.table(values)
        )
        return MeasuredFinding(verdict, self.measured_account.text(values), tuple(figures))

    def verdict(self, measured: MeasuredFinding | None = None) -> ClaimVerdict:
        """Theory or source where they decide, else the measurement."""
        found = self.theory().verdict
        if found is not None:
            return found
        return measured.verdict if measured else ClaimVerdict.UNDECIDED

    def report(self, measured: MeasuredFinding | None = None) -> dict[str, Any]:
        """The claim, what theory says and what was measured (None: nothing), JSON-able."""
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
    """Theory's sentence, table and verdict (None: a measurement decides), JSON-able."""
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
