"""The deployment of a model with speculation, in terms that no single engine owns.

This module also has the rules that hold for every engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from specviz.errors import InputError, number_between, short, whole_between

MAX_DRAFT_TOKENS = 1024
MAX_LENGTH = 100_000_000  # largest number of tokens per request
MAX_BATCH = 1_000_000
MAX_PARALLEL = 4096  # largest number of GPUs that may share a model
MAX_NAME = 4096  # largest number of characters in the name of a model
LAST_PORT = 65_535
# Configurations contain this name if the user named no model.
NO_TARGET = "MODEL"


class EngineMethod(Enum):
    """A drafting method of serving engines. Not every engine has every method."""

    NONE = "none"
    DRAFT_MODEL = "draft-model"
    PROMPT_LOOKUP = "prompt-lookup"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MEDUSA = "medusa"
    MTP = "mtp"
    SUFFIX = "suffix"
    DFLASH = "dflash"
    DSPARK = "dspark"


class DraftSampling(Enum):
    """The way in which drafted tokens are chosen: always the most probable one, or drawn from q."""

    GREEDY = "greedy"
    PROBABILISTIC = "probabilistic"


class VerificationRule(Enum):
    """How the target judges a draft: each guess by itself, or all of them as one block.

    The values are those of `--rule` in specviz.
    """

    TOKEN = "token"
    BLOCK = "block"


HEADS = frozenset({EngineMethod.EAGLE, EngineMethod.EAGLE3, EngineMethod.MEDUSA})
NEEDS_DRAFT = HEADS | {EngineMethod.DRAFT_MODEL, EngineMethod.DFLASH}
MAY_HAVE_DRAFT = NEEDS_DRAFT | {EngineMethod.MTP, EngineMethod.DSPARK}
WITHOUT_DISTRIBUTION = frozenset({EngineMethod.PROMPT_LOOKUP, EngineMethod.SUFFIX})


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The draft length K for batch sizes from `first` to `last`. K = 0 means no speculation."""

    first: int
    last: int
    draft_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDeployment:
    """A served model, its drafting method, and the hardware. None lets the engine choose.

    `draft` is the name of a draft model or a head. `draft_tokens` is K, or the depth of a tree. A
    tree has `branching` children per level, and `tree_tokens` of its nodes are verified, the root
    included. Prompt lookup uses n-grams of `lookup_min` to `lookup_max` tokens. Drafting stops if a
    token's probability is below `min_probability`. `mixed_vocabularies` means that the draft has
    another vocabulary on purpose. `max_length` is the number of tokens per request, `max_batch` the
    number of requests. `quantization` is the engine's name for a format of weights. `draft_device`
    names devices for the draft only. Raises InputError for wrong values.
    """

    target: str
    method: EngineMethod = EngineMethod.NONE
    draft: str | None = None
    draft_tokens: int | None = None
    min_draft_tokens: int | None = None
    lookup_min: int | None = None
    lookup_max: int | None = None
    branching: int | None = None
    tree_tokens: int | None = None
    draft_sampling: DraftSampling | None = None
    rule: VerificationRule | None = None
    min_probability: float | None = None
    mixed_vocabularies: bool = False
    tensor_parallel: int = 1
    draft_tensor_parallel: int | None = None
    draft_device: str | None = None
    quantization: str | None = None
    draft_quantization: str | None = None
    memory_fraction: float | None = None
    max_length: int | None = None
    draft_max_length: int | None = None
    max_batch: int | None = None
    schedule: tuple[BatchRange, ...] = ()
    port: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            _check_value(each.name, getattr(self, each.name))
        self._check_method()
        check_schedule(self.schedule)

    def _check_method(self) -> None:
        method = self.method
        if method in NEEDS_DRAFT and self.draft is None:
            raise InputError(f"draft must be given for method {method.value}, got none")
        if method not in MAY_HAVE_DRAFT and self.draft is not None:
            raise InputError(
                f"draft must not be given for method {method.value}, got {self.draft!r}"
            )
        of_draft = [name for name in _OF_DRAFT if getattr(self, name)]
        if method not in MAY_HAVE_DRAFT and of_draft:
            raise InputError(
                f"{_flag(of_draft[0])} must be given only for a method with a draft or head, "
                f"got it for {method.value}"
            )
        given = [name for name in _OF_SPECULATION if getattr(self, name)]
        if method is EngineMethod.NONE and given:
            raise InputError(f"method must be given together with {_flag(given[0])}, got none")
        looked_up = [name for name in ("lookup_min", "lookup_max") if getattr(self, name)]
        if method is not EngineMethod.PROMPT_LOOKUP and looked_up:
            raise InputError(
                f"{_flag(looked_up[0])} must be given only for method prompt-lookup, "
                f"got it for {method.value}"
            )
        if method in WITHOUT_DISTRIBUTION and self.draft_sampling is not None:
            raise InputError(
                f"draft-sampling must not be given for method {method.value}, whose drafts "
                f"have no distribution, got {self.draft_sampling.value}"
            )
        _check_order("lookup-min", self.lookup_min, "lookup-max", self.lookup_max)
        _check_order("min-draft-tokens", self.min_draft_tokens, "draft-tokens", self.draft_tokens)
        _check_order("draft-max-length", self.draft_max_length, "max-length", self.max_length)

    @property
    def is_tree(self) -> bool:
        """Return whether a drafted token may have several successors."""
        return (self.branching or 1) > 1


