"""How advice names a method and writes a factor: as one types them, or as a page shows them.

Knows no method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from specviz.advisor.probe import Candidate


@dataclass(frozen=True, slots=True)
class Wording:
    """`method` turns a method's name into what is written; `times` stands behind a factor."""

    method: Callable[[str], str] = str
    times: str = "x"

    def candidate(self, candidate: Candidate) -> str:
        """
        >>> Wording(str.upper).candidate(Candidate("draft-tree", 5, (3, 2)))
        'DRAFT-TREE, K = 5, branching 3,2'
        """
        return replace(candidate, method=self.method(candidate.method)).title

    def factor(self, value: float) -> str:
        """
        >>> Wording(times="×").factor(1.294)
        '1.29×'
        """
        return f"{value:.2f}{self.times}"


TYPED = Wording()  # names as the command line takes them
