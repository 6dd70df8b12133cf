"""Drafting with a small model that has the target's vocabulary: a chain or a static tree.

Papers: Leviathan et al. (arXiv 2211.17192) and Chen et al. (arXiv 2302.01318) for chains, SpecInfer
(arXiv 2305.09781) for trees.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.row_drafters import BatchDrafter
from specviz.decoding.drafters.source import ModelSource, SourceDrafter
from specviz.decoding.drafters.static_rows import static_rows
from specviz.decoding.drafters.static_tree import static_tree
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.parts import Need
from specviz.records import Drawing


def draft_source(setup: Setup) -> ModelSource:
    """Return the draft model as a source of logits.

    A draft model with a draft vocabulary gives only the logits of that vocabulary. A model that
    runs as CUDA graphs gives all logits, because its graphs exist for the whole vocabulary.
    """
    draft, drafted = setup.draft, None
    if isinstance(draft, LlamaModel) and not isinstance(draft, CapturedModel):
        draft, drafted = draft.in_draft_vocabulary(), draft.drafted
    vocab_size = setup.target.info.vocab_size
    return ModelSource(draft, setup.capacity, vocab_size, drafted=drafted)


def _make(setup: Setup) -> Drafter:
    return SourceDrafter(draft_source(setup), static_tree(setup))


def _make_rows(setups: Sequence[Setup]) -> BatchDrafter | None:
    return static_rows(setups, setups[0].draft)


CHAIN = Method(
    "draft-model",
    "Draft model, chain",
    "A small model writes K tokens ahead, one after the other.",
    _make,
    frozenset({Need.DRAFT}),
    drawings=(Drawing.INDEPENDENT,),
    make_rows=_make_rows,
)
TREE = Method(
    "draft-tree",
    "Draft model, static tree",
    "A small model branches into several continuations; one target forward judges them all.",
    _make,
    frozenset({Need.DRAFT}),
    drawings=tuple(Drawing),
    default_branching=(3, 2),
    takes_branching=True,
    make_rows=_make_rows,
)
