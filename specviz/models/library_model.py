"""A causal language model that uses the forward pass of transformers.

The model supports full attention and sliding windows. It is the reference for faster models. This
module knows nothing about loading, text or drafting. In shapes, B is the number of rows, N the
number of query tokens, E the number of slots up to the last query token, S the number of slots that
a tree mask covers, G the number of key-value heads, D the head size, V the size of the vocabulary
and W the hidden size.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor
from transformers.cache_utils import Cache

from specviz.errors import InputError
from specviz.models.cache import (
    PlacedSlots,
    RaggedCache,
    RaggedSlots,
    SlotCache,
    Slots,
    StraightSlots,
)
from specviz.models.feature_taps import FeatureTaps
from specviz.models.language_model import (
    BatchedModel,
    ForwardOutput,
    KeyValueCache,
    LanguageModel,
    RaggedKeyValueCache,
)
from specviz.models.local_model import LocalModel
from specviz.models.windows import FULL, SLIDING, Windows
from specviz.records import ModelInfo

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def attention_of(config: Any) -> str:
    """Return the fastest attention in transformers that accepts our masks for this model."""
    kind: Any = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    return "sdpa" if kind._supports_sdpa else "eager"


class LibraryModel(LocalModel):
    """A transformers module with the `LanguageModel` interface."""

    def __init__(self, module: PreTrainedModel, info: ModelInfo) -> None:
        """Wrap a module.

        Raises InputError if the module does not give access to its output matrix.
        """
        super().__init__(info, module)
        self._module = module.eval()
        self._matrix = module.get_output_embeddings()
        if self._matrix is None:
            raise InputError(
                f"model {info.name!r} ({info.architecture}) has no output matrix that specviz can "
                "find: choose another model"
            )
        self._tap = _OutputTap(self._matrix)
        self._windows = Windows.of(module.config)
        self._is_eager = module.config._attn_implementation == "eager"
        self._found: Stored | None = None

    @property
    def window(self) -> int | None:
        """Return the size of the sliding window, or None if no layer has one."""
        return self._windows.size

    @contextmanager
    def narrowed(self, window: int) -> Iterator[None]:
        """Make the sliding window of `plain_logits` and `forward` smaller inside this context."""
        config, kept = self._module.config, self._windows
        config.sliding_window, self._windows = window, replace(kept, sizes=frozenset({window}))
        try:
            yield
        finally:
            config.sliding_window, self._windows = kept.size, kept

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [B, N]
        position_ids: Tensor,  # [B, N]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        assert isinstance(cache, SlotCache)
        rows, count = token_ids.shape
        self._check(cache, count, tree_mask)
        slots = StraightSlots(cache, cache.length, rows, count)
        last = torch.full((rows,), count - 1, device=self.device) if last_only else None
        output = self._run(token_ids, position_ids, slots, tree_mask, last, feature_layers)
        cache.advance(count)
        return output

    @torch.inference_mode()
    def forward_rows(
        self,
        token_ids: Tensor,  # [B, N]
        counts: Sequence[int],
        position_ids: Tensor,  # [B, N]
        cache: RaggedKeyValueCache,
        tree_mask: Tensor | None = None,  # [B, N, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        assert isinstance(cache, RaggedCache)
        self._check_rows(cache, counts, token_ids.shape[1], tree_mask)
        slots = RaggedSlots(cache, counts, token_ids.shape[1], self.device)
        last = slots.last if last_only else None
        output = self._run(token_ids, position_ids, slots, tree_mask, last, feature_layers)
        cache.advance(counts)
        return output

    def _run(
        self,
        token_ids: Tensor,
        position_ids: Tensor,
        slots: PlacedSlots,
        tree_mask: Tensor | None,
        # [B], for each row the index of the only token whose logits are needed; None means all
        # tokens
        last: Tensor | None,
        feature_layers: Sequence[int],
    ) -> ForwardOutput:
        taps, final = FeatureTaps(feature_layers), self._info.layers
        with self._tap.watching(last) as watch:
            output = self._module(
                input_ids=token_ids,
                attention_mask=self._masks(position_ids, slots, tree_mask),
                position_ids=position_ids,
                past_key_values=_LibraryCache(slots, self._stored.slot_shape),
                use_cache=True,
                output_hidden_states=any(layer < final for layer in taps.layers),
            )
        for layer, state in enumerate((output.hidden_states or ())[:final]):
            taps.offer(layer, state)
        if watch.features is not None:
            taps.offer(final, watch.features)
        return ForwardOutput(output.logits[..., : self._info.vocab_size], taps.joined())

    def new_cache(self, capacity: int) -> SlotCache:
        return SlotCache(self._stored.layers, capacity)

    def new_ragged_cache(self, rows: int, capacity: int) -> RaggedCache:
        return RaggedCache(self._stored.layers, rows, capacity)

    @property
    def _stored(self) -> Stored:
        """Return the shapes of what the module writes to its cache.

        The first call measures them.
        """
        if self._found is None:
            found = self.stored()
            if not found.keys or found.tokens != 1:
                raise ValueError("the cache must get one slot for each token")
            self._found = found
        return self._found

    @property
    def takes_cache(self) -> bool:
        """Return whether the forward pass of a transformers module accepts a cache."""
        return "past_key_values" in signature(self._module.forward).parameters

    @torch.inference_mode()
    def stored(self) -> Stored:
        """Run one token, and return the shapes of what the module writes to a cache."""
        return stored_by(self._module, self._masks_of(torch.ones((1, 1, 1, 1), dtype=torch.bool)))

    def _masks_of(self, seen: Tensor) -> Tensor | dict[str, Tensor]:
        mask = self._additive(seen.to(self.device))
        return {FULL: mask, SLIDING: mask} if self._windows.by_kind and self.window else mask

    def _masks(
        self, position_ids: Tensor, slots: PlacedSlots, tree_mask: Tensor | None
    ) -> Tensor | dict[str, Tensor]:
        """Return the attention masks [B or 1, 1, N, E].

        If the module wants a separate mask for each kind of layer, with or without a sliding
        window, return a dictionary: kind of layer -> mask.
        """
        visible = slots.visible(tree_mask, position_ids.device)
        seen = visible if visible.ndim == 4 else visible[None, None]
        window = self.window
        if window is None:
            return self._additive(seen)
        # [B, N, E], the position of each token minus the position of each slot
        away = position_ids[..., None] - slots.place(position_ids)
        near = self._additive(seen & (away < window)[:, None])
        return {FULL: self._additive(seen), SLIDING: near} if self._windows.by_kind else near

    def _additive(self, seen: Tensor) -> Tensor:
        """Convert a mask to numbers to add to attention scores, if the module needs such a mask."""
        if not self._is_eager:
            return seen
        least = torch.finfo(self.dtype).min
        return torch.zeros_like(seen, dtype=self.dtype).masked_fill_(~seen, least)

    @torch.inference_mode()
    def embed(self, token_ids: Tensor) -> Tensor:  # [N] -> [N, W]
        embeddings: Tensor = self._module.get_input_embeddings()(token_ids)
        return embeddings

    @torch.inference_mode()
    def output(self, features: Tensor) -> Tensor:  # [N, W] -> [N, V]
        logits: Tensor = self._matrix(features)
        return logits[..., : self._info.vocab_size]

    @torch.inference_mode()
    def plain_logits(self, token_ids: Tensor) -> Tensor:  # [B, N] -> [B, N, V]
        """Return the logits of a forward pass without cache, mask or positions.

        These logits are the reference: every other forward pass must give the same ones, except for
        rounding.
        """
        logits: Tensor = self._module(input_ids=token_ids, use_cache=False).logits
        return logits[..., : self._info.vocab_size]


class _Watch:
    """The data of one forward pass for `_OutputTap`: the tokens that need logits, and features."""

    def __init__(self, last: Tensor | None) -> None:
        # [B], for each row the index of the only token whose logits are needed; None means all
        # tokens
        self.last = last
        self.features: Tensor | None = None  # [B, N, W], the input of the output matrix


class _OutputTap:
    """A hook that runs before the output matrix.

    It stores the hidden states of all tokens as features. It then drops the tokens whose logits are
    not needed, so that the output matrix runs only for the others.

    Each thread that runs the module has a `_Watch` of its own.
    """

    def __init__(self, matrix: Any) -> None:
        # Number of a thread -> the data of the forward pass that it runs.
        self._watches: dict[int, _Watch] = {}
        matrix.register_forward_pre_hook(self._pass)

    @contextmanager
    def watching(self, last: Tensor | None) -> Iterator[_Watch]:
        watch = self._watches[threading.get_ident()] = _Watch(last)
        try:
            yield watch
        finally:
            del self._watches[threading.get_ident()]

    def _pass(self, matrix: Any, inputs: tuple[Tensor]) -> tuple[Tensor] | None:
        watch = self._watches.get(threading.get_ident())
        if watch is None:
            return None
        watch.features = features = inputs[0]
        if watch.last is None:
            return None
        rows = torch.arange(features.shape[0], device=features.device)
        return (features[rows, watch.last.to(features.device)][:, None],)


@dataclass(frozen=True, slots=True)
class Stored:
    """The shapes of what a module writes to its cache for one token.

    `keys` has the shape (heads, width) of the keys of each layer that uses the cache, by the
    layer's index. `values` has the same for values. In latent attention keys are wider than values,
    and in some models the shapes differ between layers.
    `tokens` is the number of cache slots for the token.
    """

    keys: dict[int, tuple[int, int]]
    values: dict[int, tuple[int, int]]
    tokens: int

    @property
    def slot_shape(self) -> tuple[int, int]:
        """Return a shape (heads, width) that is large enough for keys and values of every layer."""
        heads, widths = zip(*self.keys.values(), *self.values.values(), strict=True)
        return max(heads), max(widths)

    @property
    def layers(self) -> int:
        """Return how many layers a cache of this module has.

        Some model classes run their layers several times. The caches of these classes have more
        layers than the model.
        """
        return max(self.keys) + 1

    @property
    def numbers(self) -> int:
        """Return how many numbers all layers together write to the cache for one token."""
        shapes = (*self.keys.values(), *self.values.values())
        return self.tokens * sum(heads * width for heads, width in shapes)


def stored_by(module: Any, mask: Any = None) -> Stored:
    """Run a token through a module; return the shapes of what it writes to its cache."""
    device = module.get_input_embeddings().weight.device
    token, cache = torch.zeros((1, 1), dtype=torch.long, device=device), _ObservedCache()
    module(
        input_ids=token,
        attention_mask=mask,
        position_ids=token,
        past_key_values=cache,
        use_cache=True,
    )
    return Stored(cache.keys, cache.values, cache.tokens)


class _ObservedCache(Cache):  # type: ignore[misc]
    """A cache that records the shapes of what a module writes to it, and stores nothing."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.keys: dict[int, tuple[int, int]] = {}
        self.values: dict[int, tuple[int, int]] = {}
        self.tokens = 0

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        self.keys[layer] = keys.shape[1], keys.shape[3]
        self.values[layer] = values.shape[1], values.shape[3]
        self.tokens = max(self.tokens, keys.shape[2])
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return query_length, 0


