"""The table of drafting methods. A new method needs one file in this folder and one entry here.

Installed packages can add methods as entry points.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specviz.decoding.drafters import (
    cross_vocabulary,
    draft_model,
    dynamic_tree,
    eagle,
    early_exit,
    hybrid,
    lookahead,
    medusa,
    pre_speculation,
    prompt_lookup,
    self_draft,
    suffix,
    token_recycling,
)
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.row_drafters import BatchDrafter, RowDrafters
from specviz.decoding.plugins import with_installed
from specviz.errors import InputError, short
from specviz.records import DecodingConfig

_METHODS = (
    draft_model.CHAIN,
    draft_model.TREE,
    dynamic_tree.METHOD,
    early_exit.METHOD,
    medusa.METHOD,
    eagle.METHOD,
    prompt_lookup.METHOD,
    suffix.METHOD,
    hybrid.METHOD,
    lookahead.METHOD,
    token_recycling.METHOD,
    self_draft.QUANTISED,
    self_draft.SKIPPING,
    cross_vocabulary.METHOD,
    pre_speculation.METHOD,
)
DRAFTERS: dict[str, Method] = with_installed(_METHODS, "specviz.drafters", Method)

OPTIONS = {option.name: option for method in DRAFTERS.values() for option in method.options}


def method_named(name: str) -> Method:
    """Return the method with this name.

    If there is none, raise InputError. The message lists all methods.
    """
    if name not in DRAFTERS:
        raise InputError(f"method must be one of {', '.join(DRAFTERS)}, got {short(name)}")
    return DRAFTERS[name]


def check_methods(names: Iterable[str]) -> None:
    """Raise InputError if one of the names is not a method. The message lists all methods."""
    unknown = next((name for name in names if name not in DRAFTERS), None)
    if unknown is not None:
        raise InputError(f"methods must be among {', '.join(DRAFTERS)}, got {short(unknown)}")


def make_drafter(setup: Setup) -> Drafter:
    """Create the drafter for `setup.config.method`.

    Raises InputError for settings that the method does not support.
    """
    method = method_named(setup.config.method)
    method.check(setup.config)
    return method.make(setup)


def settled(setup: Setup) -> DecodingConfig:
    """Return the settings after replacing defaults that depend on the models or the machine.

    For example, a number of 0 that means "chosen by the program" becomes the chosen number. The
    result therefore has the same meaning with other models and on other machines. Call this only
    after the drafter exists: creating it rejects settings that the method does not support.
    """
    settle = method_named(setup.config.method).settle
    return setup.config if settle is None else settle(setup)


def make_row_drafters(setups: Sequence[Setup]) -> BatchDrafter:
    """Create the drafter of a batch.

    The settings may differ only in their seeds. Raises InputError for settings that the method does
    not support.
    """
    method = method_named(setups[0].config.method)
    method.check(setups[0].config)
    together = None if method.make_rows is None else method.make_rows(setups)
    return together or RowDrafters([method.make(setup) for setup in setups])
