"""The order in which methods are probed: probable winners first, because time may run out.

Theory ranks the methods by rough guesses of their acceptance rate and of the cost of a drafted
token. The ranking loads no model.
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

# Guesses for each kind of method: the acceptance rate, and the time to draft one token. The unit of
# time is a step of the target.
COPIED = (0.3, 0.0)  # methods that copy tokens from the text so far; a copied token takes no time
HEAD = (0.5, 0.1)  # heads of at most one layer, with an output matrix
ROUNDED = (0.95, 0.4)  # methods that draft with a quantised copy of the whole target
SELF = (0.6, 0.5)  # methods that draft with some of the target's own layers
# Acceptance rate of a draft model. The time that it takes for a token follows from its size.
MODEL = 0.6
UNKNOWN = 0.3  # assumed size of a draft model divided by the target's, if a size is unknown


def likely_first(pair: Pair, methods: Sequence[str]) -> tuple[str, ...]:
    """Return the methods, those with the highest likely speedup first.

    Methods with equal speedups keep their order. Methods that the pair cannot run come first,
    because refusing them takes no time.
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
    """Return the number of the draft's parameters, divided by the number of the target's."""
    if not draft:
        return UNKNOWN
    try:
        both = survey_pair_of(target, draft, Environment.read())
    except InputError:
        return UNKNOWN
    ours, theirs = (survey.parameters for survey in both)
    return theirs / ours if ours and theirs else UNKNOWN
