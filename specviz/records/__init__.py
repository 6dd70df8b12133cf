"""Frozen values that describe one decoding run: its setting, its rounds, its result.

Imports the standard library only.
"""

from specviz.records.decoding_config import (
    MAX_DRAFT_LENGTH,
    MAX_NEW_TOKENS,
    MAX_SEED,
    MAX_TEMPERATURE,
    MAX_TREE_NODES,
    DecodingConfig,
    ProposalKind,
)
from specviz.records.fork_point import ForkPoint
from specviz.records.model_info import ModelInfo
from specviz.records.notes import (
    NOTE_TYPES,
    BatchRound,
    LookaheadState,
    NgramMatch,
    Note,
    SharedVocabulary,
    TreeBudget,
)
from specviz.records.rounds import (
    FORMAT_VERSION,
    BaselineStep,
    CacheLengths,
    DraftNode,
    DraftTree,
    ExtraKind,
    ExtraToken,
    FinishReason,
    Outcome,
    Position,
    Prefill,
    Round,
    Span,
    Trace,
    Verdict,
)

__all__ = [
    "BaselineStep",
    "BatchRound",
    "CacheLengths",
    "DecodingConfig",
    "DraftNode",
    "DraftTree",
    "ExtraKind",
    "ExtraToken",
    "FORMAT_VERSION",
    "FinishReason",
    "ForkPoint",
    "LookaheadState",
    "MAX_DRAFT_LENGTH",
    "MAX_NEW_TOKENS",
    "MAX_SEED",
    "MAX_TEMPERATURE",
    "MAX_TREE_NODES",
    "ModelInfo",
    "NOTE_TYPES",
    "NgramMatch",
    "Note",
    "Outcome",
    "Position",
    "Prefill",
    "ProposalKind",
    "Round",
    "SharedVocabulary",
    "Span",
    "Trace",
    "TreeBudget",
    "Verdict",
]
