"""Frozen values that describe one decoding run: its setting, its rounds, its result.

Imports the standard library only.
"""

from specviz.records.decoding_config import MAX_TREE_NODES, DecodingConfig
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
from specviz.records.settings import (
    DECODING,
    MAX_DRAFT_LENGTH,
    MAX_NEW_TOKENS,
    MAX_SEED,
    MAX_TEMPERATURE,
    SAMPLING,
    SETTINGS,
    Part,
    ProposalKind,
    RunSetting,
    ValueType,
    read_integers,
)

__all__ = [
    "BaselineStep",
    "BatchRound",
    "CacheLengths",
    "DECODING",
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
    "Part",
    "Position",
    "Prefill",
    "ProposalKind",
    "Round",
    "SAMPLING",
    "SETTINGS",
    "RunSetting",
    "SharedVocabulary",
    "Span",
    "Trace",
    "TreeBudget",
    "ValueType",
    "Verdict",
    "read_integers",
]
