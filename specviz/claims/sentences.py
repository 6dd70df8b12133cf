"""Sentences as templates: the words are data, and the numbers in them are computed.

A template is a format string over named values. A value may also be a list, whose items are written
with a template of their own. Or it may be a choice, which selects one of several templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListTemplate:
    """The template for each item of the list `of`, which is the name or path of a value.

    A path looks like `points[late]`. An item that is no mapping has the name `item` in the
    template. `empty` is the text for a list without items.
    """

    of: str
    item: str
    separator: str = ", "
    empty: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceTemplate:
    """A choice among templates: `texts` has one for each possible value of the name or path `by`.

    The keys of `texts` are these values as text; booleans are spelled true and false.
    """

    by: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Templates:
    """The lists and choices that a sentence can use; the keys are their names in templates."""

    lists: Mapping[str, ListTemplate] = field(default_factory=dict)
    choices: Mapping[str, ChoiceTemplate] = field(default_factory=dict)

    def write(self, template: str, values: Values) -> str:
        """Return the text of a template with its values; percentages have a space before `%`.

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
    """Return the value of a name, or of a path such as `five[speedup]`.

    >>> value_at("five[speedup]", {"five": {"speedup": 2.0}})
    2.0
    """
    return Formatter().get_field(path, (), values)[0]


def as_values(item: Any) -> Values:
    """Return an item of a list as a dict of the values that the list's template may name."""
    return item if isinstance(item, Mapping) else {"item": item}
