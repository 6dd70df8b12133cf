"""Sentences as templates: the words are data, the numbers in them are computed.

A template is a format string over named values. Two things are more than a value: a list, written
item by item with a template of its own, and a choice, one of several templates by a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListTemplate:
    """How the list `of` (a value's name) is written; an item that is no mapping is called `item`.

    `of` may be a path such as `points[late]`; `empty` stands for a list without items.
    """

    of: str
    item: str
    separator: str = ", "
    empty: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceTemplate:
    """The template to take for each value of `by`; true and false are spelt so."""

    by: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Templates:
    """Lists and choices by the name that templates use for them."""

    lists: Mapping[str, ListTemplate] = field(default_factory=dict)
    choices: Mapping[str, ChoiceTemplate] = field(default_factory=dict)

    def write(self, template: str, values: Values) -> str:
        """The template with its values; `%` formats put a space before the sign, as the app does.

        >>> some = Templates({"all": ListTemplate("rates", "{item:.0%}", " and ")})
        >>> some.write("{all} of {count} tokens", {"rates": (0.5, 0.87), "count": 3})
        '50 % and 87 % of 3 tokens'
        """
        return _Writer(self).vformat(template, (), values)


class _Writer(Formatter):
    def __init__(self, wording: Templates) -> None:
        self._wording = wording

    def get_value(self, key: int | str, args: Any, kwargs: Values) -> Any:
        assert isinstance(key, str)
        if key in self._wording.lists:
            return self._listed(self._wording.lists[key], kwargs)
        if key in self._wording.choices:
            choice = self._wording.choices[key]
            chosen = choice.texts[str(value_at(choice.by, kwargs)).lower()]
            return self._wording.write(chosen, kwargs)
        return kwargs[key]

    def _listed(self, template: ListTemplate, values: Values) -> str:
        items = [
            self._wording.write(template.item, {**values, **as_values(item)})
            for item in value_at(template.of, values)
        ]
        return template.separator.join(items) or template.empty

    def format_field(self, value: Any, format_spec: str) -> str:
        text = format(value, format_spec)
        return f"{text[:-1]} %" if format_spec.endswith("%") else text


def value_at(path: str, values: Values) -> Any:
    """The value of a name, or of a path such as `five[speedup]`.

    >>> value_at("five[speedup]", {"five": {"speedup": 2.0}})
    2.0
    """
    return Formatter().get_field(path, (), values)[0]


def as_values(item: Any) -> Values:
    """An item of a list, as the values its template may name."""
    return item if isinstance(item, Mapping) else {"item": item}
