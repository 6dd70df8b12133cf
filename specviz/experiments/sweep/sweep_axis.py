"""The axes of a sweep: their names, how their values are written, and what they change.

This module only changes settings; it runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specviz.decoding.draft_lengths import POLICIES, policy_named
from specviz.decoding.drafters.method import Method, Option
from specviz.decoding.drafters.registry import DRAFTERS, OPTIONS, method_named
from specviz.errors import InputError, short
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.models.pair_catalog import pair_named
from specviz.prompts import TASKS, check_task
from specviz.records import BATCH, DECODING, RunSetting, ValueType

Value = int | float | str
Apply = Callable[[SweepSetting, Value], SweepSetting]
MAX_VALUES = 64  # largest number of values that an axis may have


def _any_method(method: Method) -> bool:
    return True


def _can_stop(method: Method) -> bool:
    """Return whether the method's default draft is a chain that can stop early."""
    return method.can_stop and method.drawings[0].is_drawn and not method.default_branching


def _obeys_policies(method: Method) -> bool:
    return len(method.length_policies) == len(POLICIES)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: `read` parses a written value, and `apply` puts a value into a setting.

    Errors about a value begin with the axis's name, or with the name in `setting`. `suits` says
    whether a method has the property that the axis varies.
    """

    name: str
    title: str
    usual: str  # the values with which the page fills the field
    read: Callable[[str], Value]
    apply: Apply
    setting: str = ""
    suits: Callable[[Method], bool] = _any_method

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the names of the methods that have the property that the axis varies."""
        return tuple(name for name, method in DRAFTERS.items() if self.suits(method))

    @property
    def refused_as(self) -> tuple[str, ...]:
        """Return the possible first words of an error about this axis.

        The page uses them to show the error next to the axis.
        """
        return tuple(dict.fromkeys(filter(None, (self.name, self.setting))))

    @property
    def is_whole(self) -> bool:
        """Return whether the values are whole numbers, which can be written as a range."""
        return self.read is _integer

    def values(self, text: str) -> tuple[Value, ...]:
        """Parse the values of this axis from a text such as `1-4` or `1,2,4`.

        The result has at most MAX_VALUES different values. Raises InputError, which names the axis.
        """
        words = [word.strip() for word in text.split(",") if word.strip()]
        found = [value for word in words for value in self._span(word)]
        if not found or len(set(found)) != len(found) or len(found) > MAX_VALUES:
            raise InputError(
                f"{self.name} must be 1 to {MAX_VALUES} different values, got {short(text)}"
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
                f"{self.name} must be a rising range of at most {MAX_VALUES} values, "
                f"got {short(word)}"
            )
        return range(ends[0], ends[1] + 1)

    def _value(self, word: str) -> Value:
        try:
            return self.read(word)
        except InputError:
            raise
        except ValueError:
            kind = "whole numbers" if self.is_whole else "numbers"
            raise InputError(
                f"{self.name} must be {kind} separated by commas, got {short(word)}"
            ) from None


def _integer(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 9):
        raise ValueError(word)
    return int(word)


def _task(word: str) -> str:
    # Each pair has its own tasks. This check accepts all tasks, and the pair refuses unknown ones
    # later.
    check_task(word, is_chat=True)
    return word


def _method(word: str) -> str:
    return method_named(word).name


def _policy(word: str) -> str:
    return policy_named(word).name


def _pair(word: str) -> str:
    return pair_named(word).name


def _tree(word: str) -> str:
    """Check a tree shape, written as the number of children per node at each depth.

    `2x1x1` is two chains of three tokens. Raises InputError for another text.
    """
    try:
        children = [_integer(each) for each in word.split("x")]
    except ValueError:
        rule = "the number of children at each depth, such as 2x1x1"
        raise InputError(f"tree must be {rule}, got {short(word)}") from None
    return "x".join(map(str, children))


def _axis_of(setting: RunSetting) -> Axis:
    """Return the axis that varies a numeric setting."""
    assert setting.axis is not None
    name, title, usual = setting.axis.name, setting.axis.title, setting.axis.usual
    read = _integer if setting.type is ValueType.INTEGER else float
    apply = _APPLY.get(setting.name) or _of_config(setting.name)
    suits = _can_stop if setting.name == "entropy_threshold" else _any_method
    return Axis(name, title, usual, read, apply, setting.name, suits)


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
    """Return the setting with another method, and with that method's default tree and rule."""
    given = setting.config
    config = method_named(str(value)).usual(given.draft_length, **given.beside_method)
    return replace(setting, config=config)


def _with_task(setting: SweepSetting, value: Value) -> SweepSetting:
    if setting.texts:
        raise InputError(
            "task must not be an axis together with your own prompts, because they have no task"
        )
    return replace(setting, task=str(value))


def _width(setting: SweepSetting, value: Value) -> SweepSetting:
    assert isinstance(value, int)
    return replace(setting, config=replace(setting.config, branching=(value,)))


def _with_tree(setting: SweepSetting, value: Value) -> SweepSetting:
    """Return the setting with a tree of exactly this shape, which also sets the draft length."""
    branching = tuple(map(int, str(value).split("x")))
    shape = replace(setting.config, draft_length=len(branching), branching=branching)
    return replace(setting, config=shape)


def _branches(method: Method) -> bool:
    return method.takes_branching


def _axis_of_option(option: Option) -> Axis:
    """Return the axis that varies an option.

    Its `apply` raises InputError if the setting's method does not have the option.
    """
    name = option.name.replace("_", "-")

    def suits(method: Method) -> bool:
        return option in method.options

    def apply(setting: SweepSetting, value: Value) -> SweepSetting:
        assert isinstance(value, int)
        method = method_named(setting.config.method)
        if not suits(method):
            known = ", ".join(each.name for each in method.options) or "none"
            raise InputError(
                f"{name} must be an option of the method, but the options of {method.name} are: "
                f"{known}"
            )
        if not option.holds(value):
            raise InputError(f"{option.name} must be {option.rule}, got {short(value)}")
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
# The axis of the output's length is taken out, because AXES lists it after the prompt's length.
_LENGTH = _NUMBERS.pop("max_new_tokens")
AXES = {
    axis.name: axis
    for axis in (
        *_NUMBERS.values(),
        Axis(
            "length-policy",
            "Length policy",
            ",".join(reversed(POLICIES)),
            _policy,
            _of_config("length_policy"),
            "length_policy",
            _obeys_policies,
        ),
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
    """Return the axis of this name. Raises InputError for an unknown name."""
    if name not in AXES:
        raise InputError(f"axis must be one of {', '.join(AXES)}, got {short(name)}")
    return AXES[name]
