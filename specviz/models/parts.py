"""What a drafting method may need beside the target, and what a loaded pair offers of it.

Knows nothing of the methods and nothing of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from specviz.models.files.loading import LoadedModel
from specviz.models.heads.eagle_head import EagleHead
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.models.language_model import LanguageModel
from specviz.models.llama.self_model import SelfDrafting as SelfDrafting
from specviz.models.text.text_codec import TextCodec


class Need(Enum):
    """Something that a method cannot run without."""

    DRAFT = "draft"  # a small model with the target's vocabulary
    LAYERS = "layers"  # a target whose layers can be run one by one
    MEDUSA = "medusa-heads"
    EAGLE = "eagle-head"
    FOREIGN_DRAFT = "foreign-draft"  # a small model with a vocabulary of its own
    TEXT = "text"  # the target's tokenizer

    @property
    def title(self) -> str:
        """What a pair has where it can give this."""
        return _TITLES[self]


_TITLES = {
    Need.DRAFT: "draft model",
    Need.LAYERS: "target whose layers can be run one by one",
    Need.MEDUSA: "Medusa heads",
    Need.EAGLE: "EAGLE head",
    Need.FOREIGN_DRAFT: "draft model with a vocabulary of its own",
    Need.TEXT: "tokenizer",
}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a pair offers beside its target; None where it was not needed or does not exist."""

    draft: LanguageModel | None = None
    medusa: MedusaHeads | None = None
    eagle: EagleHead | None = None
    foreign: LoadedModel | None = None
    codec: TextCodec | None = None
    self_drafting: SelfDrafting | None = None
