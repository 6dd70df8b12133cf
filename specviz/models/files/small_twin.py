"""The small twin: a tiny random model with the same architecture as a large model.

A config.json does not say whether a model follows the positions and the mask of a draft tree. The
twin has the same class, the same kinds of layers and the same options, but small matrices. So
`tree_check` can test the architecture in a few milliseconds, without any real weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from specviz.errors import InputError
from specviz.models.files.context import context_of
from specviz.models.files.tree_check import checked_model
from specviz.models.library_model import LibraryModel, attention_of
from specviz.records import ModelInfo

VOCABULARY = 300
_POSITIONS = 128
# More parameters than this mean that some size in the configuration was not reduced, because the
# table `_SIZES` lacks its field.
_MOST_PARAMETERS = 3_000_000
_LAYERS, _HEADS, _GROUPS, _WIDTH = 3, 4, 2, 16
# Pattern of a field's name -> the field's largest value in the twin. Other fields keep their
# values.
_SIZES = tuple(
    (re.compile(pattern), size)
    for pattern, size in (
        (r"(.*_)?vocab_size(_.*)?|n_tokens", VOCABULARY),
        (r"num_hidden_layers|n_layers?|num_layers|(en|de)coder_layers", _LAYERS),
        (r"num_key_value_heads|num_kv_heads|n_head_kv|(swa|num_global)_.*key_value_heads", _GROUPS),
        (r"(.*_)?attention_heads|n_heads?|num_heads|index_n_heads", _HEADS),
        (r"max_position_embeddings|n_positions|n_ctx|max_seq(uence)?_len(gth)?", _POSITIONS),
        (r"hidden_size|n_embd|d_model|emb_dim|dim_model|(word_)?embed(ding_size|_proj_dim)", 64),
        (r"(.*_)?(intermediate_size|ffn_dim|ffn_hidden_size)(_.*)?|n_inner|d_ff|dff|dim_ff", 96),
        (r"(.*_)?(head_dim|dim_head|d_head|d_kv|kv_channels|rank)", _WIDTH),
        (r"rotary_dim", 8),
        (r"sliding_window(_size)?|window_size", 8),
        (r"((num|n)_)?(local_|routed_|moe_)*(num_)?experts", 4),
        (r"zero_expert_num", 2),
        (r"num_experts_per_tok(en)?|moe_topk|top_k_experts|moe_k|.*router_topk", 2),
        (r"n_group|topk_group|num_group", 1),
    )
)
_LATENT = {"qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "qk_head_dim": 32, "v_head_dim": 8}


def check_architecture(name: str, config: Any) -> None:
    """Raise InputError if the small twin shows that the model cannot verify a draft tree.

    If the twin cannot be built or run, this function raises no error. The model is then checked
    after its weights are loaded.
    """
    twin = _small(config)
    if twin is None:
        return
    reason = _refusal_of(config.model_type, twin)
    if reason is not None:
        architecture = (config.architectures or [config.model_type])[0]
        raise InputError(f"model {name!r} ({architecture}) {reason}")


def small_config(config: Any, **changes: Any) -> Any:
    """Return a small configuration with the class and the kinds of layers of `config`.

    `changes` replace single values of the result. Raises any error of the class if the small sizes
    do not fit each other.
    """
    given = config.to_dict()
    small = {name: _size(name, value) for name, value in given.items()}
    small |= _fewer_layers(given)
    if given.get("num_attention_heads") == given.get("num_key_value_heads"):
        small["num_key_value_heads"] = small.get("num_attention_heads")
    if given.get("qk_nope_head_dim"):
        small |= {name: size for name, size in _LATENT.items() if name in given}
    small |= {name: 0 for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    small["rope_parameters"] = _plain_rope(given.get("rope_parameters"))
    small = {name: value for name, value in (small | changes).items() if value is not None}
    return type(config).from_dict(small)


def random_model(config: Any, seed: int = 0) -> Any:
    """Return a module with random weights.

    The weights are chosen so that its logits depend on every token and every position.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=attention_of(config), dtype=torch.float32
        )
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.2, generator=draw)
            elif name.endswith("bias"):
                weight.normal_(std=0.1, generator=draw)
            elif weight.is_floating_point():
                weight.uniform_(0.5, 1.5, generator=draw)
    return module.eval()


def _size(name: str, value: Any) -> Any:
    if type(value) is not int:
        return value
    size = next((size for pattern, size in _SIZES if pattern.fullmatch(name)), value)
    return min(size, value)


def _fewer_layers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten those lists of a configuration that have one entry per layer.

    A few layers of every kind remain.
    """
    layers = given.get("num_hidden_layers")
    lists = {
        name: each
        for name, each in given.items()
        if isinstance(each, list) and len(each) == layers and layers
    }
    if not lists or not layers:
        return {}
    # This field has the index of a layer as key. Fewer layers would make these indices wrong, so
    # keep all layers.
    if given.get("per_layer_config"):
        return {"num_hidden_layers": layers}
    kept = {0, min(1, layers - 1), layers - 1}
    for each in lists.values():
        kept |= {next(i for i in range(layers) if each[i] == kind) for kind in each}
    cut = {name: [each[i] for i in sorted(kept)] for name, each in lists.items()}
    return cut | {"num_hidden_layers": len(kept)}


def _plain_rope(given: Any) -> Any:
    """Replace LongRoPE and YaRN in all parts of the configuration by default rotary positions.

    LongRoPE and YaRN scale each rotary angle by its own factor, but the twin has fewer angles than
    the configuration has factors.
    """
    if not isinstance(given, Mapping):
        return given
    if any(isinstance(each, Mapping) for each in given.values()):
        return {name: _plain_rope(each) for name, each in given.items()}
    if given.get("rope_type") not in ("longrope", "yarn"):
        return dict(given)
    kept = {name: given[name] for name in ("rope_theta", "partial_rotary_factor") if name in given}
    return kept | {"rope_type": "default"}


def _small(config: Any) -> str | None:
    """Return the twin's configuration as text, or None if there is no valid small configuration.

    The result of the twin's check is cached with this text as key.
    """
    try:
        return str(small_config(config).to_json_string(use_diff=False))
    except Exception:
        # Catch every error, because a configuration class may raise any error for small sizes.
        return None


@lru_cache(maxsize=256)
def _refusal_of(kind: str, text: str) -> str | None:
    """Run the twin. Return None if it can verify a tree, otherwise the end of an error sentence.

    `kind` is the model type of the configuration, and `text` is the result of `_small`. Return None
    as well if the twin cannot be built or run.
    """
    try:
        config = CONFIG_MAPPING[kind].from_dict(json.loads(text))
        with torch.device("meta"):
            size = transformers.AutoModelForCausalLM.from_config(config).num_parameters()
        if size > _MOST_PARAMETERS:
            return None
        module = random_model(config)
        module(input_ids=torch.zeros((1, 3), dtype=torch.long), use_cache=False)
    except Exception:  # The twin cannot run, because its small sizes do not fit each other.
        return None
    model = LibraryModel(module, _info(config))
    try:
        checked_model(model, lambda: model)
    except InputError as error:
        return str(error).partition(f"{_NAME!r} ({_NAME}) ")[2] or None
    return None


_NAME = "twin"


def _info(config: Any) -> ModelInfo:
    return ModelInfo(
        name=_NAME,
        architecture=_NAME,
        parameters=1,
        bytes=1,
        layers=int(config.num_hidden_layers),
        hidden_size=int(config.hidden_size),
        vocab_size=VOCABULARY,
        context_length=context_of(_NAME, config).length,
    )
