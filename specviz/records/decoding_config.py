"""The checked settings of one run, which every record of the run contains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from specviz.errors import InputError, short
from specviz.records.settings import DECODING, SAMPLING, SETTINGS, Drawing, Part

MAX_TREE_NODES = 64


@dataclass(frozen=True, slots=True)
class DecodingConfig:
    """The settings of a run; `records.settings` holds the bounds of each value.

    `branching` lists the children per node at depth 1, 2, …; deeper levels, down to `draft_length`,
    have one child per node. An empty `branching` means a chain. `drawing` says how siblings are
    drawn; at temperature 0 they are always CHOSEN. `rule` names the rule that judges the draft.
    `length_policy` and `entropy_threshold` decide how many of the `draft_length` levels a round
    drafts. `grammar` is a JSON schema or a regular expression that the text must match, or ""; with
    `draft_forced`, rounds draft the tokens that the grammar forces. `options` has pairs of a name
    and a whole number for the options that belong to `method` alone. An option that is absent has
    its default. Raise InputError if a value breaks its rule.
    """

    method: str = SETTINGS["method"].default
    draft_length: int = SETTINGS["draft_length"].default
    branching: tuple[int, ...] = SETTINGS["branching"].default
    drawing: Drawing = SETTINGS["drawing"].default
    rule: str = SETTINGS["rule"].default
    temperature: float = SETTINGS["temperature"].default
    top_k: int = SETTINGS["top_k"].default
    top_p: float = SETTINGS["top_p"].default
    min_p: float = SETTINGS["min_p"].default
    seed: int = SETTINGS["seed"].default
    max_new_tokens: int = SETTINGS["max_new_tokens"].default
    options: tuple[tuple[str, int], ...] = SETTINGS["options"].default
    length_policy: str = SETTINGS["length_policy"].default
    entropy_threshold: float = SETTINGS["entropy_threshold"].default
    grammar: str = SETTINGS["grammar"].default
    draft_forced: bool = SETTINGS["draft_forced"].default

    def __post_init__(self) -> None:
        for setting in DECODING:
            setting.check(getattr(self, setting.name))
        if len(self.branching) > self.draft_length:
            rule = f"at most draft_length = {self.draft_length} levels"
            raise InputError(f"branching must have {rule}, got {short(self.branching)}")
        if self.node_count > MAX_TREE_NODES:
            got = f"{','.join(map(str, self.branching))}, which gives {self.node_count:,}"
            raise InputError(
                f"branching must give at most {MAX_TREE_NODES} nodes with a draft length of "
                f"{self.draft_length}, got {got}"
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """Return how many children each node has at each depth.

        The branching (3, 2) with draft_length 4 gives (3, 2, 1, 1).
        """
        return self.branching + (1,) * (self.draft_length - len(self.branching))

    @property
    def node_count(self) -> int:
        """Return the number of nodes of the whole tree: widths (3, 2, 1) make 3 + 6 + 6 = 15."""
        nodes, level = 0, 1
        for width in self.widths:
            level *= width
            nodes += level
        return nodes

    @property
    def sampling(self) -> tuple[float | str, ...]:
        """Return the settings that change the target's distribution, such as the temperature."""
        return (*(getattr(self, setting.name) for setting in SAMPLING), self.grammar)

    @property
    def sampling_words(self) -> list[str]:
        """Return texts such as 'top-k 40' for the temperature and the sampling settings in use.

        At temperature 0 no other setting has an effect.

        >>> DecodingConfig(temperature=0.7, top_k=40).sampling_words
        ['temperature 0.7', 'top-k 40']
        """
        given = {setting: getattr(self, setting.name) for setting in SAMPLING}
        if self.temperature == 0:
            given = {SETTINGS["temperature"]: 0.0}
        shown = (pair for pair in given.items() if pair[1] != pair[0].off)
        words = [
            f"{setting.word} {value:g}" if isinstance(value, float) else f"{setting.word} {value}"
            for setting, value in shown
        ]
        return [*words, SETTINGS["grammar"].word] if self.grammar else words

    def with_option(self, name: str, value: int) -> DecodingConfig:
        """Return a copy of the settings with another value of one option of the drafting method."""
        others = (option for option in self.options if option[0] != name)
        return replace(self, options=(*others, (name, value)))

    @property
    def beside_method(self) -> dict[str, Any]:
        """Return the values of all settings that do not belong to the drafting method, by name."""
        shared = (setting.name for setting in DECODING if setting.part is not Part.METHOD)
        return {name: getattr(self, name) for name in shared}
