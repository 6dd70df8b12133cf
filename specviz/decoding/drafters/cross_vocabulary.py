"""Drafting with a model that has another tokenizer than the target (2502.05202).

By default its greedy text is encoded again for the target; the IID kind draws from the tokens that
both vocabularies share.
"""

from __future__ import annotations

from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.foreign_source import ForeignSource
from specviz.decoding.drafters.intersection import IntersectionDrafter, IntersectionSource
from specviz.decoding.drafters.meeting import meeting
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.reencoded_chain import ReencodedChain
from specviz.decoding.drafters.static_tree import static_tree
from specviz.errors import InputError
from specviz.models.parts import Need
from specviz.records import ProposalKind


def _make(setup: Setup) -> Drafter:
    foreign, codec = setup.parts.foreign, setup.parts.codec
    if foreign is None:
        raise setup.lacks(Need.FOREIGN_DRAFT)
    if codec is None:
        raise setup.lacks(Need.TEXT)
    met = meeting(codec, foreign.codec, foreign.model.device)
    source = ForeignSource(foreign, codec, setup.config.draft_length)
    shape = static_tree(setup)
    if setup.config.tree_kind is ProposalKind.DETERMINISTIC:
        codecs = codec, foreign.codec
        return ReencodedChain(source, shape, met, codecs, setup.config.draft_length)
    if met.shared_count == 0:
        raise InputError(
            f"foreign draft {foreign.info.name!r} must share a token with target "
            f"{setup.target.info.name!r}, got none: choose the rule deterministic"
        )
    return IntersectionDrafter(IntersectionSource(source, met), shape, met)


METHOD = Method(
    "cross-vocabulary",
    "Draft of another vocabulary",
    "A small model with a tokenizer of its own; its text is encoded again for the target.",
    (ProposalKind.DETERMINISTIC, ProposalKind.IID),
    _make,
    frozenset({Need.FOREIGN_DRAFT, Need.TEXT}),
    host_copies=2,
)
