"""Check that a model can verify a draft tree: its attention must follow positions and masks.

First the configuration is checked, before any weights are read. Later, short forward passes of the
loaded model show whether the model follows positions and masks. In shapes, V is the size of the
vocabulary.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specviz.errors import InputError, first_line
from specviz.models.files.context import configured_length, context_of
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import LibraryModel
from specviz.models.memory import is_shortage
from specviz.models.windows import FULL, SLIDING, Windows

_RECURRENT = ("mamba", "rwkv", "xlstm", "recurrent", "retnet", "lfm", "zamba")
# Kinds of layers that cannot verify a draft tree, with the reason. A kind of layer that this module
# does not know is refused as well.
_STATE = "which keep a running state and cannot take back rejected tokens"
_LAYERS = {
    "linear_attention": _STATE,
    "hybrid": _STATE,
    "hybrid_sliding": _STATE,
    "conv": _STATE,
    "chunked_attention": "which see one chunk at a time, with a mask that is not built here",
    "indexed_attention": "which choose what they see by an index with a cache of its own",
    "compressed_sparse_attention": "which keep one summary for several tokens",
    "heavily_compressed_attention": "which keep one summary for several tokens",
    "local_attention": "which take their window from the slots of the cache, not from the mask",
    "lsh_attention": "which choose what they see by hashing the whole text",
}
_SIBLINGS = 12
# The largest difference between two results that count as equal, as a fraction of the largest
# logit.
_EXACT = 1e-5
# The largest difference in float32 between two ways to compute the same logits, as a fraction of
# the largest logit.
_FLOAT32_ROUNDING = 1e-3
# A wrong mask or wrong positions change the logits of a good model. With the right mask and
# positions, the logits may differ from the reference by at most this fraction of that change. In
# bfloat16 and float16, the measured fraction was 0.001 to 0.04 (models of 2 to 80 layers with
# random weights, and SmolLM2). For a model that ignores the mask, the fraction is 1.
_ROUNDING_SHARE = 1 / 8
# The largest change of logits by rounding in deep models in bfloat16 and float16, as a fraction of
# the largest logit.
_HALF_ROUNDING = 0.25
# Imagine a line from the logits with the right mask and positions (0) to the logits with wrong ones
# (1). The reference's logits, projected on this line, must be below this number. Rounding alone
# moves them to at most 0.5.
_HALFWAY = 0.7


def check_config(name: str, config: Any) -> None:
    """Raise InputError if the configuration shows that the model cannot verify a draft tree."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    kind = str(config.model_type)
    if config.is_encoder_decoder:
        raise InputError(f"model {name!r} is an encoder-decoder ({kind}): {_CHOOSE}")
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise InputError(f"model {name!r} is not a causal language model ({kind}): {_CHOOSE}")
    if config.get_text_config(decoder=True) is not config:
        raise InputError(f"model {name!r} reads more than text ({kind}): {_CHOOSE}")
    if getattr(config, "quantization_config", None) is not None:
        raise InputError(f"model {name!r} has quantised weights: choose the plain model")
    if any(word in kind for word in _RECURRENT):
        raise InputError(
            f"model {name!r} is recurrent ({kind}) and cannot take back rejected tokens: {_CHOOSE}"
        )
    windows = Windows.of(config)
    others = sorted(windows.kinds - {FULL, SLIDING})
    if others:
        does = next((_LAYERS[each] for each in others if each in _LAYERS), _UNKNOWN)
        raise InputError(
            f"model {name!r} has {', '.join(others)} layers ({kind}), {does}: {_CHOOSE}"
        )
    sizes = windows.sizes
    if not all(type(size) is int and size > 0 for size in sizes) or len(sizes) > 1:
        shown = ", ".join(sorted(map(reprlib.repr, sizes)))
        raise InputError(f"model {name!r} must have one sliding_window >= 1, got {shown}")
    length = configured_length(config)
    if length is not None and (type(length) is not int or length < 1):
        shown = reprlib.repr(length)
        raise InputError(f"model {name!r} must have max_position_embeddings >= 1, got {shown}")
    context_of(name, config)


