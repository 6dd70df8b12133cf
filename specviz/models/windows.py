"""Layers that see the last tokens of the text only, as a configuration tells of them.

A sliding window is a mask over the cache: where that keeps all slots, rejected tokens are taken
back as easily as with full attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers.cache_utils import get_layer_types_and_kwargs

FULL = "full_attention"
SLIDING = "sliding_attention"


@dataclass(frozen=True, slots=True)
class Windows:
    """What layers see: `kinds` of all of them, and how many tokens one that slides sees.

    A token counts as the first of its own window. `sizes` has several values where windows differ,
    and None where a layer is said to slide over everything. `by_kind`: the library's forward takes
    a mask for each kind of layer, else one mask for all of them.
    """

    kinds: frozenset[str]
    sizes: frozenset[int | None]
    by_kind: bool

    @classmethod
    def of(cls, config: Any) -> Windows:
        if not hasattr(config, "num_hidden_layers"):
            return cls(frozenset({"unknown"}), frozenset(), False)
        kinds, details = get_layer_types_and_kwargs(config)
        found = {str(kind) for kind in kinds}
        if "local" in getattr(config, "attention_layers", ()):
            found.add("local_attention")
        pairs = zip(kinds, details, strict=False)  # layer_types may name layers that were cut off
        sizes = frozenset(detail.get("sliding_window") for kind, detail in pairs if kind == SLIDING)
        named = getattr(config, "layer_types", None)
        return cls(frozenset(found), sizes, named is not None)

    @property
    def size(self) -> int | None:
        """Of the layers that slide; None where all see everything."""
        return next(iter(self.sizes), None)
