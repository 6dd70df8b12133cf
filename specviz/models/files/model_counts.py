"""Count the parameters and the cache size of a model, from its config.json alone.

This module builds the transformers class on the meta device, without storage. So it can count every
architecture that transformers knows, and need not guess from field names. A config.json may be
hostile, so `counted_config` runs in a process with limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from specviz.models.library_model import stored_by


@dataclass(frozen=True, slots=True)
class ModelCounts:
    """Numbers of parameters of a model: in total, in routed experts, embeddings and output matrix.

    An output matrix that is tied to the embedding counts as both. `cached` is how many numbers the
    cache stores per token, in all layers. It is None if only real weights could show this.
    `cached_layers` is the number of layers that store keys and values. It is None if the
    configuration does not list the kinds of its layers. A token uses `active` of the `experts` in a
    layer. `quantised` is the number of parameters that a quantised model stores in few bits.
    """

    parameters: int
    in_experts: int
    looked_up: int
    head: int
    cached: int | None
    cached_layers: int | None
    experts: int
    active: int
    quantised: int


def counted_config(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"config": …, "counts": …} for the content of a config.json.

    "config" has the field names of transformers. "counts" has the fields of `ModelCounts`, or is
    None if transformers does not know the model or cannot build it. Both are JSON values.
    """
    try:
        known = _known_fields(content)
        config = CONFIG_MAPPING[_model_type(known)].from_dict(known)
        config = config.get_text_config(decoder=True)
        given = content.get("quantization_config") or content.get("compression_config") or {}
        counted = asdict(count(config, given))
        named = config.to_dict() | {
            name: value for name in _NAMES if (value := _value(config, name))
        }
        named |= {"num_key_value_heads": heads} if (heads := _shared_heads(config)) else {}
        named |= {"quantization_config": dict(given)} if given else {}
        return {"config": json.loads(json.dumps(named, default=str)), "counts": counted}
    except MemoryError:
        # Do not handle this error: the process has reached its memory limit and must end.
        raise
    except Exception:  # Catch every error, because a configuration class may raise any error.
        return {"config": dict(content), "counts": None}


_FALCON = {
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_head_kv": "num_kv_heads",
}


