"""The course: lessons as data, read from assets/lessons and checked.

The widgets of the lessons are code of the page (assets/player/learn). docs/lesson.md explains how
to write a lesson.
"""

from specviz.lessons.lesson import (
    FormulaSymbol,
    Lesson,
    LessonFormula,
    LessonGroup,
    LessonOption,
    LessonStep,
    StepKind,
    ValueFormat,
    WidgetKind,
    WidgetValue,
)
from specviz.lessons.lesson_files import LESSONS, read_lesson, read_lessons, read_widgets

__all__ = [
    "LESSONS",
    "FormulaSymbol",
    "Lesson",
    "LessonFormula",
    "LessonGroup",
    "LessonOption",
    "LessonStep",
    "StepKind",
    "ValueFormat",
    "WidgetKind",
    "WidgetValue",
    "read_lesson",
    "read_lessons",
    "read_widgets",
]
