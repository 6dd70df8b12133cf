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
from specviz.models.library_model import LibraryModel

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
def check_tree_forward(model: LibraryModel) -> None:
    """Raise InputError unless every node of a small tree gets the logits of its own path.

    The tree is a root with many children; the last child stands far from the root but one position
    behind it, so a model that ignores positions or masks, or looks ahead, gives itself away.
    """
    try:
        is_obedient = _follows_a_tree(model)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a model that takes no such mask fails in its own way
        is_obedient = False
    if not is_obedient:
        raise InputError(
            f"model {model.info.name!r} ({model.info.architecture}) does not follow the positions "
            f"and the mask of a draft tree: {_CHOOSE}"
        )


def _follows_a_tree(model: LibraryModel) -> bool:
    ids = torch.arange(2 + _SIBLINGS, device=model.device)[None] % model.info.vocab_size
    path = model.plain_logits(torch.cat((ids[:, :2], ids[:, -1:]), dim=1))
    tree = _star_logits(model, ids)
    tolerance = 1e-3 if model.dtype == torch.float32 else 5e-2
    return bool((path - tree).abs().max() <= tolerance * path.abs().max())


def _star_logits(model: LibraryModel, ids: Tensor) -> Tensor:  # [1, 3, V]
    """Logits after the first token, the root behind it, and the last of the root's children."""
    cache = model.new_cache(ids.shape[1])
    first = model.forward(ids[:, :1], torch.zeros_like(ids[:, :1]), cache).logits
    positions = torch.arange(1, ids.shape[1], device=ids.device).clamp(max=2)[None]
    star = torch.eye(ids.shape[1] - 1, dtype=torch.bool, device=ids.device)
    star[:, 0] = True
    rest = model.forward(ids[:, 1:], positions, cache, star).logits
    return torch.cat((first, rest[:, :1], rest[:, -1:]), dim=1)
