"""The description of a drafting method, and the inputs for creating its drafter.

This module knows no particular method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.decoding.draft_lengths import (
    FIXED,
    POLICIES,
    EntropyStop,
    LengthPolicy,
    policy_named,
)
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.row_drafters import BatchDrafter
from specviz.decoding.drafters.suffix_tree import SuffixTree
from specviz.decoding.rules.rule import Rule
from specviz.decoding.rules.rule_table import RULES, rule_named
from specviz.decoding.sampling import Sampler
from specviz.errors import InputError, one_of, short, whole_rule
from specviz.models.language_model import LanguageModel
from specviz.models.memory_estimate import ExtraMemory
from specviz.models.pair_catalog import Pair
from specviz.models.parts import Need, Parts
from specviz.records import MAX_TREE_NODES, SETTINGS, DecodingConfig, Drawing

# drafters that were trained for a target, so that the best draft length depends on the pair
_TRAINED = frozenset({Need.DRAFT, Need.MEDUSA, Need.EAGLE})
# options that limit the size of a tree whose shape the method decides itself
_TREE_SIZES = ("nodes", "guesses")
# options that limit what a trained drafter writes, so that the best K does not depend on the pair
_TRAINED_LENGTHS = ("model_length",)


@dataclass(frozen=True, slots=True)
class Option:
    """A whole number that users can set for one drafting method.

    Users type `name`; the page shows `title` and `hint`. `choices` lists the allowed values if not
    every number from `low` to `high` is allowed. `at_least` names another option whose value is the
    lower limit of this one. A sweep over the option starts with the `usual` values.
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
        """Return a text that says which values of the option are allowed."""
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        return whole_rule(self.low, self.high)

    def holds(self, value: int) -> bool:
        return value in self.choices if self.choices else self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Setup:
    """The inputs from which a drafter is created: models, settings and sizes of the KV caches.

    `earlier` counts the token sequences in the outputs of earlier runs. It is None if a run may use
    only its own text.
    """

    target: LanguageModel
    parts: Parts
    config: DecodingConfig
    capacity: int
    earlier: SuffixTree | None = None

    @property
    def draft(self) -> LanguageModel:
        """Return the draft model. Raises InputError if the pair of models has no draft model."""
        if self.parts.draft is None:
            raise self.lacks(Need.DRAFT)
        return self.parts.draft

    @property
    def sampler(self) -> Sampler:
        return Sampler.of(self.config)

    @property
    def stop(self) -> EntropyStop | None:
        return EntropyStop.of(self.config)

    def lacks(self, need: Need) -> InputError:
        return InputError(f"method {self.config.method} must have a {need.title}, got none")


