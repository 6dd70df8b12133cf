"""Any causal model with full or sliding attention, through the transformers library's own forward.

Knows nothing of loading, text or drafting. It is the reference that the faster paths are
compared with. Letters: B rows, N query tokens, L cached tokens, S slots that a tree mask covers,
V vocabulary, W hidden size.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
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


class LibraryModel(LocalModel):
    """A transformers model behind the `LanguageModel` interface."""

    def __init__(self, module: PreTrainedModel, info: ModelInfo) -> None:
        """Raises InputError where the module keeps its output matrix to itself."""
        super().__init__(info, module.get_input_embeddings().weight)
        self._module = module.eval()
        self._matrix = module.get_output_embeddings()
        if self._matrix is None:
            raise InputError(
                f"model {info.name!r} ({info.architecture}) has no output matrix that can be "
                "reached: choose another model"
            )
        self._tap = _OutputTap(self._matrix)
        self._windows = Windows.of(module.config)
        self._is_eager = module.config._attn_implementation == "eager"

    @property
    def window(self) -> int | None:
        """How many tokens the layers that slide see; None where all see everything."""
        return self._windows.size

    @contextmanager
    def narrowed(self, window: int) -> Iterator[None]:
        """For a while the layers that slide see fewer tokens: `plain_logits` and forwards alike."""
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
        """See `LanguageModel.forward`."""
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
        """See `BatchedModel.forward_rows`."""
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
        last: Tensor | None,  # [B]
        feature_layers: Sequence[int],
    ) -> ForwardOutput:
        taps, final = FeatureTaps(feature_layers), self._info.layers
        with self._tap.watching(last) as watch:
            output = self._module(
                input_ids=token_ids,
                attention_mask=self._masks(position_ids, slots, tree_mask),
                position_ids=position_ids,
                past_key_values=_LibraryCache(slots),
                use_cache=True,
                output_hidden_states=any(layer < final for layer in taps.layers),
            )
        for layer, state in enumerate((output.hidden_states or ())[:final]):
            taps.offer(layer, state)
        if watch.features is not None:
            taps.offer(final, watch.features)
        return ForwardOutput(output.logits[..., : self._info.vocab_size], taps.joined())

    def _masks(
        self, position_ids: Tensor, slots: PlacedSlots, tree_mask: Tensor | None
    ) -> Tensor | dict[str, Tensor]:
        """What each token sees, [B or 1, 1, N, E]; in a mixed model for each kind of layer."""
        visible = slots.visible(tree_mask, position_ids.device)
        seen = visible if visible.ndim == 4 else visible[None, None]
        window = self.window
        if window is None:
            return self._additive(seen)
        away = position_ids[..., None] - slots.place(position_ids)  # [B, N, E]
        near = self._additive(seen & (away < window)[:, None])
        return {FULL: self._additive(seen), SLIDING: near} if self._windows.by_kind else near

    def _additive(self, seen: Tensor) -> Tensor:
        """Attention that the library computes itself adds its mask to the scores."""
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
        """The module's forward without cache, mask or positions: what all else must equal."""
        logits: Tensor = self._module(input_ids=token_ids, use_cache=False).logits
        return logits[..., : self._info.vocab_size]


class _Watch:
    """What one forward sends into the output matrix, and which tokens it lets through."""

    def __init__(self, last: Tensor | None) -> None:
        self.last = last  # [B], the only token of each row to pass; None: all
        self.features: Tensor | None = None  # [B, N, W]


class _OutputTap:
    """Stands before the output matrix; sessions share the module, so each thread has its watch."""

    def __init__(self, matrix: Any) -> None:
        self._watches: dict[int, _Watch] = {}  # by thread
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


class _LibraryCache(Cache):  # type: ignore[misc]
    """The slots of one forward in the shape that the library's layers expect."""

    def __init__(self, slots: Slots) -> None:
        super().__init__(layers=[])
        self._slots = slots

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return self._slots.write(layer, torch.cat((keys, values), dim=1))

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._slots.end - self._slots.count

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self._slots.end, 0


class SpreadModel(LibraryModel):
    """What goes in and comes out lies where the input embedding does."""

    def new_cache(self, capacity: int) -> SpreadCache:
        return SpreadCache(self._info.layers, capacity)

    def forward(
        self,
        token_ids: Tensor,  # [B, N]
        position_ids: Tensor,  # [B, N]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        """See `LanguageModel.forward`."""
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
    """One cache a layer, each on the device of its first write."""

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
    """The model, or None where rows have to run one by one: on several devices, for one."""
    can = hasattr(model, "forward_rows") and not isinstance(model, SpreadModel)
    return cast(BatchedModel, model) if can else None