_CHOOSE = "choose a decoder-only model with full or sliding attention"
_UNKNOWN = "which may be unable to take back rejected tokens"


def checked_model(reference: LibraryModel, build: Callable[[], LanguageModel]) -> LanguageModel:
    """Build a model, and check its logits for a draft tree against a reference without a tree.

    `build` returns the model and may take over the weights of the reference. Raises InputError if
    the nodes of a small test tree do not get the logits that the reference computes for each node's
    path.

    The test tree is a root with many children. In the cache the last child is many slots after the
    root, but its text position is only one after the root. A model that ignores positions or masks,
    or that sees later tokens, therefore fails.

    Two ways to compute the same logits round differently. In bfloat16 the difference is too large
    for a fixed tolerance. So the same tokens also run with a mask that is wrong on purpose, and
    with wrong positions. If the model follows masks and positions, its logits with the right ones
    are much nearer to the reference than its logits with the wrong ones.

    A reference with a sliding window is also tested with a window of two tokens, so that the child
    cannot see the first token. The reference must also compute a token in the same way, whatever
    tokens follow it.
    """
    model: LanguageModel = reference
    try:
        path = _path_logits(reference).float()
        model = build()
        reason = _fault(path, reference, model)
    except InputError:
        raise
    except Exception as error:
        # Catch every error, because a model that does not accept the mask of a tree may raise any
        # error.
        if is_shortage(error):
            raise
        reason = _reason(reference) if model is reference else _DISOBEYS
    if reason:
        raise InputError(
            f"model {reference.info.name!r} ({reference.info.architecture}) {reason}: {_CHOOSE}"
        )
    return model


def _fault(path: Tensor, reference: LibraryModel, model: LanguageModel) -> str:
    """Return why the model cannot verify a tree, or "" if it can.

    `path` has the logits of the reference, [3, V].
    """
    if not _passes(path, model):
        return _reason(reference) if model is reference else _DISOBEYS
    if model is not reference:
        assert reference.window is None  # Only the reference can run layers with a sliding window.
        return ""
    if reference.window is not None and not _slides(reference):
        return "does not follow the mask of its sliding window"
    if not _is_local(reference):
        return "computes a token differently when the same forward pass also reads later positions"
    return ""


def _slides(reference: LibraryModel) -> bool:
    with reference.narrowed(2):
        return _passes(_path_logits(reference).float(), reference)


def _passes(path: Tensor, model: LanguageModel) -> bool:
    """Return whether the logits of the tree agree with the reference `path` [3, V].

    The reference ran the tokens of each path of the tree as a plain text. Raises InputError if
    `path` has NaN or infinity.
    """
    trees = _Trees.of(model)
    if not path.isfinite().all():
        raise InputError(
            f"model {model.info.name!r} must give finite logits, got NaN or infinity: its weights "
            f"are broken or too large for {model.dtype}; try float32"
        )
    return _follows(path, trees, model.dtype)


@dataclass(frozen=True, slots=True)
class _Trees:
    """The logits of a test tree from three forward passes, two of which are wrong on purpose.

    Each tensor is [3, V]: the logits after the first token, the root and the root's last child.
    """

    right: Tensor
    # Logits that were computed with a mask in which every token sees all other tokens.
    wrong_mask: Tensor
    # Logits that were computed with each token's slot number as its text position, which would be
    # right only in a plain text.
    wrong_positions: Tensor

    @classmethod
    def of(cls, model: LanguageModel) -> _Trees:
        count = 1 + _SIBLINGS  # number of tokens in the test tree: the root and its children
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
    """Return whether the right tree and the reference [3, V] differ only by rounding."""
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
    """Return whether the reference is far enough from the logits with a wrong mask or position.

    `error` [V] is the reference minus the logits of the right tree. `change` [V] is the logits of a
    wrong tree minus the logits of the right tree. If the model ignores what is wrong in that tree,
    `change` is 0 and the result is False.
    """
    return bool((error * change).sum() < _HALFWAY * change.square().sum())


