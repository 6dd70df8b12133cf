"""In which order methods are probed: those likely to be fastest come first, when time may run out.

A level of a draft is paid by reading the drafter's weights and pays by how many guesses pass: what
theory makes of a rough guess at both, before anything is loaded. Measuring comes next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from specviz import theory
from specviz.decoding.drafters.registry import method_named
from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.survey import survey_pair_of
from specviz.models.memory_estimate import ExtraMemory
from specviz.models.pair_catalog import Pair
from specviz.models.pair_check import needs_missing
from specviz.models.parts import Need

# how many guesses pass, and what a level takes of a target's step
COPIED = (0.3, 0.0)  # from the text so far
HEAD = (0.5, 0.1)  # a layer or less, and an output matrix
ROUNDED = (0.95, 0.4)  # all of the target's layers, in fewer bits
SELF = (0.6, 0.5)  # some of the target's own layers
MODEL = 0.6  # of a draft model's guesses; it takes its share of the target's weights
UNKNOWN = 0.3  # the share of a draft model whose weights cannot be counted


def likely_first(pair: Pair, methods: Sequence[str]) -> tuple[str, ...]:
    """The methods by the speedup that is likely; equal ones as they were.

    What the pair lacks comes first of all: to refuse it takes no time.
    """
    likely = {
        Need.DRAFT: (MODEL, _share(pair.target, pair.draft)),
        Need.FOREIGN_DRAFT: (MODEL, _share(pair.target, pair.foreign_draft or pair.draft)),
        Need.LAYERS: SELF,
        Need.EAGLE: HEAD,
        Need.MEDUSA: HEAD,
    }

    def gain(method: str) -> float:
        found = method_named(method)
        if needs_missing(pair, found.needs):
            return math.inf
        needed = [likely[need] for need in found.needs if need in likely]
        if found.extra_memory is ExtraMemory.ROUNDED_TARGET:
            needed = [ROUNDED]
        passes, cost = min(needed, default=COPIED)
        return theory.speedup(passes, theory.best_draft_length(passes, cost), cost)

    return tuple(sorted(methods, key=gain, reverse=True))


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
