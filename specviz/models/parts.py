"""The parts that a drafting method may need besides the target.

This module knows nothing about the methods or about files.
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
    """A part that a drafting method needs besides the target."""

    DRAFT = "draft"  # a small draft model with the target's vocabulary
    LAYERS = "layers"  # a target whose layers can run one by one
    MEDUSA = "medusa-heads"
    EAGLE = "eagle-head"
    FOREIGN_DRAFT = "foreign-draft"  # a small draft model with another vocabulary than the target's
    TEXT = "text"  # the target's tokenizer

    @property
    def title(self) -> str:
        """Return the name of the part as messages show it."""
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
    """The parts of a pair besides its target that one run needs, loaded.

    A part that the run does not need is None.
    """

    draft: LanguageModel | None = None
    medusa: MedusaHeads | None = None
    eagle: EagleHead | None = None
    foreign: LoadedModel | None = None
    codec: TextCodec | None = None
    self_drafting: SelfDrafting | None = None
