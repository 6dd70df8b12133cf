"""The setting of a run, checked when it is made, and the bounds that every record keeps.

Knows nothing of what a run does with it; it imports the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from specviz.errors import InputError

MAX_DRAFT_LENGTH = 32
MAX_TREE_NODES = 64
MAX_NEW_TOKENS = 4096
MAX_TEMPERATURE = 5.0
MIN_TEMPERATURE = 1e-3  # of those above 0: colder, logits overflow when divided by it
MAX_SEED = 2**53 - 1  # the largest integer that a browser holds exactly


class ProposalKind(Enum):
    """How drafted siblings were chosen; the verification rule follows from it.

    TYPICAL trees are chosen as DETERMINISTIC ones are, but verified by typical acceptance (Medusa
    2401.10774), which is not lossless.
    """

    IID = "iid"
    WITHOUT_REPLACEMENT = "without-replacement"
    DETERMINISTIC = "deterministic"
    TYPICAL = "typical"

    @property
    def is_lossless(self) -> bool:
        return self is not ProposalKind.TYPICAL


def _check(name: str, value: object, rule: str, holds: bool) -> None:
    if not holds:
        raise InputError(f"{name} must be {rule}, got {value!r}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


@dataclass(frozen=True, slots=True)
class DecodingConfig:
    """The setting of a run.

    `branching` gives the children per node at depth 1, 2, …; deeper levels, down to
    `draft_length`, have one child each. An empty tuple is a chain. `top_k` 0 and `top_p` 1 are off.
    `tree_kind` says how siblings are drawn; at temperature 0 every drawn tree is DETERMINISTIC.
    `options` are whole numbers that only this method knows, by name; its registry entry says which
    there are. What is not listed has its default.
    """

    method: str = "draft-model"
    draft_length: int = 5
    branching: tuple[int, ...] = ()
    tree_kind: ProposalKind = ProposalKind.IID
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    max_new_tokens: int = 128
    options: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        _check("method", self.method, "a name", isinstance(self.method, str) and bool(self.method))
        for name, low, high in (
            ("draft_length", 1, MAX_DRAFT_LENGTH),
            ("max_new_tokens", 1, MAX_NEW_TOKENS),
            ("seed", 0, MAX_SEED),
        ):
            value = getattr(self, name)
            holds = _is_int(value) and low <= value <= high
            _check(name, value, f"an integer from {low} to {high}", holds)
        _check("top_k", self.top_k, "0 (off) or more", _is_int(self.top_k) and self.top_k >= 0)
        warm = _is_number(self.temperature) and MIN_TEMPERATURE <= self.temperature
        temperature_holds = self.temperature == 0 or (warm and self.temperature <= MAX_TEMPERATURE)
        rule = f"0 or from {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}"
        _check("temperature", self.temperature, rule, temperature_holds)
        top_p_holds = _is_number(self.top_p) and 0 < self.top_p <= 1
        _check("top_p", self.top_p, "above 0 and at most 1", top_p_holds)
        _check(
            "tree_kind", self.tree_kind, "a ProposalKind", isinstance(self.tree_kind, ProposalKind)
        )
        self._check_branching()
        options_hold = isinstance(self.options, tuple) and all(
            isinstance(name, str) and _is_int(value) for name, value in self.options
        )
        _check("options", self.options, "pairs of a name and an integer", options_hold)

    def _check_branching(self) -> None:
        widths_hold = isinstance(self.branching, tuple) and all(
            _is_int(width) and width >= 1 for width in self.branching
        )
        _check("branching", self.branching, "a tuple of integers >= 1", widths_hold)
        depth_holds = len(self.branching) <= self.draft_length
        rule = f"at most draft_length = {self.draft_length} levels"
        _check("branching", self.branching, rule, depth_holds)
        nodes = self.node_count
        rule = f"at most {MAX_TREE_NODES} nodes deep and wide together"
        _check("branching", f"{nodes} nodes from {self.branching}", rule, nodes <= MAX_TREE_NODES)

    @property
    def widths(self) -> tuple[int, ...]:
        """Children per node at each depth: (3, 2) with draft_length 4 is (3, 2, 1, 1)."""
        return self.branching + (1,) * (self.draft_length - len(self.branching))

    @property
    def node_count(self) -> int:
        """Drafted nodes of the whole tree: widths (3, 2, 1) make 3 + 6 + 6 = 15."""
        nodes, level = 0, 1
        for width in self.widths:
            level *= width
            nodes += level
        return nodes
