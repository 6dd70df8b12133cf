"""A lesson's own sweep: draft lengths of the pair that comes with the app, quick wherever it runs.

Its messages are those of a sweep of the lab.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.models.pair_catalog import BUNDLED
from specviz.ui.lab.lab_sweeps import SweepOrder, sweep_order

LENGTHS = "1,2,4,8"
TOKENS = 24
SWEEP = {
    "form": {
        "pair": BUNDLED,
        "task": "story",
        "method": "draft-model",
        "max_new_tokens": str(TOKENS),
        "temperature": "0",
    },
    "prompts": {"count": "1"},
    "axes": [{"name": "draft-length", "values": LENGTHS}],
    "repeats": "1",
}


def lengths_order(_: Mapping[str, Any]) -> SweepOrder:
    """The question says nothing more."""
    return sweep_order(SWEEP)
