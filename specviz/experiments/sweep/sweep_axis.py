"""What a sweep can vary: one name per axis, how its values are written, and what they change.

Knows the setting of a race; runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specviz.decoding.drafters.method import Method, Option
from specviz.decoding.drafters.registry import DRAFTERS, OPTIONS, method_named
from specviz.errors import InputError, short
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.models.pair_catalog import pair_named
from specviz.prompts import TASKS, check_task
from specviz.records import BATCH, DECODING, RunSetting, ValueType

Value = int | float | str
Apply = Callable[[SweepSetting, Value], SweepSetting]
MAX_VALUES = 64  # of one axis


@dataclass(frozen=True, slots=True)
class Axis:
    """`read` turns one written value into what `apply` puts into a setting.

    A value that breaks a rule is refused under the axis's name or under `setting`. `suits` says
    whether a method has what is varied.
    """

    name: str
    title: str
    usual: str  # the values that a page offers
    read: Callable[[str], Value]
    apply: Apply
    setting: str = ""
    suits: Callable[[Method], bool] = lambda method: True

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of those that have it."""
        return tuple(name for name, method in DRAFTERS.items() if self.suits(method))

    @property
    def refused_as(self) -> tuple[str, ...]:
        """The names that an error may begin with, for a page that shows it beside the axis."""
        return tuple(dict.fromkeys(filter(None, (self.name, self.setting))))

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers, which may be written as a span."""
        return self.read is _integer

    def values(self, text: str) -> tuple[Value, ...]:
        """`1-4` or `1,2,4` -> (1, 2, 4); each value once, at most MAX_VALUES.

        Raises InputError that names the axis.
        """
        words = [word.strip() for word in text.split(",") if word.strip()]
        found = [value for word in words for value in self._span(word)]
        if not found or len(set(found)) != len(found) or len(found) > MAX_VALUES:
            raise InputError(
                f"{self.name} must be from 1 to {MAX_VALUES} values, each once, got {text!r}"
            )
        return tuple(found)

    def _span(self, word: str) -> Sequence[Value]:
        low, dash, high = word.partition("-")
        if not self.is_whole or not dash or not low:
            return (self._value(word),)
        ends = self._value(low), self._value(high)
        assert isinstance(ends[0], int) and isinstance(ends[1], int)
        if not ends[0] <= ends[1] < ends[0] + MAX_VALUES:
            raise InputError(
                f"{self.name} must span from 1 to {MAX_VALUES} values upwards, got {word!r}"
            )
        return range(ends[0], ends[1] + 1)

    def _value(self, word: str) -> Value:
        try:
            return self.read(word)
        except InputError:
            raise
        except ValueError:
            kind = "whole numbers" if self.is_whole else "numbers"
            raise InputError(f"{self.name} must be {kind} with commas, got {word!r}") from None


def _integer(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 9):
        raise ValueError(word)
    return int(word)


def _task(word: str) -> str:
    check_task(word, is_chat=True)  # the pair decides which of them it has
    return word


def _method(word: str) -> str:
    return method_named(word).name


def _pair(word: str) -> str:
    return pair_named(word).name


def _tree(word: str) -> str:
    """Children per node, depth by depth: `2x1x1` has two chains of three tokens."""
    try:
        children = [_integer(each) for each in word.split("x")]
    except ValueError:
        rule = "children by depth, such as 2x1x1"
        raise InputError(f"tree must be {rule}, got {short(word)}") from None
    return "x".join(map(str, children))


def _axis_of(setting: RunSetting) -> Axis:
    """Of a number: it replaces the one that was there."""
    assert setting.axis is not None
    name, title, usual = setting.axis.name, setting.axis.title, setting.axis.usual
    read = _integer if setting.type is ValueType.INTEGER else float
    apply = _APPLY.get(setting.name) or _of_config(setting.name)
    return Axis(name, title, usual, read, apply, setting.name)


def _of_config(field: str) -> Apply:
    def apply(setting: SweepSetting, value: Value) -> SweepSetting:
        changes: dict[str, Any] = {field: value}
        return replace(setting, config=replace(setting.config, **changes))

    return apply


def _draft_length(setting: SweepSetting, value: Value) -> SweepSetting:
    assert isinstance(value, int)
    branching = setting.config.branching[:value]
    return replace(setting, config=replace(setting.config, draft_length=value, branching=branching))


def _with_method(setting: SweepSetting, value: Value) -> SweepSetting:
    """With the shape and the rule that the method has by itself."""
    given = setting.config
    config = method_named(str(value)).usual(given.draft_length, **given.beside_method)
    return replace(setting, config=config)


def _with_task(setting: SweepSetting, value: Value) -> SweepSetting:
    if setting.texts:
        raise InputError("task must be of held-out prompts to be varied, got prompts of your own")
    return replace(setting, task=str(value))


def _width(setting: SweepSetting, value: Value) -> SweepSetting:
    assert isinstance(value, int)
    return replace(setting, config=replace(setting.config, branching=(value,)))


def _with_tree(setting: SweepSetting, value: Value) -> SweepSetting:
    """A tree of just this shape: it ends with the last depth that is named."""
    branching = tuple(map(int, str(value).split("x")))
    shape = replace(setting.config, draft_length=len(branching), branching=branching)
    return replace(setting, config=shape)


def _branches(method: Method) -> bool:
    return method.takes_branching


def _axis_of_option(option: Option) -> Axis:
    """A setting whose method lacks the option is refused."""
    name = option.name.replace("_", "-")

    def suits(method: Method) -> bool:
        return option in method.options

    def apply(setting: SweepSetting, value: Value) -> SweepSetting:
        assert isinstance(value, int)
        method = method_named(setting.config.method)
        if not suits(method):
            known = ", ".join(each.name for each in method.options) or "none"
            raise InputError(
                f"{name} must be an option of the method to be varied, those of "
                f"{method.name} are {known}"
            )
        if not option.holds(value):
            raise InputError(f"{option.name} must be {option.rule}, got {value}")
        return replace(setting, config=setting.config.with_option(option.name, value))

    return Axis(name, option.title, option.usual, _integer, apply, option.name, suits)


def _of_setting(field: str) -> Apply:
    def apply(setting: SweepSetting, value: Value) -> SweepSetting:
        changes: dict[str, Any] = {field: value}
        return replace(setting, **changes)

    return apply


def _shared(field: str) -> Apply:
    def apply(setting: SweepSetting, value: Value) -> SweepSetting:
        changes: dict[str, Any] = {field: value}
        return replace(setting, batch=replace(setting.batch, **changes))

    return apply


def _with_pair(setting: SweepSetting, value: Value) -> SweepSetting:
    return replace(setting, pair=pair_named(str(value)))


_APPLY = {
    "draft_length": _draft_length,
    "batch_size": _of_setting("batch_size"),
    "speculate_up_to": _shared("speculate_up_to"),
    "draft_budget": _shared("draft_budget"),
}
_NUMBERS = {setting.name: _axis_of(setting) for setting in DECODING if setting.axis}
_LENGTH = _NUMBERS.pop("max_new_tokens")  # listed beside the prompt's length
AXES = {
    axis.name: axis
    for axis in (
        *_NUMBERS.values(),
        Axis("method", "Method", ",".join(DRAFTERS), _method, _with_method, "rule"),
        Axis("pair", "Pair", "bundled", _pair, _with_pair),
        Axis("task", "Task", ",".join(TASKS), _task, _with_task),
        Axis(
            "prompt-length",
            "Tokens of the prompt's text",
            "16,64,256",
            _integer,
            _of_setting("prompt_tokens"),
        ),
        _LENGTH,
        Axis("width", "Children of the root", "1-4", _integer, _width, "branching", _branches),
        Axis(
            "tree",
            "Tree: children by depth",
            "1x1x1x1,2x1,4",
            _tree,
            _with_tree,
            "branching",
            _branches,
        ),
        *map(_axis_of, BATCH.values()),
        *map(_axis_of_option, OPTIONS.values()),
    )
}


def axis_named(name: str) -> Axis:
    """One of AXES; InputError for a name that is none."""
    if name not in AXES:
        raise InputError(f"axis must be one of {', '.join(AXES)}, got {name!r}")
    return AXES[name]
