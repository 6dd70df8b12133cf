"""Brings a pair's files to this machine before its turn to decode comes.

A download takes minutes, and whoever loads a model has the thread that decodes to itself.
"""

from __future__ import annotations

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.hub import find_model_folder, is_on_the_hub
from specviz.models.memory_estimate import NO_REQUEST, Demand
from specviz.models.pair_catalog import Pair
from specviz.models.pair_check import check_pair_sources, needed_models, needs_missing
from specviz.models.parts import Need


def hub_sources(pair: Pair, needs: frozenset[Need]) -> tuple[str, ...]:
    """What a run needs of the Hub; InputError where a source is neither there nor here."""
    if pair.is_here or needs_missing(pair, needs):  # the latter is refused when it is loaded
        return ()
    heads = ((Need.MEDUSA, pair.medusa), (Need.EAGLE, pair.eagle))
    sources = [*needed_models(pair, needs), *(name for need, name in heads if need in needs)]
    return tuple(source for source in sources if source and is_on_the_hub(source))


def fetch_pair(
    pair: Pair,
    device: str = "auto",
    dtype: str = "float32",
    needs: frozenset[Need] = frozenset(),
    demand: Demand = NO_REQUEST,
) -> None:
    """Fetch what a run needs, once it is known to be runnable and to fit; load nothing.

    Raises InputError as `load_pair` would.
    """
    for problem in check_pair_sources(pair, device, dtype, needs, demand).problems:
        raise InputError(problem)
    for source in hub_sources(pair, needs):
        find_model_folder(source, Environment.read())
