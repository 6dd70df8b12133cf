"""The drafting methods by name. A new method is one file beside this one and one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.draft_model import SourceDrafter
from specviz.decoding.drafters.prompt_lookup import PromptLookup
from specviz.decoding.drafters.shapes import StaticTree
from specviz.decoding.drafters.source import ModelSource
from specviz.decoding.sampling import Sampler
from specviz.decoding.streams import Purpose, RandomStream
from specviz.errors import InputError
from specviz.models.language_model import LanguageModel
from specviz.records import DecodingConfig, ProposalKind


@dataclass(frozen=True, slots=True)
class Setup:
    """What a factory may use: the models of the run, its setting, and the room that caches need."""

    target: LanguageModel
    draft: LanguageModel | None
    config: DecodingConfig
    capacity: int

    @property
    def uses_draft(self) -> bool:
        return method_named(self.config.method).needs_draft

    @property
    def models(self) -> tuple[LanguageModel, ...]:
        """The models that will run."""
        return (self.target, self.draft) if self.uses_draft and self.draft else (self.target,)

    @property
    def sampler(self) -> Sampler:
        return Sampler(self.config.temperature, self.config.top_k, self.config.top_p)


@dataclass(frozen=True, slots=True)
class Method:
    """One entry of the menu. A method with a default branching takes branching and tree kind."""

    name: str
    title: str
    summary: str
    kinds: tuple[ProposalKind, ...]
    make: Callable[[Setup], Drafter]
    needs_draft: bool = False
    default_branching: tuple[int, ...] = ()
    lossless: bool = True

    @property
    def is_tree(self) -> bool:
        return bool(self.default_branching)


def _draft_model(setup: Setup) -> Drafter:
    if setup.draft is None:
        raise InputError(f"method {setup.config.method} must have a draft model, got none")
    config, draft = setup.config, setup.draft
    shape = StaticTree(
        config.widths,
        config.tree_kind,
        setup.sampler,
        RandomStream(config.seed, Purpose.DRAFT),
    )
    source = ModelSource(draft, setup.capacity, setup.target.info.vocab_size)
    return SourceDrafter(source, shape, draft.info.bytes)


def _prompt_lookup(setup: Setup) -> Drafter:
    return PromptLookup(setup.config.draft_length, setup.target.device)


_METHODS = (
    Method(
        "draft-model",
        "Draft model, chain",
        "A small model writes K tokens ahead, one after the other.",
        (ProposalKind.IID,),
        _draft_model,
        needs_draft=True,
    ),
    Method(
        "draft-tree",
        "Draft model, static tree",
        "A small model branches into several continuations; one target forward judges them all.",
        tuple(ProposalKind),
        _draft_model,
        needs_draft=True,
        default_branching=(3, 2),
    ),
    Method(
        "prompt-lookup",
        "Prompt lookup",
        "Copies what followed the last few tokens earlier in the text; needs no model.",
        (ProposalKind.DETERMINISTIC,),
        _prompt_lookup,
    ),
)
DRAFTERS: dict[str, Method] = {method.name: method for method in _METHODS}


def method_named(name: str) -> Method:
    """The entry of that name, or an InputError that lists the names."""
    if name not in DRAFTERS:
        raise InputError(f"method must be one of {', '.join(DRAFTERS)}, got {name!r}")
    return DRAFTERS[name]


def make_drafter(setup: Setup) -> Drafter:
    """The drafter of `setup.config.method`; options that it does not take are refused."""
    method = method_named(setup.config.method)
    if setup.config.branching and not method.is_tree:
        branching = setup.config.branching
        raise InputError(f"branching must be empty for method {method.name}, got {branching}")
    return method.make(setup)
