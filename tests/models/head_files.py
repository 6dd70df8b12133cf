"""Save random drafting heads in their published formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig

WIDTH, VOCAB = 32, 61  # hidden size and vocabulary size of the tiny models


def save_head(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder


def medusa_parts(
    heads: int = 3,
    vocabulary: int = VOCAB,
    is_shared: bool = False,
    inner: int = 0,
    drafted: list[int] | None = None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the configuration and the tensors of Medusa heads.

    With `is_shared`, the heads use the target's output matrix. `drafted`, if given, are the tokens
    whose rows of that matrix they use. With `inner`, each head has two matrices, one from the
    hidden size down to that width and one up again.
    """
    config: dict[str, Any] = {
        "heads": heads,
        "hidden_size": WIDTH,
        "vocab_size": vocabulary,
        "accuracies": [[0.6 - 0.1 * i, 0.1, 0.05] for i in range(heads)],
    }
    tensors = {}
    for i in range(heads):
        block = f"heads.{i}.{'down' if inner else 'residual'}"
        tensors[f"{block}.weight"] = 0.2 * torch.randn(inner or WIDTH, WIDTH)
        tensors[f"{block}.bias"] = 0.2 * torch.randn(inner or WIDTH)
        if inner:
            config["inner_size"] = inner
            tensors[f"heads.{i}.up.weight"] = 0.2 * torch.randn(WIDTH, inner)
        if not is_shared:
            tensors[f"heads.{i}.output.weight"] = torch.randn(vocabulary, WIDTH)
    made = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    if drafted:
        config["draft_vocab_size"] = len(drafted)
        made["d2t"] = torch.tensor(drafted) - torch.arange(len(drafted))
    return config, made


def eagle3_parts(
    drafted: list[int] | None = None, **changes: Any
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return an EAGLE-3 head as SafeAILab publishes it: with a draft vocabulary and its own output.

    It reads the features of three layers.
    """
    config, tensors = eagle_parts(**changes)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    named = {name.replace("layers.0", "midlayer"): shape for name, shape in shapes.items()}
    for name in "qkv":
        rows, _ = named[f"midlayer.self_attn.{name}_proj.weight"]
        named[f"midlayer.self_attn.{name}_proj.weight"] = (rows, 2 * WIDTH)
    for name in ("midlayer.hidden_norm", "midlayer.input_layernorm", "norm"):
        named[f"{name}.weight"] = (WIDTH,)
    ids = torch.tensor(drafted or range(VOCAB))
    named |= {"fc.weight": (WIDTH, 3 * WIDTH), "lm_head.weight": (len(ids), WIDTH)}
    made = {name: (0.3 * torch.randn(shape)).bfloat16() for name, shape in named.items()}
    if drafted:
        made["d2t"] = ids - torch.arange(len(ids))
        made["t2d"] = torch.zeros(VOCAB, dtype=torch.bool).index_fill(0, ids, True)
    return config | {"draft_vocab_size": len(ids)}, made


def eagle_parts(**changes: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    shape: dict[str, Any] = dict(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
    )
    config = LlamaConfig(**{**shape, **changes})
    keys = config.num_key_value_heads * config.head_dim
    inner, queries = config.intermediate_size, config.num_attention_heads * config.head_dim
    sizes = {
        "fc": (WIDTH, 2 * WIDTH),
        "layers.0.self_attn.q_proj": (queries, WIDTH),
        "layers.0.self_attn.k_proj": (keys, WIDTH),
        "layers.0.self_attn.v_proj": (keys, WIDTH),
        "layers.0.self_attn.o_proj": (WIDTH, queries),
        "layers.0.post_attention_layernorm": (WIDTH,),
        "layers.0.mlp.gate_proj": (inner, WIDTH),
        "layers.0.mlp.up_proj": (inner, WIDTH),
        "layers.0.mlp.down_proj": (WIDTH, inner),
    }
    tensors = {
        f"{name}.weight": (0.3 * torch.randn(size)).bfloat16() for name, size in sizes.items()
    }
    return config.to_dict(), tensors
