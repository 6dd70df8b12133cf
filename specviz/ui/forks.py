"""Read the page's request for a fork: the round at which it branches off, and the changed settings.

Every field is checked. A field that breaks a rule raises InputError with one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError, short, whole_between
from specviz.experiments.run.fork_parent import pair_of
from specviz.experiments.run.forking import ForkRequest
from specviz.records import SETTINGS, DecodingConfig, Trace
from specviz.ui.counterfactuals import forced_draws
from specviz.ui.settings_form import form_pair

CHANGES = tuple(setting.name for setting in SETTINGS.values() if setting.in_fork)


def fork_request(question: Mapping[str, Any], parent: Trace) -> ForkRequest:
    """Return the request for a fork of `parent`.

    The question is {"round": index of the first round of the fork, "forced": {node: the draw that
    the user typed}, "changes": {setting: value}, "form": models and device}. `pair_of` chooses the
    pair: the form's pair or a pair of the catalog, with the target of the parent run and, if
    possible, with the same draft. If no pair has this target, it is the form's pair.
    """
    index = whole_between(question.get("round"), "round")
    form = question["form"] if question.get("form") else {}
    return ForkRequest(
        parent=parent,
        round_index=index,
        pair=pair_of(parent, form_pair(form)),
        config=_changed(parent.config_of(index), question.get("changes") or {}),
        forced=tuple(forced_draws(question.get("forced") or {}).items()),
        device=str(form.get("device", "auto")),
        dtype=str(form.get("dtype", "float32")),
    )


def _changed(config: DecodingConfig, changes: Mapping[str, Any]) -> DecodingConfig:
    """Return the run's setting with the requested changes.

    An empty change leaves its field unchanged. A new method brings its default tree.
    """
    if not isinstance(changes, Mapping):
        raise InputError(f"changes must be an object from setting to value, got {short(changes)}")
    unknown = sorted(set(changes) - set(CHANGES))
    if unknown:
        known = ", ".join(sorted(CHANGES))
        raise InputError(f"changes of a fork must be among {known}, got {short(unknown[0])}")
    given = {name: text for name, text in changes.items() if str(text).strip()}
    changed = {name: SETTINGS[name].read(text) for name, text in given.items()}
    method = method_named(changed.pop("method", config.method))
    if method.name != config.method:
        length = changed.pop("draft_length", config.draft_length)
        made = method.usual(length, **(config.beside_method | changed))
    else:
        branching = config.branching[: max(0, changed.get("draft_length", config.draft_length))]
        made = replace(config, branching=branching, **changed)
    method.check(made)
    return made
