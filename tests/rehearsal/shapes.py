"""Targets, drafts and heads of real shapes on the meta device, where weights take no memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.initialization import no_init_weights

from specviz.models.files.loading import LoadedModel
from specviz.models.heads import eagle_files, medusa_heads
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.llama.self_model import SelfDrafting
from specviz.models.memory_estimate import ModelSize
from specviz.models.parts import Parts
from specviz.records import ModelInfo
from tests.decoding.tiny_codecs import our_codec, their_codec
from tests.decoding.tiny_parts import HEADS, SHARES

CONTEXT = 2048
# Size of the two tiny vocabularies that the cross-vocabulary method matches.
TINY_VOCABULARY = 12


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a model of the Llama family."""

    name: str
    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int
    is_tied: bool = True

    @property
    def config(self) -> LlamaConfig:
        return LlamaConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_heads,
            head_dim=self.head_size,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=self.is_tied,
            attn_implementation="sdpa",
        )

    def size(self, parameters: int, dtype: torch.dtype) -> ModelSize:
        """Return the size of the model as the estimate of memory expects it."""
        cached = 2 * self.layers * self.key_heads * self.head_size * dtype.itemsize
        active = (6 * self.width + 3 * self.inner) * dtype.itemsize
        weights = parameters * dtype.itemsize
        return ModelSize(
            self.name, weights, True, parameters, cached, active, self.vocabulary, CONTEXT
        )


# The shapes of the bundled target and draft, SmolLM2-135M, Llama 3.1 8B and Llama 3.2 1B.
SMALL = Shape("11 M", 256, 768, 12, 4, 4, 64, 4096)
SMALL_DRAFT = Shape("1 M", 192, 512, 2, 3, 3, 64, 4096)
MIDDLE = Shape("135 M", 576, 1536, 30, 9, 3, 64, 49152)
LARGE = Shape("8 B", 4096, 14336, 32, 32, 8, 128, 128256, is_tied=False)
LARGE_DRAFT = Shape("1 B", 2048, 8192, 16, 32, 8, 64, 128256)
PAIRS = {
    "11 M": (SMALL, SMALL_DRAFT),
    "135 M": (MIDDLE, replace(SMALL_DRAFT, vocabulary=MIDDLE.vocabulary)),
    "8 B": (LARGE, LARGE_DRAFT),
}


def model_of(shape: Shape, dtype: torch.dtype, kind: Callable[[Any, ModelInfo], Any]) -> Any:
    """Return a model of that shape on the meta device."""
    kept = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"), no_init_weights():
            module = LlamaForCausalLM(shape.config)
    finally:
        torch.set_default_dtype(kept)
    count = sum(weight.numel() for weight in module.parameters())
    info = ModelInfo(
        shape.name,
        "LlamaForCausalLM",
        count,
        count * dtype.itemsize,
        shape.layers,
        shape.width,
        shape.vocabulary,
        CONTEXT,
    )
    return kind(module, info)


def parts_of(shape: Shape, target: Any, draft: Any) -> Parts:
    """Return the same parts as `tiny_parts.parts_for`, but of this shape."""
    is_tiny = shape.vocabulary == TINY_VOCABULARY
    return Parts(
        draft=draft,
        medusa=medusa_of(shape, target),
        eagle=eagle_of(shape, target),
        foreign=LoadedModel(draft, their_codec(TINY_VOCABULARY)) if is_tiny else None,
        codec=our_codec(TINY_VOCABULARY) if is_tiny else None,
        self_drafting=SelfDrafting(1, (1,)),
    )


class ShapedWeights(HeadWeights):
    """The weights of a head, which have shapes but no values."""

    def __init__(self, config: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
        self._subject = "a rehearsed head"
        self.config = config
        self.bytes = self.numbers = 0
        self._tensors = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}

    def tensor(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Implement `HeadWeights.tensor` without reading any values."""
        held = self._tensors.pop(name)
        assert tuple(held.shape) == shape, f"{name} of shape {tuple(held.shape)}, not {shape}"
        taken = torch.empty(shape, dtype=dtype, device=device)
        self.bytes += taken.nbytes
        self.numbers += taken.numel()
        return taken


def medusa_of(shape: Shape, target: Any) -> Any:
    """Return Medusa heads with one output matrix each, as they are published."""
    width, vocabulary = shape.width, shape.vocabulary
    config = {"heads": HEADS, "hidden_size": width, "vocab_size": vocabulary, "accuracies": SHARES}
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(HEADS):
        shapes[f"heads.{i}.residual.weight"] = (width, width)
        shapes[f"heads.{i}.residual.bias"] = (width,)
        shapes[f"heads.{i}.output.weight"] = (vocabulary, width)
    weights = ShapedWeights(config, shapes)
    return _opened(medusa_heads, medusa_heads.MedusaHeads.open, weights, target)


def eagle_of(shape: Shape, target: Any) -> Any:
    """Return an EAGLE head: a layer like the target's that reads the target's last hidden state."""
    width, inner = shape.width, shape.inner
    config = replace(shape, layers=1).config.to_dict()
    sizes = {"q": shape.heads, "k": shape.key_heads, "v": shape.key_heads}
    attention, mlp = "layers.0.self_attn", "layers.0.mlp"
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (width, 2 * width),
        f"{attention}.o_proj.weight": (width, shape.heads * shape.head_size),
        f"{mlp}.gate_proj.weight": (inner, width),
        f"{mlp}.up_proj.weight": (inner, width),
        f"{mlp}.down_proj.weight": (width, inner),
        "layers.0.post_attention_layernorm.weight": (width,),
    }
    for name, heads in sizes.items():
        shapes[f"{attention}.{name}_proj.weight"] = (heads * shape.head_size, width)
    return _opened(eagle_files, eagle_files.open_eagle_head, ShapedWeights(config, shapes), target)


def _opened(reader: Any, opened: Any, weights: ShapedWeights, target: Any) -> Any:
    """Open a head with these weights instead of those in a folder."""
    kept = reader.HeadWeights
    reader.HeadWeights = lambda title, folder: weights
    try:
        return opened(Path(), target)
    finally:
        reader.HeadWeights = kept