class _LibraryCache(Cache):  # type: ignore[misc]
    """The cache slots of one forward pass, in the form that transformers expects.

    All slots have the same `shape` (heads, width). Smaller keys and values are padded with zeros in
    the cache, and read back without the padding.
    """

    def __init__(self, slots: Slots, shape: tuple[int, int]) -> None:
        super().__init__(layers=[])
        self._slots = slots
        self._shape = shape

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        joined = torch.cat((self._padded(keys), self._padded(values)), dim=1)
        all_keys, all_values = self._slots.write(layer, joined)
        return (
            all_keys[:, : keys.shape[1], :, : keys.shape[3]],
            all_values[:, : values.shape[1], :, : values.shape[3]],
        )

    def _padded(self, part: Tensor) -> Tensor:  # [B, G, N, D]
        heads, width = self._shape
        if part.shape[1] == heads and part.shape[3] == width:
            return part
        return F.pad(part, (0, width - part.shape[3], 0, 0, 0, heads - part.shape[1]))

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._slots.end - self._slots.count

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self._slots.end, 0


class SpreadModel(LibraryModel):
    """A model on several GPUs. Inputs and results are on the GPU with the input embedding."""

    def new_cache(self, capacity: int) -> SpreadCache:
        return SpreadCache(self._stored.layers, capacity)

    def forward(
        self,
        token_ids: Tensor,  # [B, N]
        position_ids: Tensor,  # [B, N]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        output = super().forward(
            token_ids, position_ids, cache, tree_mask, last_only, feature_layers
        )
        features = output.features
        return ForwardOutput(
            output.logits.to(self.device), None if features is None else features.to(self.device)
        )

    def output(self, features: Tensor) -> Tensor:  # [N, W] -> [N, V]
        return super().output(features).to(self.device)

    def plain_logits(self, token_ids: Tensor) -> Tensor:  # [B, N] -> [B, N, V]
        return super().plain_logits(token_ids).to(self.device)


class SpreadCache(SlotCache):
    """A KV cache that keeps the keys and values of each layer on the GPU of that layer."""

    def __init__(self, layers: int, capacity: int) -> None:
        super().__init__(layers, capacity)
        self._parts = [SlotCache(1, capacity) for _ in range(layers)]

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self._parts)

    def held(self, count: int) -> tuple[Tensor, ...]:
        return tuple(part.held(count)[0] for part in self._parts)

    def write(self, layer: int, keys_values: Tensor, start: int) -> tuple[Tensor, Tensor]:
        return self._parts[layer].write(0, keys_values, start)

    def advance(self, count: int) -> None:
        super().advance(count)
        for part in self._parts:
            part.advance(count)

    def keep(self, start: int, slots: Sequence[int]) -> None:
        super().keep(start, slots)
        for part in self._parts:
            part.keep(start, slots)


def as_batched(model: LanguageModel) -> BatchedModel | None:
    """Return the model if it can run several rows at once, otherwise None.

    A model on several GPUs cannot run several rows.
    """
    can = hasattr(model, "forward_rows") and not isinstance(model, SpreadModel)
    return cast(BatchedModel, model) if can else None
