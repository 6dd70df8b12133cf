"""In which order methods are probed: those that can be fastest come first, when time may run out.

A level of a draft is paid by reading the drafter's weights, so a method can win as far as these are
small beside the target's. A rough guess, made before anything is loaded; measuring comes next.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.decoding.drafters.registry import method_named
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.survey import survey_pair_of
from specviz.models.memory_estimate import ExtraMemory
from specviz.models.pair_catalog import Pair
from specviz.models.parts import Need

HEAD = 0.1  # of a step: a layer or less, and an output matrix
ROUNDED = 0.4  # all of the target's layers, in fewer bits
SELF = 0.5  # some of the target's own layers
UNKNOWN = 0.3  # a draft model whose weights cannot be counted


def likely_first(pair: Pair, methods: Sequence[str]) -> tuple[str, ...]:
    """The methods by what a level may take of a target's step; equal ones as they were.

    A draft model as large as its target, which cannot make it faster, comes last.
    """
    sizes = {
        Need.DRAFT: _share(pair.target, pair.draft),
        Need.FOREIGN_DRAFT: _share(pair.target, pair.foreign_draft or pair.draft),
        Need.LAYERS: SELF,
        Need.EAGLE: HEAD,
        Need.MEDUSA: HEAD,
    }

    def level(method: str) -> float:
        if method_named(method).extra_memory is ExtraMemory.ROUNDED_TARGET:
            return ROUNDED
        return max((sizes.get(need, 0.0) for need in method_named(method).needs), default=0.0)

    return tuple(sorted(methods, key=level))


def _share(target: str, draft: str | None) -> float:
    """The draft's parameters over the target's."""
    if not draft:
        return UNKNOWN
    try:
        both = survey_pair_of(target, draft, Environment.read())
    except InputError:
        return UNKNOWN
    ours, theirs = (survey.parameters for survey in both)
    return theirs / ours if ours and theirs else UNKNOWN