_DISOBEYS = "does not follow the positions and the mask of a draft tree"


def _reason(model: LibraryModel) -> str:
    """Return why the model cannot verify a tree.

    The function runs forward passes, each of which tests one possible cause.
    """
    try:
        model.plain_logits(_token_ids(model)[:, :3])
    except Exception as error:
        return f"cannot be run by transformers ({first_line(error)})"
    try:
        if _looks_ahead(model):
            return "lets a token see the tokens after it, as an encoder does"
        if not model.takes_cache:
            return "has no cache of keys and values"
        stored = model.stored()
        if not stored.keys:
            return "keeps no keys and values of earlier tokens"
        if stored.tokens != 1:
            return f"puts {stored.tokens - 1} more tokens of its own before the text"
        trees = _Trees.of(model)
    except Exception as error:
        return f"accepts no mask that says what each token sees ({first_line(error)})"
    if _is_same(trees.right, trees.wrong_mask):
        return "ignores the mask that says what each token sees"
    if _is_same(trees.right, trees.wrong_positions):
        return "counts positions itself and ignores those of a draft tree"
    return _DISOBEYS


def _is_same(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() <= _EXACT * one.abs().max())


def _looks_ahead(model: LibraryModel) -> bool:
    """Return whether the logits after the first token depend on the second token."""
    ids = _token_ids(model)
    one, other = (model.plain_logits(ids[:, places])[0, 0].float() for places in ([0, 1], [0, 2]))
    return bool((one - other).abs().max() > _FLOAT32_ROUNDING * one.abs().max())


def _is_local(model: LibraryModel) -> bool:
    """Return whether one forward pass over three tokens gives the logits of three separate passes.

    The positions of the tokens are far apart. The logits differ if the last position of a pass
    changes the rotary angles of all its tokens.
    """
    last = model.info.context_length - 1
    places = torch.tensor([[last // 64, last // 4, last]], device=model.device)
    ids = _token_ids(model)[:, :3]
    joined = model.forward(ids, places, model.new_cache(3)).logits[0].float()
    cache = model.new_cache(3)
    single = torch.stack(
        [
            model.forward(ids[:, i : i + 1], places[:, i : i + 1], cache).logits[0, 0].float()
            for i in range(3)
        ]
    )
    share = _FLOAT32_ROUNDING if model.dtype == torch.float32 else _HALF_ROUNDING
    return bool((joined - single).abs().max() <= share * single.abs().max())


def _token_ids(model: LanguageModel) -> Tensor:  # [1, 2 + _SIBLINGS]
    return torch.arange(2 + _SIBLINGS, device=model.device)[None] % model.info.vocab_size


def _path_logits(model: LibraryModel) -> Tensor:  # [3, V]
    """Return the reference's logits after a first token, the root and the root's last child.

    These three tokens run as a plain text, without a tree.
    """
    ids = _token_ids(model)
    return model.plain_logits(torch.cat((ids[:, :2], ids[:, -1:]), dim=1))[0]


def _tree_logits(model: LanguageModel, positions: Tensor, mask: Tensor) -> Tensor:  # [3, V]
    """Return the logits after the first token, the root and the root's last child, run as a tree.

    One forward pass runs the root together with all its children.
    """
    ids = _token_ids(model)
    cache = model.new_cache(ids.shape[1])
    first = model.forward(ids[:, :1], torch.zeros_like(ids[:, :1]), cache).logits
    rest = model.forward(ids[:, 1:], positions[None], cache, mask).logits
    return torch.cat((first, rest[:, :1], rest[:, -1:]), dim=1)[0].float()
