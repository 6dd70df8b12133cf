"""The parts of a lesson: one question, with steps to predict, try, explain and check the answer.

Texts are templates: `{p}` is a value of the lesson's widget, which is computed when the page shows
it. Texts may also contain *emphasis*, `code` and [words](term), where term is a word of the
glossary.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from specviz.records.field_types import MAX_NUMBER, FloatRange, IntRange, Most, Name

Text = Annotated[str, Most(1200)]
Bound = Annotated[float, FloatRange(low=-MAX_NUMBER)]


class StepKind(Enum):
    """The kinds of steps.

    PREDICT asks for an answer that a later step compares with the result. CASE asks for an answer
    and then shows the result. TRY asks the student to work with the widget until its goal is
    reached. READ only shows a text. CHECK asks for the right answer; every wrong answer has its own
    reply. NUMBER asks for a typed number.
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
        """Return whether only the right answer completes the step."""
        return self in (StepKind.CHECK, StepKind.NUMBER)


class ValueFormat(Enum):
    """The format in which a text shows the value of a widget."""

    PROBABILITY = "probability"  # shown as a number such as 0.352
    PERCENT = "percent"  # shown as a percentage such as 35 %
    COUNT = "count"  # shown as a whole number such as 1,000
    TIMES = "times"  # shown as a factor such as 1.4×
    DECIMAL = "decimal"  # shown as a number such as 1.42
    # shown as a time such as 12.3 ms, but the value itself is in seconds
    MILLISECONDS = "milliseconds"
    TOKEN = "token"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class WidgetValue:
    """A value of a widget, which a lesson's texts can contain, and the format of the value."""

    name: Name
    format: ValueFormat


@dataclass(frozen=True, slots=True)
class WidgetKind:
    """A widget as lessons see it.

    `scene` has the names of the settings with which a step can start the widget. `values` are the
    values that texts can contain, and `goals` are the goals that a step can set.
    """

    name: Name
    scene: tuple[Name, ...]
    values: tuple[WidgetValue, ...]
    goals: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class FormulaSymbol:
    """A symbol of a formula: its meaning, and the name of the widget's value that it stands for."""

    name: Name
    meaning: Text
    value: Name


@dataclass(frozen=True, slots=True)
class LessonFormula:
    """A formula as MathML, the content of <math>. Each symbol has the attribute `data-symbol`.

    The page shows the formula twice: with symbols, and with the values of the symbols and the
    `result`. An equation has no result.
    """

    mathml: Text
    symbols: Annotated[tuple[FormulaSymbol, ...], Most(12)]
    result: Name | None = None


@dataclass(frozen=True, slots=True)
class LessonOption:
    """A possible answer to a question of a lesson, and the reply to this answer.

    An answer is right if `right` is True. It is also right if the number that the widget computes
    for the step's `value` is within the bounds of the option (low <= number < high). In a step of
    the kind NUMBER, the student types a number instead of choosing an option. An option is then one
    number that students may type: `value` is the name of this number among the widget's values, and
    `text` describes it.
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
    """A link to another page; `address` is the query part of its address, such as view=lab."""

    text: Text
    address: Annotated[str, Most(400)]


@dataclass(frozen=True, slots=True)
class LessonStep:
    """One screen of a lesson: a text, a widget with the settings in `scene`, a question or a task.

    `task` says what to do until `goal` is reached. `after` is shown once the goal is reached or the
    answer is given. `compare` names an earlier prediction, which this step compares with the
    result. `widget` is the widget of this step; "" means the widget of the lesson. `otherwise` is
    the reply to a number that matches no option. `part` is the title of the part of the lesson that
    begins here.
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
    """The groups in the list of lessons.

    CORE lessons are the course itself. An OPTIONAL lesson is not needed for any later lesson. In an
    EXERCISE the student measures and calculates. A MISCONCEPTION lesson corrects a common error.
    """

    CORE = "core"
    OPTIONAL = "optional"
    EXERCISE = "exercise"
    MISCONCEPTION = "misconception"


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson. `name` is the name of its folder, `number` its position in the course.

    `notebook` is a file of docs/exercises with the exercise of this lesson; it runs outside the
    page.
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
