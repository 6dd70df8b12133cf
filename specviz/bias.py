"""The measured bias of lossy rules: how far their output is from the target's distribution.

Each file in assets/lossy is the output of `python -m specviz lossless --json` for one method and
one rule. `make lossy` creates these files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from specviz.folders import ASSETS

FOLDER = ASSETS / "lossy"


@dataclass(frozen=True, slots=True)
class Bias:
    """The total variation between the tokens of a lossy rule and the target's distribution.

    It was measured on the bundled pair of models, with `samples` tokens. Even exact sampling would
    show the total variation `noise_floor` with this number of tokens.
    """

    total_variation: float
    noise_floor: float
    temperature: float
    samples: int


@cache
def measured_bias(method: str, rule: str) -> Bias | None:
    """Return how far the tokens of a lossy rule were from the target's distribution.

    Return None if the rule is lossless, or if nobody has measured it.
    """
    file = FOLDER / f"{method}-{rule}.json"
    if not file.is_file():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    return Bias(*(found[name] for name in Bias.__slots__))
