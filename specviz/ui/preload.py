"""Loads the bundled pair when the app starts, so that the first race need not wait for it.

It must end before any race begins: while transformers loads a model, the default precision of the
whole process is that model's. A failure is only logged; the race that needs the pair reports it.
"""

from __future__ import annotations

import logging

from specviz.errors import InputError
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_loading import load_pair

log = logging.getLogger("specviz")


def preload() -> None:
    try:
        load_pair(pair_named(BUNDLED))
    except InputError as error:
        log.warning("the bundled pair is not ready: %s", error)
