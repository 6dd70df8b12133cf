"""Drafting methods and verification rules of other installed packages.

A package names them as entry points in the group `specviz.drafters` or `specviz.rules`. Each entry
point is an object with a `name`, such as a `Method` or a `Rule`. An entry that cannot be used is
left out with a warning, because one broken package must not stop the program.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeVar

from specviz.errors import short

NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


class Named(Protocol):
    """An object that users choose by its name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def with_installed(own: Iterable[T], group: str, kind: type[T]) -> dict[str, T]:
    """Return `own` and the objects that installed packages name in `group`, by their names.

    An entry point is left out with a warning if it cannot be loaded, if it is no object of `kind`,
    if its name is already used, or if its name has other characters than lower-case letters, digits
    and hyphens.
    """
    found = {each.name: each for each in own}
    for point in entry_points(group=group):
        try:
            loaded = _loaded(point, kind, found)
        except ValueError as error:
            warnings.warn(f"entry point {point.name} of {group} {error}", stacklevel=2)
        else:
            found[loaded.name] = loaded
    return found


def _loaded(point: EntryPoint, kind: type[T], taken: Collection[str]) -> T:
    """Return the object of an entry point. Raise ValueError with the reason if it is unusable."""
    try:
        loaded = point.load()
    except Exception as error:  # a foreign package may raise anything while it is imported
        raise ValueError(f"cannot be loaded: {type(error).__name__}: {error}") from None
    if not isinstance(loaded, kind):
        raise ValueError(f"must be a {kind.__name__}, got {type(loaded).__name__}")
    if not NAME.fullmatch(loaded.name):
        raise ValueError(
            "must have a name of lower-case letters, digits and hyphens, got " + short(loaded.name)
        )
    if loaded.name in taken:
        raise ValueError(f"must have a name that is not taken, got {short(loaded.name)}")
    return loaded
