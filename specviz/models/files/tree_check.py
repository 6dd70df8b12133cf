"""Which models can verify a draft tree: full attention, positions and masks as they are told.

Knows nothing of files. The configuration is judged first, before any weight is read; a short
forward of the loaded model then shows whether it obeys positions and masks.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import get_layer_types_and_kwargs
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from specviz.errors import InputError
from specviz.models.language_model import LanguageModel
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
    if config.get_text_config(decoder=True) is not config:
        raise InputError(f"model {name!r} reads more than text ({kind}): {_CHOOSE}")
    if getattr(config, "quantization_config", None) is not None:
        raise InputError(f"model {name!r} has quantised weights: choose the plain model")
    if any(word in kind for word in _RECURRENT):
        raise InputError(f"model {name!r} is recurrent ({kind}), {_NO_ROLLBACK}")
    others = sorted(_layer_kinds(config) - {"full_attention"})
    if others:
        raise InputError(f"model {name!r} has {', '.join(others)} layers ({kind}), {_NO_ROLLBACK}")
    length = getattr(config, "max_position_embeddings", None)
    if length is not None and (type(length) is not int or length < 1):
        shown = reprlib.repr(length)
        raise InputError(f"model {name!r} must have max_position_embeddings >= 1, got {shown}")


_CHOOSE = "choose a decoder-only model with full attention"
_NO_ROLLBACK = f"which cannot take back rejected tokens: {_CHOOSE}"


def _layer_kinds(config: Any) -> set[str]:
    if not hasattr(config, "num_hidden_layers"):
        return {"unknown"}
    kinds, _ = get_layer_types_and_kwargs(config)
    local = {"local_attention"} if "local" in getattr(config, "attention_layers", ()) else set()
    return {str(kind) for kind in kinds} | local


def checked_model(reference: LibraryModel, build: Callable[[], LanguageModel]) -> LanguageModel:
    """What `build` makes, which may take the reference's weights over and must equal it.

    Raises InputError unless every node of a small tree gets the reference's logits of its own path.
    The tree is a root with many children; the last child stands far from the root but one position
    behind it, so a model that ignores positions or masks, or looks ahead, gives itself away.
    """
    try:
        path = _path_logits(reference)
        model = build()
        tree = _star_logits(model)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a model that takes no such mask fails in its own way
        raise _disobedient(reference) from None
    if not path.isfinite().all():
        raise InputError(
            f"model {model.info.name!r} must give finite logits, got NaN or infinity: its weights "
            f"are broken or too large for {model.dtype}; try float32"
        )
    tolerance = 1e-3 if model.dtype == torch.float32 else 5e-2
    if not (path - tree).abs().max() <= tolerance * path.abs().max():
        raise _disobedient(reference)
    return model


def _disobedient(model: LibraryModel) -> InputError:
    return InputError(
        f"model {model.info.name!r} ({model.info.architecture}) does not follow the positions "
        f"and the mask of a draft tree: {_CHOOSE}"
    )


def _token_ids(model: LanguageModel) -> Tensor:  # [1, 2 + _SIBLINGS]
    return torch.arange(2 + _SIBLINGS, device=model.device)[None] % model.info.vocab_size


def _path_logits(model: LibraryModel) -> Tensor:  # [1, 3, V]
    """Plain logits of the first token, the root behind it, and the last of the root's children."""
    ids = _token_ids(model)
    return model.plain_logits(torch.cat((ids[:, :2], ids[:, -1:]), dim=1))


def _star_logits(model: LanguageModel) -> Tensor:  # [1, 3, V]
    """The same tokens' logits in a forward of all the root's children at once."""
    ids = _token_ids(model)
    cache = model.new_cache(ids.shape[1])
    first = model.forward(ids[:, :1], torch.zeros_like(ids[:, :1]), cache).logits
    positions = torch.arange(1, ids.shape[1], device=ids.device).clamp(max=2)[None]
    star = torch.eye(ids.shape[1] - 1, dtype=torch.bool, device=ids.device)
    star[:, 0] = True
    rest = model.forward(ids[:, 1:], positions, cache, star).logits
    return torch.cat((first, rest[:, :1], rest[:, -1:]), dim=1)
