"""Download the files of a pair of models before its run gets the thread that decodes.

A download takes minutes. If it happened during loading, it would block all other runs, because only
one thread decodes.
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
    """Return the Hub ids of all models that a run needs.

    Raises InputError if a source that is not on the Hub is missing.
    """
    # If a need is missing, nothing is downloaded: loading the pair reports the missing need.
    if pair.is_here or needs_missing(pair, needs):
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
    """Download the models of a run, if the run is possible and fits into memory. Load nothing.

    Raises the same InputError as `load_pair`.
    """
    for problem in check_pair_sources(pair, device, dtype, needs, demand).problems:
        raise InputError(problem)
    for source in hub_sources(pair, needs):
        find_model_folder(source, Environment.read())
