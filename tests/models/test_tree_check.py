"""The check distinguishes rounding errors in half precision from ignored masks and positions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen3Config

from specviz.errors import InputError
from specviz.models.files.tree_check import checked_model
from specviz.models.language_model import ForwardOutput, LanguageModel
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_config import is_supported
from specviz.models.llama.llama_model import LlamaModel
from specviz.records import ModelInfo

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SIZES = dict(
    vocab_size=96,
    hidden_size=48,
    intermediate_size=64,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)


def module(family: str, layers: int, dtype: torch.dtype, spread: float = 0.1, seed: int = 0) -> Any:
    """Return a random model; `spread` is the standard deviation of its weights."""
    torch.manual_seed(seed)
    kind = {"llama": LlamaConfig, "qwen3": Qwen3Config}.get(family)
    shared = dict(num_hidden_layers=layers, initializer_range=spread)
    if kind is None:
        small = GPT2Config(vocab_size=96, n_embd=48, n_head=4, n_positions=64, n_layer=layers)
        small.initializer_range = spread
        return AutoModelForCausalLM.from_config(small).to(dtype).eval()
    extra = {"head_dim": 16} if family == "qwen3" else {}
    config = kind(**SIZES, **shared, **extra)
    return AutoModelForCausalLM.from_config(config).to(dtype).eval()


def info(held: Any) -> ModelInfo:
    config = held.config
    return ModelInfo(
        name="random",
        architecture=config.model_type,
        parameters=1,
        bytes=1,
        layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        context_length=64,
    )


# Deep models take most of the time. So `make test` uses only the deep model with the largest
# rounding errors.
DEPTHS_AND_DTYPES = [
    pytest.param(
        layers,
        dtype,
        id=f"{layers} layers, {dtype}",
        marks=() if layers == 2 or (layers, dtype) == (30, torch.bfloat16) else pytest.mark.slow,
    )
    for layers in (2, 30, 80)
    for dtype in DTYPES
]
# Standard deviations of the weights; 0.1 gives larger rounding errors than 0.02.
SPREADS = [pytest.param(0.02, marks=pytest.mark.slow), 0.1]


@pytest.mark.parametrize("layers, dtype", DEPTHS_AND_DTYPES)
@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
@pytest.mark.parametrize("spread", SPREADS)
def test_models_that_follow_a_tree_pass_at_any_depth_and_dtype(
    family: str, layers: int, dtype: torch.dtype, spread: float
) -> None:
    held = module(family, layers, dtype, spread)
    reference = LibraryModel(held, info(held))
    own = is_supported(held.config)
    model = checked_model(reference, lambda: LlamaModel(held, info(held)) if own else reference)
    assert isinstance(model, LlamaModel) is own


def noisy(held: Any, share: float) -> None:
    """Make a model add noise to its logits; forwards over other numbers of tokens get other noise.

    The noise is at most `share` times the largest logit.
    """
    original = held.lm_head.forward

    def forward(hidden: Tensor) -> Tensor:
        logits = original(hidden)
        random = torch.Generator().manual_seed(hidden.shape[1])
        noise = torch.randn(logits.shape, generator=random).clamp(-2, 2) / 2
        return logits + (noise * share * logits.abs().max()).to(logits.dtype)

    held.lm_head.forward = forward


def test_large_rounding_errors_pass_in_half_precision() -> None:
    held = module("llama", 4, torch.bfloat16)
    noisy(held, 0.06)
    reference = LibraryModel(held, info(held))
    assert checked_model(reference, lambda: reference) is reference


class IgnoresMask(LibraryModel):
    """A model that ignores the tree mask: each token sees all tokens in earlier cache slots."""

    def forward(
        self, token_ids: Tensor, position_ids: Tensor, cache: Any, tree_mask: Any = None, **how: Any
    ) -> ForwardOutput:
        return super().forward(token_ids, position_ids, cache, None, **how)


class IgnoresPositions(LibraryModel):
    """A model that uses each token's cache slot as its position."""

    def forward(
        self, token_ids: Tensor, position_ids: Tensor, cache: Any, tree_mask: Any = None, **how: Any
    ) -> ForwardOutput:
        slots = cache.length + torch.arange(token_ids.shape[1])[None]
        return super().forward(token_ids, slots, cache, tree_mask, **how)


class LooksAhead(LibraryModel):
    """A model whose tokens also see later tokens."""

    def forward(
        self, token_ids: Tensor, position_ids: Tensor, cache: Any, tree_mask: Any = None, **how: Any
    ) -> ForwardOutput:
        count = token_ids.shape[1]
        seen = torch.ones((count, count), dtype=torch.bool)
        return super().forward(token_ids, position_ids, cache, seen, **how)

    def plain_logits(self, token_ids: Tensor) -> Tensor:
        places = torch.arange(token_ids.shape[1])[None]
        return self.forward(token_ids, places, self.new_cache(64)).logits


class SeesItsNeighbour(LibraryModel):
    """A model that follows the mask, except that each token always sees the slot before its own."""

    def forward(
        self, token_ids: Tensor, position_ids: Tensor, cache: Any, tree_mask: Any = None, **how: Any
    ) -> ForwardOutput:
        if tree_mask is not None:
            count = len(tree_mask)
            tree_mask = tree_mask | torch.eye(count, dtype=torch.bool).roll(-1, 1).tril()
            tree_mask[1:, :-1] |= torch.eye(count - 1, dtype=torch.bool)
        return super().forward(token_ids, position_ids, cache, tree_mask, **how)


DISOBEDIENT = {
    IgnoresMask: "ignores the mask that says what each token sees",
    IgnoresPositions: "counts positions itself and ignores those of a draft tree",
    LooksAhead: "lets a token see the tokens after it, as an encoder does",
    SeesItsNeighbour: "does not follow the positions and the mask",
}


@pytest.mark.parametrize("layers, dtype", DEPTHS_AND_DTYPES)
@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
@pytest.mark.parametrize("kind", DISOBEDIENT)
def test_models_that_ignore_mask_or_positions_are_refused_at_every_dtype_and_depth(
    kind: type[LibraryModel], family: str, layers: int, dtype: torch.dtype
) -> None:
    held = module(family, layers, dtype)
    model: LanguageModel = kind(held, info(held))
    assert isinstance(model, LibraryModel)
    with pytest.raises(InputError, match=DISOBEDIENT[kind]):
        checked_model(model, lambda: model)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_layer_loop_that_ignores_positions_is_refused_in_every_dtype(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.models.llama.layer.rotate", lambda heads, angles, out: None)
    held = module("llama", 30, dtype)
    with pytest.raises(InputError, match="does not follow the positions and the mask"):
        checked_model(LibraryModel(held, info(held)), lambda: LlamaModel(held, info(held)))
