"""Which needs of a method a pair can meet, told before anything is loaded.

Knows nothing of the methods: they say what they need.
"""

from __future__ import annotations

from specviz.models.catalog import Pair, pairs
from specviz.models.parts import Need
from specviz.models.survey import known_to_run_by_layers


def needed_models(pair: Pair, needs: frozenset[Need]) -> tuple[str, ...]:
    """The sources of the models that must be loaded for these needs, each once."""
    sources = [pair.target]
    sources += [pair.draft] if Need.DRAFT in needs else []
    sources += [pair.foreign_draft] if Need.FOREIGN_DRAFT in needs else []
    return tuple(dict.fromkeys(source for source in sources if source))


def needs_missing(pair: Pair, needs: frozenset[Need]) -> tuple[Need, ...]:
    """The needs that the pair cannot meet, as far as that can be told without loading it."""
    return tuple(need for need in Need if need in needs and _is_missing(pair, need))


def need_refusal(pair: Pair, need: Need) -> str:
    """That the pair cannot meet the need, and which pairs can."""
    able = [each.name for each in pairs() if not _is_missing(each, need)]
    instead = f", or one of the pairs {', '.join(able)}" if able else ""
    return f"pair {pair.name!r} has no {need.title}: choose a method that needs none{instead}"


def _is_missing(pair: Pair, need: Need) -> bool:
    match need:
        case Need.DRAFT:
            return not pair.draft
        case Need.MEDUSA:
            return not pair.medusa
        case Need.EAGLE:
            return not pair.eagle
        case Need.FOREIGN_DRAFT:
            return not pair.foreign_draft
        case Need.LAYERS:
            return known_to_run_by_layers(pair.target, pair.model_type) is False
        case Need.TEXT:
            return False
