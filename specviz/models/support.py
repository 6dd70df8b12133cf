"""Which models can verify a draft tree: full attention, positions and masks as they are told.

Knows nothing of files. The configuration is judged first, before any weight is read; a short
forward of the loaded model then shows whether it obeys positions and masks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import get_layer_types_and_kwargs
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from specviz.errors import InputError
from specviz.models.language_model import LanguageModel

_RECURRENT = ("mamba", "rwkv", "xlstm", "recurrent", "retnet", "lfm", "zamba", "reformer")
_SIBLINGS = 12


def check_config(name: str, config: Any) -> None:
    """Raise InputError where the configuration shows that a draft cannot be rolled back."""
    kind = str(config.model_type)
    if config.is_encoder_decoder:
        raise InputError(f"model {name!r} is an encoder-decoder ({kind}): {_CHOOSE}")
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise InputError(f"model {name!r} is no causal language model ({kind}): {_CHOOSE}")
    if getattr(config, "quantization_config", None) is not None:
        raise InputError(f"model {name!r} has quantised weights: choose the plain model")
    if any(word in kind for word in _RECURRENT):
        raise InputError(f"model {name!r} is recurrent ({kind}), {_NO_ROLLBACK}")
    others = sorted(_layer_kinds(config) - {"full_attention"})
    if others:
        raise InputError(f"model {name!r} has {', '.join(others)} layers ({kind}), {_NO_ROLLBACK}")


_CHOOSE = "choose a decoder-only model with full attention"
_NO_ROLLBACK = f"which cannot take back rejected tokens: {_CHOOSE}"


def _layer_kinds(config: Any) -> set[str]:
    kinds, _ = get_layer_types_and_kwargs(config)
    local = {"local_attention"} if "local" in getattr(config, "attention_layers", ()) else set()
    return {str(kind) for kind in kinds} | local


@torch.inference_mode()
def check_tree_forward(model: LanguageModel) -> None:
    """Raise InputError unless a node of a small tree gets the logits of its own path.

    The tree is a root with many children; the last child stands far from the root but one position
    behind it, so a model that ignores positions or masks gives itself away.
    """
    ids = torch.arange(2 + _SIBLINGS, device=model.device)[None] % model.info.vocab_size
    prompt, root, last = ids[:, :1], ids[:, 1:2], ids[:, -1:]
    path = _logits(model, [prompt, torch.cat([root, last], dim=1)], None)
    tree = _logits(model, [prompt, ids[:, 1:]], _star(1 + _SIBLINGS).to(model.device))
    tolerance = 1e-3 if model.dtype == torch.float32 else 5e-2
    if not bool((path - tree).abs().max() <= tolerance * path.abs().max()):
        raise InputError(
            f"model {model.info.name!r} ({model.info.architecture}) does not follow the positions "
            f"and the mask of a draft tree: {_CHOOSE}"
        )


def _star(count: int) -> Tensor:  # [N, N]: a root, and children that see only it and themselves
    mask = torch.eye(count, dtype=torch.bool)
    mask[:, 0] = True
    return mask


def _logits(model: LanguageModel, parts: list[Tensor], star: Tensor | None) -> Tensor:  # [V]
    cache = model.new_cache(64)
    model.forward(parts[0], torch.zeros_like(parts[0]), cache)
    positions = 1 + torch.arange(parts[1].shape[1], device=model.device)[None]
    if star is not None:
        positions = positions.clamp(max=2)
    return model.forward(parts[1], positions, cache, star).logits[0, -1].float()
