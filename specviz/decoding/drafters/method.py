"""What the registry says of a drafting method, and what its factory may use.

Knows no method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.row_drafters import BatchDrafter
from specviz.decoding.sampling import Sampler
from specviz.errors import InputError, whole_rule
from specviz.models.language_model import LanguageModel
from specviz.models.memory_estimate import ExtraMemory
from specviz.models.parts import Need, Parts
from specviz.records import MAX_TREE_NODES, DecodingConfig, ProposalKind


@dataclass(frozen=True, slots=True)
class Option:
    """A whole number that only this method knows; `name` is typed, `title` and `hint` are shown.

    `choices` are all that there is between `low` and `high`, where that is not every number.
    `at_least` names another option of the method, below whose value this one must not be. `usual`
    are the values that a sweep over it begins with.
    """

    name: str
    title: str
    default: int
    low: int
    high: int
    hint: str = ""
    choices: tuple[int, ...] = ()
    at_least: str = ""
    usual: str = "1-4"

    @property
    def rule(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        return whole_rule(self.low, self.high)

    def holds(self, value: int) -> bool:
        """Whether a value obeys the rule."""
        return value in self.choices if self.choices else self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Setup:
    """What a factory may use: the models of the run, its setting, and the room that caches need."""

    target: LanguageModel
    parts: Parts
    config: DecodingConfig
    capacity: int

    @property
    def draft(self) -> LanguageModel:
        """The draft model; InputError where there is none."""
        if self.parts.draft is None:
            raise self.lacks(Need.DRAFT)
        return self.parts.draft

    @property
    def sampler(self) -> Sampler:
        return Sampler.of(self.config)

    def lacks(self, need: Need) -> InputError:
        return InputError(f"method {self.config.method} must have a {need.title}, got none")


@dataclass(frozen=True, slots=True)
class Method:
    """One entry of the menu.

    `kinds` are the ways in which siblings can be chosen, the default first. `host_copies` is the
    most blocking copies of a round: one, more only for a method that must see its own draft.
    A method that `shares_cache` drafts in the target's own, so the rows of a batch have one each.
    `depth_cap` says what else keeps a path short, where the draft length is not all that does.
    `extra_memory` is what it holds beside models and their caches.
    `make_rows` drafts for all rows of a batch in one forward, or is None where that cannot be.
    `settle` writes out what the setting leaves to the models at hand, or is None where that is
    nothing.
    """

    name: str
    title: str
    summary: str
    kinds: tuple[ProposalKind, ...]
    make: Callable[[Setup], Drafter]
    needs: frozenset[Need] = frozenset()
    default_branching: tuple[int, ...] = ()
    takes_branching: bool = False
    options: tuple[Option, ...] = ()
    depth_cap: str = ""
    host_copies: int = 1
    shares_cache: bool = False
    extra_memory: ExtraMemory = ExtraMemory.NOTHING
    make_rows: Callable[[Sequence[Setup]], BatchDrafter | None] | None = None
    settle: Callable[[Setup], DecodingConfig] | None = None

    @property
    def is_lossless(self) -> bool:
        """By default; a kind that is lossy has to be asked for."""
        return self.kinds[0].is_lossless

    def kind_named(self, text: str, name: str) -> ProposalKind:
        """The one of `kinds` of that value, the default for an empty text.

        Where it is none, the InputError calls the setting `name`.
        """
        for kind in self.kinds:
            if text in ("", kind.value):
                return kind
        allowed = ", ".join(kind.value for kind in self.kinds)
        raise InputError(f"{name} must be one of {allowed} for this method, got {text!r}")

    def usual(self, draft_length: int, **changes: Any) -> DecodingConfig:
        """The method's own tree, rule and options at a draft length; `changes` go before them.

        InputError where a value breaks its rule.
        """
        branching = self.usual_branching(draft_length)
        shape: dict[str, Any] = {"branching": branching, "tree_kind": self.kinds[0]}
        return DecodingConfig(method=self.name, draft_length=draft_length, **(shape | changes))

    def usual_branching(self, draft_length: int) -> tuple[int, ...]:
        """That of `usual`, also where so deep a tree would have too many nodes."""
        return self.default_branching[: max(0, draft_length)]

    def most_rows(self, config: DecodingConfig) -> int:
        """Rows of logits in one verification at the most: the root and the nodes of its tree."""
        if not any(option.name in ("nodes", "guesses") for option in self.options):
            return 1 + config.node_count
        chosen = dict(config.options).get("nodes") or MAX_TREE_NODES
        return 1 + max(config.node_count, chosen)

    def completed(self, config: DecodingConfig) -> dict[str, int]:
        """Every option of the method with its value; InputError for one that it does not take."""
        given = dict(config.options)
        values = {option.name: given.pop(option.name, option.default) for option in self.options}
        if given:
            names = ", ".join(values) or "none"
            raise InputError(
                f"options of method {self.name} must be of {names}, got {next(iter(given))!r}"
            )
        for option in self.options:
            value = values[option.name]
            if not option.holds(value):
                raise InputError(f"{option.name} must be {option.rule}, got {value}")
            if option.at_least and value < values[option.at_least]:
                least = f"{option.at_least} = {values[option.at_least]}"
                raise InputError(f"{option.name} must be at least {least}, got {value}")
        return values

    def check(self, config: DecodingConfig) -> None:
        """Raise InputError for a setting that the method does not take."""
        if config.branching and not self.takes_branching:
            raise InputError(
                f"branching must be empty for method {self.name}, got {config.branching}"
            )
        if config.tree_kind not in self.kinds:
            kinds = ", ".join(kind.value for kind in self.kinds)
            raise InputError(
                f"rule must be one of {kinds} for method {self.name}, got {config.tree_kind.value}"
            )
        self.completed(config)
