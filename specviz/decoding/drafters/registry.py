"""The drafting methods by name. A new method is one file beside this one and one entry here."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.decoding.drafters import (
    cross_vocabulary,
    draft_model,
    dynamic_tree,
    eagle,
    early_exit,
    lookahead,
    medusa,
    pre_speculation,
    prompt_lookup,
    self_draft,
)
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.row_drafters import BatchDrafter, RowDrafters
from specviz.errors import InputError
from specviz.records import DecodingConfig

_METHODS = (
    draft_model.CHAIN,
    draft_model.TREE,
    dynamic_tree.METHOD,
    early_exit.METHOD,
    medusa.METHOD,
    eagle.METHOD,
    prompt_lookup.METHOD,
    lookahead.METHOD,
    self_draft.QUANTISED,
    self_draft.SKIPPING,
    cross_vocabulary.METHOD,
    pre_speculation.METHOD,
)
DRAFTERS: dict[str, Method] = {method.name: method for method in _METHODS}

OPTIONS = {option.name: option for method in _METHODS for option in method.options}


def method_named(name: str) -> Method:
    """The entry of that name, or an InputError that lists the names."""
    if name not in DRAFTERS:
        raise InputError(f"method must be one of {', '.join(DRAFTERS)}, got {name!r}")
    return DRAFTERS[name]


def make_drafter(setup: Setup) -> Drafter:
    """The drafter of `setup.config.method`; a setting that it does not take is refused."""
    method = method_named(setup.config.method)
    method.check(setup.config)
    return method.make(setup)


def settled(setup: Setup) -> DecodingConfig:
    """The setting as it is used: elsewhere it means the same, whatever is chosen there by default.

    For a drafter that was made: what a method lacks has been refused.
    """
    settle = method_named(setup.config.method).settle
    return setup.config if settle is None else settle(setup)


def make_row_drafters(setups: Sequence[Setup]) -> BatchDrafter:
    """The drafter of a batch; settings differ in their seeds only, and are refused as for one."""
    method = method_named(setups[0].config.method)
    method.check(setups[0].config)
    together = None if method.make_rows is None else method.make_rows(setups)
    return together or RowDrafters([method.make(setup) for setup in setups])
