"""The declaration of one step of a GPU probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.gpu.probe_results import Results
from tests.gpu.scale import Scale

# A function that measures one part and returns its values. If the values contain the key PROBLEM,
# the part has failed.
Measure = Callable[[], dict[str, Any]]
PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of at most `limit` seconds; each of its parts may take at most `most` seconds.

    `parts` yields each part's name and its measuring function, without measuring anything itself.
    """

    name: str
    limit: float
    most: float
    parts: Callable[[Scale, Results], Iterator[tuple[str, Measure]]]