@dataclass(frozen=True, slots=True)
class Method:
    """An entry in the registry of drafting methods.

    - `drawings`: the ways to draw siblings in a tree; the first of them is the default.
    - `host_copies`: the largest number of blocking copies per round. It is one, or more for a
      method that must read its own draft on the host. An entropy stop adds one per token after the
      first, and a grammar adds one.
    - `shares_cache`: the method drafts in the target's cache, so each row of a batch needs a cache
      of its own.
    - `drafts_ahead`: the method prepares drafts before it is known how many tokens the next round
      may draft.
    - `depth_cap`: a text that names another limit on the depth besides the draft length.
    - `extra_memory`: the memory that the method needs besides the models and their caches.
    - `make_rows`: a function that drafts for all rows of a batch in one forward; None if the method
      cannot.
    - `settle`: a function that replaces default values which depend on the loaded models; None if
      the method has no such values.
    """

    name: str
    title: str
    summary: str
    make: Callable[[Setup], Drafter]
    needs: frozenset[Need] = frozenset()
    drawings: tuple[Drawing, ...] = (Drawing.CHOSEN,)
    default_branching: tuple[int, ...] = ()
    takes_branching: bool = False
    options: tuple[Option, ...] = ()
    drafts_ahead: bool = False
    depth_cap: str = ""
    host_copies: int = 1
    shares_cache: bool = False
    extra_memory: ExtraMemory = ExtraMemory.NOTHING
    make_rows: Callable[[Sequence[Setup]], BatchDrafter | None] | None = None
    settle: Callable[[Setup], DecodingConfig] | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return the verification rules that can judge the method's drafts."""
        return tuple(
            rule
            for rule in RULES.values()
            if rule.drawings & set(self.drawings) and not (rule.needs_chain and self.has_only_trees)
        )

    @property
    def has_only_trees(self) -> bool:
        """Return whether the method drafts trees of its own shape, whatever the settings are."""
        return self.has_own_tree and not any(drawing.is_drawn for drawing in self.drawings)

    @property
    def has_own_tree(self) -> bool:
        """Return whether the method has an option for the size of a tree that it shapes itself."""
        return any(option.name in _TREE_SIZES for option in self.options)

    @property
    def length_policies(self) -> tuple[LengthPolicy, ...]:
        """Return the length policies that the method can obey."""
        return (FIXED,) if self.drafts_ahead else tuple(POLICIES.values())

    @property
    def can_stop(self) -> bool:
        """Return whether an entropy stop can end the method's drafts.

        For that, the method must know each q of a chain before it draws a token from this q.
        """
        return not self.drafts_ahead and any(drawing.is_drawn for drawing in self.drawings)

    def drafts_siblings(self, config: DecodingConfig) -> bool:
        """Return whether a draft can have several guesses for one position."""
        is_own = self.has_own_tree and not config.drawing.is_drawn and not config.branching
        return is_own or max(config.widths) > 1

    def drawing_named(self, text: str) -> Drawing:
        """Return the way of drawing that `text` names; an empty text means the default one.

        Raises InputError if the method does not support it.
        """
        for drawing in self.drawings:
            if text in ("", drawing.value):
                return drawing
        allowed = one_of(drawing.value for drawing in self.drawings)
        raise InputError(f"drawing must be {allowed} for method {self.name}, got {short(text)}")

    def usual(self, draft_length: int, **changes: Any) -> DecodingConfig:
        """Return the settings with the default tree, drawing and options of this method.

        `changes` replace single values of the result. Raises InputError for a value that is not
        allowed.
        """
        branching = self.usual_branching(draft_length)
        shape: dict[str, Any] = {"branching": branching, "drawing": self.drawings[0]}
        return DecodingConfig(method=self.name, draft_length=draft_length, **(shape | changes))

    def usual_length(self, pair: Pair) -> int:
        """Return the draft length to start with on a pair of models."""
        has_own = any(option.name in _TRAINED_LENGTHS for option in self.options)
        is_by_pair = self.needs & _TRAINED and not has_own
        return pair.draft_length if is_by_pair else SETTINGS["draft_length"].default

    def usual_branching(self, draft_length: int) -> tuple[int, ...]:
        """Return the method's default branching for the levels up to the draft length.

        The tree with this branching may still have too many nodes.
        """
        return self.default_branching[: max(0, draft_length)]

    def most_rows(self, config: DecodingConfig) -> int:
        """Return how many rows a verification has at most: one for the root, one for each node."""
        if not self.has_own_tree:
            return 1 + config.node_count
        chosen = dict(config.options).get("nodes") or MAX_TREE_NODES
        return 1 + max(config.node_count, chosen)

    def completed(self, config: DecodingConfig) -> dict[str, int]:
        """Return the value of every option of the method, with defaults for unset options.

        Raises InputError for an unknown option or a bad value.
        """
        given = dict(config.options)
        values = {option.name: given.pop(option.name, option.default) for option in self.options}
        if given:
            names = ", ".join(values) or "none"
            raise InputError(
                f"options of method {self.name} must be among {names}, got "
                f"{short(next(iter(given)))}"
            )
        for option in self.options:
            value = values[option.name]
            if not option.holds(value):
                raise InputError(f"{option.name} must be {option.rule}, got {short(value)}")
            if option.at_least and value < values[option.at_least]:
                least = f"{option.at_least} = {values[option.at_least]}"
                raise InputError(f"{option.name} must be at least {least}, got {short(value)}")
        return values

    def check(self, config: DecodingConfig) -> None:
        """Raise InputError if the method does not support the settings."""
        if config.branching and not self.takes_branching:
            raise InputError(
                f"branching must be empty for method {self.name}, got {config.branching}"
            )
        if config.drawing not in self.drawings:
            allowed = one_of(drawing.value for drawing in self.drawings)
            got = config.drawing.value
            raise InputError(f"drawing must be {allowed} for method {self.name}, got {got}")
        rule = rule_named(config.rule)
        if config.drawing not in rule.drawings:
            fitting = [each.name for each in self.rules if config.drawing in each.drawings]
            raise InputError(
                f"rule must be {one_of(fitting)} for method {self.name} with drawing "
                f"{config.drawing.value}, got {rule.name}"
            )
        if rule.needs_chain and self.drafts_siblings(config):
            raise InputError(
                f"rule {rule.name} must be used on a chain, with one guess per position, but these "
                f"settings of method {self.name} draft siblings: choose an empty branching and "
                "independent drawing, or the rule token"
            )
        self._check_length(config)
        self.completed(config)

    def _check_length(self, config: DecodingConfig) -> None:
        policy, threshold = policy_named(config.length_policy), config.entropy_threshold
        if policy not in self.length_policies:
            raise InputError(
                f"length_policy must be {FIXED.name} for method {self.name}, which drafts before "
                f"the length of the next round is known, got {policy.name}"
            )
        is_chain = config.drawing.is_drawn and not self.drafts_siblings(config)
        if threshold and not (self.can_stop and is_chain):
            raise InputError(
                f"entropy_threshold must be 0 for method {self.name} with these settings, because "
                f"only a chain that is drawn token by token can stop early, got {threshold:g}"
            )
