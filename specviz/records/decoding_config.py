"""How a run decodes: the checked setting that every record of it keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from specviz.errors import InputError
from specviz.records.settings import DECODING, SAMPLING, SETTINGS, Part, ProposalKind

MAX_TREE_NODES = 64


@dataclass(frozen=True, slots=True)
class DecodingConfig:
    """The setting of a run; `records.settings` has each one's bounds.

    `branching` gives the children per node at depth 1, 2, …; deeper levels, down to
    `draft_length`, have one child each. An empty tuple is a chain. `tree_kind` says how siblings
    are drawn; at temperature 0 every drawn tree is DETERMINISTIC. `options` are whole numbers that
    only this method knows, by name; its registry entry says which there are. What is not listed has
    its default. Raises InputError for a value that breaks its rule.
    """

    method: str = SETTINGS["method"].default
    draft_length: int = SETTINGS["draft_length"].default
    branching: tuple[int, ...] = SETTINGS["branching"].default
    tree_kind: ProposalKind = SETTINGS["tree_kind"].default
    temperature: float = SETTINGS["temperature"].default
    top_k: int = SETTINGS["top_k"].default
    top_p: float = SETTINGS["top_p"].default
    min_p: float = SETTINGS["min_p"].default
    seed: int = SETTINGS["seed"].default
    max_new_tokens: int = SETTINGS["max_new_tokens"].default
    options: tuple[tuple[str, int], ...] = SETTINGS["options"].default

    def __post_init__(self) -> None:
        for setting in DECODING:
            setting.check(getattr(self, setting.name))
        depth, rule = len(self.branching), f"at most draft_length = {self.draft_length} levels"
        if depth > self.draft_length:
            raise InputError(f"branching must be {rule}, got {self.branching!r}")
        if self.node_count > MAX_TREE_NODES:
            rule = f"at most {MAX_TREE_NODES} nodes deep and wide together"
            got = f"{self.node_count} nodes from {self.branching}"
            raise InputError(f"branching must be {rule}, got {got!r}")

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

    @property
    def sampling(self) -> tuple[float, ...]:
        """What the target's distribution follows from, beside the target and the text."""
        return tuple(getattr(self, setting.name) for setting in SAMPLING)

    @property
    def sampling_words(self) -> list[str]:
        """Temperature, and what else cuts the distribution; at temperature 0 nothing else counts.

        >>> DecodingConfig(temperature=0.7, top_k=40).sampling_words
        ['temperature 0.7', 'top-k 40']
        """
        given = {setting: getattr(self, setting.name) for setting in SAMPLING}
        if self.temperature == 0:
            given = {SETTINGS["temperature"]: 0.0}
        shown = (pair for pair in given.items() if pair[1] != pair[0].off)
        return [
            f"{setting.word} {value:g}" if isinstance(value, float) else f"{setting.word} {value}"
            for setting, value in shown
        ]

    def with_option(self, name: str, value: int) -> DecodingConfig:
        """The same with one option of the method set."""
        others = (option for option in self.options if option[0] != name)
        return replace(self, options=(*others, (name, value)))

    @property
    def beside_method(self) -> dict[str, Any]:
        """The settings that another method would share, by name."""
        shared = (setting.name for setting in DECODING if setting.part is not Part.METHOD)
        return {name: getattr(self, name) for name in shared}
