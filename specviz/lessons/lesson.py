"""What a lesson is: one question, and steps in which it is predicted, tried, explained and checked.

Texts are templates: `{p}` is a value of the lesson's widget, computed when it is shown. Beside that
they know *emphasis*, `code` and [words](term), a word of the glossary.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from specviz.records.field_types import MAX_NUMBER, FloatRange, IntRange, Most, Name

Text = Annotated[str, Most(1200)]
Bound = Annotated[float, FloatRange(low=-MAX_NUMBER)]


class StepKind(Enum):
    """What a step asks for.

    PREDICT: an answer that is kept, and compared in a later step. CASE: an answer, then what
    happens, at once. TRY: something to do with the widget until its goal is reached. READ: nothing.
    CHECK: the right answer; every wrong one has its own reply. NUMBER: the right number, typed.
    """

    PREDICT = "predict"
    CASE = "case"
    TRY = "try"
    READ = "read"
    CHECK = "check"
    NUMBER = "number"

    @property
    def asks(self) -> bool:
        return self in (StepKind.PREDICT, StepKind.CASE, StepKind.CHECK, StepKind.NUMBER)

    @property
    def is_checked(self) -> bool:
        """Whether it is over when the right answer was given, and not before."""
        return self in (StepKind.CHECK, StepKind.NUMBER)


class ValueFormat(Enum):
    """How a value of a widget is written."""

    PROBABILITY = "probability"  # 0.352
    PERCENT = "percent"  # 35 %
    COUNT = "count"  # 1,000
    TIMES = "times"  # 1.4×
    DECIMAL = "decimal"  # 1.42
    MILLISECONDS = "milliseconds"  # 12.3 ms, of a value in seconds
    TOKEN = "token"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class WidgetValue:
    """A value that texts may name, and how it is written."""

    name: Name
    format: ValueFormat


@dataclass(frozen=True, slots=True)
class WidgetKind:
    """What lessons may ask of a widget: keys of a scene, values, and goals that can be reached."""

    name: Name
    scene: tuple[Name, ...]
    values: tuple[WidgetValue, ...]
    goals: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class FormulaSymbol:
    """A symbol of a formula: what it means, and the widget's value that stands for it here."""

    name: Name
    meaning: Text
    value: Name


@dataclass(frozen=True, slots=True)
class LessonFormula:
    """MathML (the content of <math>), whose symbols carry `data-symbol`, and what it comes to.

    Shown twice: as it is, and with the symbols' values in it, which make `result`; an equation
    needs none.
    """

    mathml: Text
    symbols: Annotated[tuple[FormulaSymbol, ...], Most(12)]
    result: Name | None = None


@dataclass(frozen=True, slots=True)
class LessonOption:
    """An answer and its reply.

    Right is the one that says so; or the one whose bounds, low <= value < high, hold the value that
    the widget has found (`value` of the step). Of a NUMBER: a number that one may come to, the
    widget's `value`, and what it is in words (`text`).
    """

    name: Name
    text: Text
    reply: Text
    right: bool = False
    low: Bound | None = None
    high: Bound | None = None
    value: str = ""


@dataclass(frozen=True, slots=True)
class LessonLink:
    """Where else something can be done: the query of an address, as in view=lab."""

    text: Text
    address: Annotated[str, Most(400)]


@dataclass(frozen=True, slots=True)
class LessonStep:
    """One screen: a text beside the widget in a `scene`, and what it asks for.

    `task` says what to do until `goal` is reached; `after` is shown when the goal is reached or the
    answer is given. `compare` names an earlier prediction, which is looked at again here. `widget`
    is one of the step's own, "" for that of the lesson. `otherwise` is the reply to a number that
    none of the options is. `part` is the title of the part of the lesson that begins here.
    """

    name: Name
    kind: StepKind
    title: Text
    text: Text = ""
    scene: tuple[tuple[Name, str], ...] = ()
    options: tuple[LessonOption, ...] = ()
    value: str = ""
    task: Text = ""
    goal: str = ""
    after: Text = ""
    compare: str = ""
    formula: LessonFormula | None = None
    widget: str = ""
    otherwise: Text = ""
    link: LessonLink | None = None
    part: Text = ""


class LessonGroup(Enum):
    """Where a lesson stands in the list.

    CORE: the course. OPTIONAL: nothing that follows needs it. EXERCISE: measured and reckoned by
    the learner. MISCONCEPTION: what is often believed.
    """

    CORE = "core"
    OPTIONAL = "optional"
    EXERCISE = "exercise"
    MISCONCEPTION = "misconception"


@dataclass(frozen=True, slots=True)
class Lesson:
    """One question of the course; `name` is its folder, `number` its place.

    `notebook` is a file of docs/exercises: the same exercise, to be run outside of the page.
    """

    name: Name
    number: Annotated[int, IntRange(1, 99)]
    title: Text
    minutes: Annotated[int, IntRange(1, 60)]
    question: Text
    learned: Text
    widget: Name
    steps: tuple[LessonStep, ...]
    group: LessonGroup = LessonGroup.CORE
    notebook: str = ""

    def widget_of(self, step: LessonStep) -> str:
        return step.widget or self.widget
