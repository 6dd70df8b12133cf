"""Which models can verify a draft tree: attention that follows given positions and masks.

The configuration is judged first, before any weight is read; short forwards of the loaded model
then show whether it follows positions and masks. Letters: V vocabulary.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import LibraryModel
from specviz.models.memory import is_shortage
from specviz.models.windows import FULL, SLIDING, Windows

_RECURRENT = ("mamba", "rwkv", "xlstm", "recurrent", "retnet", "lfm", "zamba", "reformer")
_SIBLINGS = 12
_EXACT = 1e-5  # of the largest logit: the same numbers, in any dtype
_FLOAT32_ROUNDING = 1e-3  # of the largest logit; the most that two float32 kernels may differ
# of what a wrong mask or wrong positions change. Rounding of two kernels is 0.001 to 0.04 of it in
# bfloat16 and float16 (2 to 80 layers, random weights and SmolLM2); disobedience is 1 of it
_ROUNDING_SHARE = 1 / 8
_HALFWAY = 0.7  # a path this far on the way to a wrong tree; rounding alone comes to 0.5 at most


def check_config(name: str, config: Any) -> None:
    """Raise InputError where the configuration shows that a draft cannot be rolled back."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

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
    windows = Windows.of(config)
    others = sorted(windows.kinds - {FULL, SLIDING})
    if others:
        raise InputError(f"model {name!r} has {', '.join(others)} layers ({kind}), {_NO_ROLLBACK}")
    sizes = windows.sizes
    if not all(type(size) is int and size > 0 for size in sizes) or len(sizes) > 1:
        shown = ", ".join(sorted(map(reprlib.repr, sizes)))
        raise InputError(f"model {name!r} must have one sliding_window >= 1, got {shown}")
    length = getattr(config, "max_position_embeddings", None)
    if length is not None and (type(length) is not int or length < 1):
        shown = reprlib.repr(length)
        raise InputError(f"model {name!r} must have max_position_embeddings >= 1, got {shown}")


_CHOOSE = "choose a decoder-only model with full or sliding attention"
_NO_ROLLBACK = f"which cannot take back rejected tokens: {_CHOOSE}"


def checked_model(reference: LibraryModel, build: Callable[[], LanguageModel]) -> LanguageModel:
    """What `build` makes, which may take the reference's weights over and must equal it.

    Raises InputError unless every node of a small tree gets the reference's logits of its own path.
    The tree is a root with many children; the last child stands far from the root but one position
    behind it, so a model that ignores positions or masks, or looks ahead, gives itself away.

    Two kernels round differently, in bfloat16 by more than a fixed tolerance allows. So the same
    tokens also run under a mask and under positions that are deliberately wrong: a model that
    follows them is far nearer to the path with the right ones.

    Layers that slide are tried under a window of two tokens too, so that the child has left the
    first token behind.
    """
    try:
        path = _path_logits(reference).float()
        model = build()
        passes = _passes(path, model)
        if passes and reference.window is not None:
            assert model is reference  # no other path runs such layers
            with reference.narrowed(2):
                passes = _passes(_path_logits(reference).float(), model)
    except InputError:
        raise
    except Exception as error:  # a model that takes no such mask fails in its own way
        if is_shortage(error):
            raise
        raise _disobedient(reference) from None
    if not passes:
        raise _disobedient(reference)
    return model


def _passes(path: Tensor, model: LanguageModel) -> bool:
    """Whether the tree follows that path [3, V]; InputError for logits that are not finite."""
    trees = _Trees.of(model)
    if not path.isfinite().all():
        raise InputError(
            f"model {model.info.name!r} must give finite logits, got NaN or infinity: its weights "
            f"are broken or too large for {model.dtype}; try float32"
        )
    return _follows(path, trees, model.dtype)


@dataclass(frozen=True, slots=True)
class _Trees:
    """Logits of the first token, the root and the root's last child, [3, V] each."""

    right: Tensor
    wrong_mask: Tensor  # every token sees every other
    wrong_positions: Tensor  # each token at its slot, as in a text

    @classmethod
    def of(cls, model: LanguageModel) -> _Trees:
        count = 1 + _SIBLINGS  # the root and its children
        star = torch.eye(count, dtype=torch.bool, device=model.device)
        star[:, 0] = True
        slots = torch.arange(1, count + 1, device=model.device)
        depths = slots.clamp(max=2)
        return cls(
            _tree_logits(model, depths, star),
            _tree_logits(model, depths, torch.ones_like(star)),
            _tree_logits(model, slots, star),
        )


def _follows(path: Tensor, trees: _Trees, dtype: torch.dtype) -> bool:
    """Whether the right tree differs from the path [3, V] by rounding only."""
    error = path - trees.right
    largest, scale = error.abs().max(), path.abs().max()
    if not error.isfinite().all():
        return False
    if largest <= _EXACT * scale:
        return True
    if dtype == torch.float32 and largest > _FLOAT32_ROUNDING * scale:
        return False
    changes = trees.wrong_mask - trees.right, trees.wrong_positions - trees.right
    allowed = torch.stack([_size(change) for change in changes]).amax(0) * _ROUNDING_SHARE
    _, root, child = range(3)
    return (
        bool((_size(error) <= allowed)[[root, child]].all())
        and _is_off(error[root], changes[0][root])
        and all(_is_off(error[child], change[child]) for change in changes)
    )


def _size(difference: Tensor) -> Tensor:  # [3, V] -> [3]
    return difference.square().mean(-1).sqrt()


def _is_off(error: Tensor, change: Tensor) -> bool:
    """Whether the path lies away from a wrong tree, both seen from the right one. [V], [V]

    A model that gives the same logits whatever it is told makes no change at all.
    """
    return bool((error * change).sum() < _HALFWAY * change.square().sum())


def _disobedient(model: LibraryModel) -> InputError:
    return InputError(
        f"model {model.info.name!r} ({model.info.architecture}) does not follow the positions "
        f"and the mask of a draft tree: {_CHOOSE}"
    )


def _token_ids(model: LanguageModel) -> Tensor:  # [1, 2 + _SIBLINGS]
    return torch.arange(2 + _SIBLINGS, device=model.device)[None] % model.info.vocab_size


def _path_logits(model: LibraryModel) -> Tensor:  # [3, V]
    """Plain logits of the first token, the root behind it, and the last of the root's children."""
    ids = _token_ids(model)
    return model.plain_logits(torch.cat((ids[:, :2], ids[:, -1:]), dim=1))[0]


def _tree_logits(model: LanguageModel, positions: Tensor, mask: Tensor) -> Tensor:  # [3, V]
    """The same tokens' logits in a forward of the root and all its children at once."""
    ids = _token_ids(model)
    cache = model.new_cache(ids.shape[1])
    first = model.forward(ids[:, :1], torch.zeros_like(ids[:, :1]), cache).logits
    rest = model.forward(ids[:, 1:], positions[None], cache, mask).logits
    return torch.cat((first, rest[:, :1], rest[:, -1:]), dim=1)[0].float()
