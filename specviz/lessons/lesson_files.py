"""Read lessons from their folders, and check the rules between their parts.

A lesson that breaks a rule is refused with one line: its file, the rule and the value.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specviz.errors import InputError, one_of, short
from specviz.folders import ASSETS, NOTEBOOKS
from specviz.lessons.lesson import Lesson, LessonLink, LessonStep, StepKind, WidgetKind
from specviz.lessons.lesson_texts import check_formula, check_text, word_count
from specviz.trace_file import decode

LESSONS = ASSETS / "lessons"
_FILE = "lesson.toml"
_WIDGETS = "widgets.toml"
# largest number of words that a student must read before a step gives the student something to do
MAX_WORDS = 90


def read_lessons(folder: Path = LESSONS) -> tuple[Lesson, ...]:
    """Return all lessons of a folder, in the order of the course."""
    widgets = read_widgets(folder)
    paths = sorted(folder.glob(f"*/{_FILE}"))
    lessons = sorted((read_lesson(path, widgets) for path in paths), key=lambda each: each.number)
    for one, other in zip(lessons, lessons[1:], strict=False):
        if one.number == other.number:
            rule = f"number must be unique, got {other.number}, which {one.name} has as well"
            raise InputError(f"{other.name}/{_FILE}: {rule}")
    return tuple(lessons)


def read_lesson(path: Path, widgets: Mapping[str, WidgetKind]) -> Lesson:
    """Return the lesson of a file; the name of the lesson is the name of its folder."""
    try:
        table = _parsed(path)
        steps = table.get("steps")
        if isinstance(steps, list):
            table["steps"] = [_with_scene(step) for step in steps]
        lesson = decode(Lesson, {"name": path.parent.name} | table, "lesson")
        _check(lesson, widgets)
    except InputError as error:
        raise InputError(f"{path.parent.name}/{path.name}: {error}") from None
    return lesson


def read_widgets(folder: Path = LESSONS) -> dict[str, WidgetKind]:
    """Return, by the name of each widget, what the widget offers to lessons."""
    path = folder / _WIDGETS
    try:
        kinds = [_widget(name, fields) for name, fields in _parsed(path).items()]
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    return {kind.name: kind for kind in kinds}


def _widget(name: str, fields: object) -> WidgetKind:
    if isinstance(fields, dict) and isinstance(fields.get("values"), dict):
        values = [{"name": each, "format": form} for each, form in fields["values"].items()]
        fields = fields | {"name": name, "values": values}
    return decode(WidgetKind, fields, name)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the file must be TOML: {error}") from None


def _with_scene(step: object) -> object:
    """Return a step in which the scene is a list of pairs of texts; the file has it as a table."""
    if not isinstance(step, dict) or not isinstance(step.get("scene"), dict):
        return step
    return step | {"scene": [[key, _as_text(value)] for key, value in step["scene"].items()]}


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(lesson: Lesson, widgets: Mapping[str, WidgetKind]) -> None:
    _check_among("lesson.widget", lesson.widget, tuple(widgets))
    if lesson.notebook:
        notebooks = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
        _check_among("lesson.notebook", lesson.notebook, notebooks)
    _check_names("steps", [step.name for step in lesson.steps])
    if not lesson.steps or not lesson.steps[0].kind.asks:
        raise InputError("lesson.steps[0] must ask a question: students answer before they read")
    if not lesson.steps[-1].kind.is_checked:
        kinds = " or a ".join(each.value for each in StepKind if each.is_checked)
        raise InputError(f"the last of lesson.steps must be a {kinds}")
    for name in ("title", "question", "learned"):
        check_text(getattr(lesson, name), f"lesson.{name}", ())
    # name of a prediction -> the widget of the step that asks for it
    predicted: dict[str, str] = {}
    for index, step in enumerate(lesson.steps):
        path, name = f"lesson.steps[{index}]", lesson.widget_of(step)
        _check_among(f"{path}.widget", name, tuple(widgets))
        known = [each for each, its_widget in predicted.items() if its_widget == name]
        _check_step(step, path, widgets[name], known)
        if step.kind is StepKind.PREDICT:
            predicted[step.name] = name
    _check_stretches(lesson.steps)


def _check_step(step: LessonStep, path: str, widget: WidgetKind, predicted: Sequence[str]) -> None:
    """Check one step of a lesson. `predicted` names earlier predictions with the same widget."""
    values = [value.name for value in widget.values]
    for key, _ in step.scene:
        _check_among(f"{path}.scene", key, widget.scene)
    if step.compare:
        if not predicted:
            rule = "be empty: no earlier step predicts with this widget"
            raise InputError(f"{path}.compare must {rule}, got {short(step.compare)}")
        _check_among(f"{path}.compare", step.compare, predicted)
    if step.value:
        _check_among(f"{path}.value", step.value, values)
    if bool(step.goal) != (step.kind is StepKind.TRY) or bool(step.task) != bool(step.goal):
        raise InputError(
            f"{path} must have 'task' and 'goal' if its kind is 'try', otherwise neither"
        )
    if step.goal:
        _check_among(f"{path}.goal", step.goal, widget.goals)
    _check_options(step, path, values)
    if bool(step.otherwise) != (step.kind is StepKind.NUMBER):
        raise InputError(f"{path} must have 'otherwise' if its kind is 'number', and only then")
    for name in ("part", "title", "text", "task", "after", "otherwise"):
        check_text(getattr(step, name), f"{path}.{name}", values)
    if step.link:
        _check_link(step.link, f"{path}.link")
    if step.formula:
        check_formula(step.formula, f"{path}.formula", values)


def _check_options(step: LessonStep, path: str, values: Sequence[str]) -> None:
    _check_names(f"{path}.options", [option.name for option in step.options])
    if step.kind.asks != (len(step.options) > 1):
        raise InputError(
            f"{path} must have at least two options if its kind asks a question, otherwise none"
        )
    marked = [option for option in step.options if option.right]
    if step.kind is StepKind.NUMBER and step.value:
        raise InputError(
            f"{path}.value must be empty if the kind is 'number', got {short(step.value)}"
        )
    bounded = [each for each in step.options if each.low is not None or each.high is not None]
    if step.kind.asks and len(marked) != (0 if step.value else 1):
        rule = "exactly one right answer, or none if the step has a value"
        raise InputError(f"{path}.options must have {rule}, got {len(marked)} right ones")
    if len(bounded) != (len(step.options) if step.value else 0):
        raise InputError(
            f"{path}.options must all have bounds if the step has a value, otherwise none"
        )
    for index, option in enumerate(step.options):
        if step.kind is StepKind.NUMBER:
            _check_among(f"{path}.options[{index}].value", option.value, values)
        elif option.value:
            rule = "be empty unless the step's kind is number"
            raise InputError(
                f"{path}.options[{index}].value must {rule}, got {short(option.value)}"
            )
        check_text(option.text, f"{path}.options[{index}].text", values)
        check_text(option.reply, f"{path}.options[{index}].reply", values)
        if not option.reply:
            raise InputError(f"{path}.options[{index}].reply must not be empty")


def _check_link(link: LessonLink, path: str) -> None:
    check_text(link.text, f"{path}.text", ())
    if not re.fullmatch(r"view=\w+(&[\w.-]+=[\w.,:-]*)*", link.address):
        _refuse(f"{path}.address", "the query of a page, such as view=lab", link.address)


def _check_stretches(steps: Sequence[LessonStep]) -> None:
    """Check that students never read more than MAX_WORDS words before they have something to do."""
    words = 0
    for index, step in enumerate(steps):
        words += word_count(step.text) + word_count(step.task)
        if words > MAX_WORDS:
            rule = f"leave at most {MAX_WORDS} words to read before there is something to do"
            raise InputError(f"lesson.steps[{index}].text must {rule}, got {words}")
        words = word_count(step.after) if step.kind is not StepKind.READ else words
        words += max((word_count(option.reply) for option in step.options), default=0)


def _check_names(path: str, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{path} must have unique names, got {short(name)} twice")


def _check_among(path: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        _refuse(path, one_of(known) if known else "left out", name)


def _refuse(path: str, rule: str, value: object) -> None:
    raise InputError(f"{path} must be {rule}, got {short(value)}")
