"""How far the lossy rules' output was measured to be from the target's distribution.

Each file of assets/lossy is what `python -m specviz lossless --json` printed for one method and
rule (`make lossy`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from specviz.folders import ASSETS

FOLDER = ASSETS / "lossy"


@dataclass(frozen=True, slots=True)
class Bias:
    """Total variation between emitted tokens and the target's distribution on the bundled pair.

    `noise_floor` is what exact sampling of the same size would give.
    """

    total_variation: float
    noise_floor: float
    temperature: float
    samples: int


@cache
def measured_bias(method: str, rule: str) -> Bias | None:
    """None where the rule is lossless, or nothing was measured."""
    file = FOLDER / f"{method}-{rule}.json"
    if not file.is_file():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    return Bias(*(found[name] for name in Bias.__slots__))
