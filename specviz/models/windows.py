"""The sliding windows of a model's layers, as its configuration describes them.

A sliding window is a mask over the cache. The cache keeps all slots, so rejected tokens can be
dropped as easily as with full attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers.cache_utils import get_layer_types_and_kwargs

FULL = "full_attention"
SLIDING = "sliding_attention"
# name of layers without cached keys: they have no attention, or they read another layer's keys
_STORES_NOTHING = "dummy"


@dataclass(frozen=True, slots=True)
class Windows:
    """The kinds of a model's layers, and the size of its sliding windows.

    A window includes the token itself. `sizes` has several values if the windows of layers differ.
    `sizes` contains None if the size of some sliding window is unknown. `by_kind` means that
    transformers expects a separate mask for each kind of layer, instead of one for all.
    """

    kinds: frozenset[str]
    sizes: frozenset[int | None]
    by_kind: bool

    @classmethod
    def of(cls, config: Any) -> Windows:
        if not hasattr(config, "num_hidden_layers"):
            return cls(frozenset({"unknown"}), frozenset(), False)
        kinds, details = get_layer_types_and_kwargs(config)
        found = {str(kind) for kind in kinds} - {_STORES_NOTHING}
        # names of the list of kinds of layers in GPT-Neo and in Reformer
        for names in ("attention_layers", "attn_layers"):
            others = set(getattr(config, names, None) or ()) & {"local", "lsh"}
            found |= {f"{each}_attention" for each in others}
        # `kinds` comes from the field layer_types, which may name layers that were removed from the
        # model. So `kinds` may be longer than `details`.
        pairs = zip(kinds, details, strict=False)
        sizes = frozenset(detail.get("sliding_window") for kind, detail in pairs if kind == SLIDING)
        named = getattr(config, "layer_types", None)
        return cls(frozenset(found), sizes, named is not None)

    @property
    def size(self) -> int | None:
        """Return the size of the sliding window, or None if all layers have full attention."""
        return next(iter(self.sizes), None)