def _known_fields(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with its old names of fields and classes replaced by the new names.

    Old configurations were written for code that came with the model. Now transformers has the
    class, under another name.
    """
    found, kind = dict(content), content["model_type"]
    # These types occur in Falcon's first configuration files.
    if kind in ("RefinedWeb", "RefinedWebModel"):
        found |= {new: content[old] for old, new in _FALCON.items() if old in content}
        found |= {"model_type": "falcon", "new_decoder_architecture": "n_head_kv" in content}
    # This is the configuration of SantaCoder.
    elif kind == "gpt2" and content.get("attention_head_type") == "multiquery":
        found |= {"model_type": "gpt_bigcode", "multi_query": True}
    return found


def _model_type(content: Mapping[str, Any]) -> str:
    """Return the model type under which transformers has the model's class.

    A model may have a type of its own but use the class of another model. For example, Kimi K2 uses
    the class of DeepSeek V3.
    """
    given = str(content["model_type"])
    if given in CONFIG_MAPPING:
        return given
    names = content.get("architectures")
    classes = {kind: name for name, kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items()}
    known = (classes.get(each) for each in (names if isinstance(names, list) else ()))
    return next(filter(None, known), given)


_NAMES = (
    *("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "intermediate_size", "vocab_size", "max_position_embeddings"),
)


def _value(config: Any, name: str) -> int | None:
    try:
        value = getattr(config, name, None)
    except Exception:
        # transformers raises an error if the layers have different values for the field `name`
        return None
    return value if type(value) is int and value > 0 else None


def _shared_heads(config: Any) -> int | None:
    """Return the number of KV heads of a Falcon model, or None for other models.

    A Falcon configuration lacks the usual field for this number; the type of decoder decides it.
    """
    if config.model_type != "falcon":
        return None
    if config.new_decoder_architecture:
        return int(config.num_kv_heads)
    return 1 if config.multi_query else int(config.num_attention_heads)


def count(config: Any, quantised: Mapping[str, Any] | None = None) -> ModelCounts:
    """Count the parameters of a model. `quantised` is its `quantization_config`, if it has one.

    Raises any error of the model's class in transformers.
    """
    with torch.device("meta"):
        # Do not use the attention that config.json names: it may be a function whose code is on
        # the Hub.
        module = transformers.AutoModelForCausalLM.from_config(
            config, trust_remote_code=False, attn_implementation="eager"
        )
    head = module.get_output_embeddings()
    tables = {
        id(each.weight): each.weight.numel()
        for each in module.modules()
        if isinstance(each, nn.Embedding)
    }
    routed = dict(_routed(module))
    experts = max((_number(each, "num_experts") for each in module.modules()), default=1)
    active = [used for each in module.modules() if (used := _number(each, "top_k")) > 0]
    return ModelCounts(
        parameters=sum(weight.numel() for weight in module.parameters()),
        in_experts=sum(routed.values()),
        looked_up=sum(tables.values()),
        head=0 if head is None else head.weight.numel(),
        cached=_cached(module.eval()),
        cached_layers=_cached_layers(config),
        experts=experts if routed and active else 1,
        active=min(max(active), experts) if routed and active else 1,
        quantised=_quantised(module, routed, quantised) if quantised else 0,
    )


def _number(module: nn.Module, name: str) -> int:
    value = getattr(module, name, 0)
    return value if type(value) is int else 0


def _routed(module: nn.Module) -> Iterator[tuple[str, int]]:
    """Yield the name and size of each parameter that belongs to routed experts."""
    stacked = {
        f"{place}.{name}"
        for place, each in module.named_modules()
        for name, weight in each.named_parameters(recurse=False)
        if weight.ndim == 3 and weight.shape[0] == _number(each, "num_experts")
    }
    for name, weight in module.named_parameters():
        if ".experts." in name or name.endswith(".experts") or name in stacked:
            yield name, weight.numel()


_UNQUANTISED = ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers", "exclude")
# Methods of quantisation that by default also quantise the output matrix; others do not.
_ASKS_FOR_HEAD = ("compressed-tensors", "quark")


def _quantised(module: Any, routed: Mapping[str, int], given: Mapping[str, Any]) -> int:
    """Count the parameters of quantised matrices; embeddings, norms and biases do not count.

    The output matrix usually stays in 16 bits, and so do the modules that the configuration names.
    """
    lists = [given.get(name) for name in _UNQUANTISED]
    left = [str(each) for found in lists if isinstance(found, list) for each in found]
    linear = {
        f"{place}.weight": each.weight.numel()
        for place, each in module.named_modules()
        if isinstance(each, nn.Linear | transformers.pytorch_utils.Conv1D)
    }
    head = module.get_output_embeddings()
    is_head_kept = (
        given.get("quant_method") not in _ASKS_FOR_HEAD and given.get("lm_head") is not True
    )
    total = 0
    for name, size in {**linear, **routed}.items():
        owner = name.rpartition(".")[0]
        is_head = head is not None and module.get_submodule(owner) is head
        if not (is_head and is_head_kept) and not any(_names(each, owner) for each in left):
            total += size
    return total


def _names(pattern: str, module: str) -> bool:
    """Return whether a pattern in one of the fields _UNQUANTISED matches a module's name."""
    if pattern.startswith("re:"):
        return re.match(pattern[3:], module) is not None
    if "*" in pattern:
        return fnmatchcase(module, pattern) or fnmatchcase(module, f"{pattern}.*")
    return f".{pattern}." in f".{module}."


_WITHOUT_CACHE = re.compile("linear|mamba|recurrent|conv|rglru")


def _cached_layers(config: Any) -> int | None:
    """Count the layers that cache keys and values, or return None if that is unknown.

    It is unknown if the configuration does not list the kinds of its layers.
    """
    kinds = getattr(config, "layer_types", None)
    if not isinstance(kinds, list) or not kinds:
        return None
    return sum(_WITHOUT_CACHE.search(str(each)) is None for each in kinds)


def _cached(module: Any) -> int | None:
    """Return how many numbers the cache stores per token, or None if that needs real weights."""
    try:
        with torch.inference_mode():
            return stored_by(module).numbers or None
    except Exception:
        # A mixture of experts fails here, because it chooses experts by real values, which the meta
        # device lacks.
        return None