_INTEGERS = {
    "draft_tokens": (1, MAX_DRAFT_TOKENS),
    "min_draft_tokens": (0, MAX_DRAFT_TOKENS),
    "lookup_min": (1, MAX_DRAFT_TOKENS),
    "lookup_max": (1, MAX_DRAFT_TOKENS),
    "branching": (1, MAX_DRAFT_TOKENS),
    "tree_tokens": (1, MAX_DRAFT_TOKENS),
    "tensor_parallel": (1, MAX_PARALLEL),
    "draft_tensor_parallel": (1, MAX_PARALLEL),
    "max_length": (1, MAX_LENGTH),
    "draft_max_length": (1, MAX_LENGTH),
    "max_batch": (1, MAX_BATCH),
    "port": (1, LAST_PORT),
}
PARTS = ("memory_fraction", "min_probability")
WORDS = ("draft_device", "quantization", "draft_quantization")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:,-]{0,199}")
_OF_DRAFT = ("draft_device", "draft_quantization")
_OF_SPECULATION = (
    *("draft_tokens", "min_draft_tokens", "branching", "tree_tokens", "draft_sampling"),
    *("rule", "min_probability", "mixed_vocabularies", "draft_tensor_parallel", "draft_max_length"),
    "schedule",
)


def wrong_values(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for each value that is wrong whatever the other values are."""
    for name, value in values.items():
        try:
            _check_value(name, value)
        except InputError as error:
            yield str(error)


def _check_value(name: str, value: Any) -> None:
    if name == "target" or name == "draft" and value is not None:
        _check_name(name, value)
    elif name in WORDS:
        _check_word(name, value)
    elif name in _INTEGERS and value is not None:
        whole_between(value, _flag(name), *_INTEGERS[name])
    elif name in PARTS and value is not None:
        number_between(value, _flag(name), 0, 1)
        if name == "memory_fraction" and value == 0:
            raise InputError("memory-fraction must be above 0, got 0")


def check_schedule(schedule: Sequence[BatchRange]) -> None:
    """Check that ranges of batch sizes start at 1, are in order and do not overlap."""
    end = 0
    for each in schedule:
        whole_between(each.first, "schedule's batch size", 1, MAX_BATCH)
        whole_between(each.last, "schedule's batch size", 1, MAX_BATCH)
        whole_between(each.draft_tokens, "schedule's K", 0, MAX_DRAFT_TOKENS)
        if not end < each.first <= each.last:
            raise InputError(
                "schedule must have ranges of batch sizes in order that do not overlap, "
                f"got {each.first} to {each.last} after {end}"
            )
        end = each.last
    if schedule and schedule[0].first != 1:
        raise InputError(f"schedule must begin at batch size 1, got {schedule[0].first}")


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _check_name(name: str, value: str) -> None:
    clean = isinstance(value, str) and value.strip() == value and value.isprintable()
    if not clean or not 0 < len(value) <= MAX_NAME or value.startswith("-"):
        raise InputError(f"{name} must be the name or path of a model, got {short(value)}")


def _check_word(name: str, value: str | None) -> None:
    if value is not None and not (isinstance(value, str) and _WORD.fullmatch(value)):
        raise InputError(f"{_flag(name)} must be a name without spaces, got {short(value)}")


def _check_order(low: str, least: int | None, high: str, most: int | None) -> None:
    if least is not None and most is not None and least > most:
        raise InputError(f"{low} must be at most {high}, which is {most}, got {least}")
