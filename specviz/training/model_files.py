"""Folders of trained models: a config, and the weights in bfloat16.

A model that drafts only some of its target's tokens has them as EAGLE-3's `d2t`: token id minus
row.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import LlamaConfig

WEIGHTS = "model.safetensors"
DRAFTED = "d2t"
# what a config says of a Llama's shape
SHAPE = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "rope_parameters",
    "max_position_embeddings",
    "attention_bias",
    "mlp_bias",
    "tie_word_embeddings",
)


def shape_of(config: LlamaConfig) -> dict[str, Any]:
    """The entries of a folder's config that say how large a Llama is."""
    return {name: getattr(config, name) for name in SHAPE}


def save_model(
    network: nn.Module, config: dict[str, Any], folder: Path, drafted: Tensor | None = None
) -> None:
    """Config and bfloat16 weights; what was in `folder` goes.

    `drafted` [D]: the draft vocabulary, if there is one.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    weights = {name: weight.bfloat16() for name, weight in network.state_dict().items()}
    if drafted is not None:
        config = config | {"draft_vocab_size": len(drafted)}
        offsets = drafted - torch.arange(len(drafted))
        is_short = 0 <= int(offsets.min()) and int(offsets.max()) < 1 << 16
        weights[DRAFTED] = offsets.to(torch.uint16 if is_short else torch.int64)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # safetensors writes for its owner alone


def load_into(network: nn.Module, folder: Path) -> Tensor | None:
    """Give a network the weights of `folder` in float32 -> the draft vocabulary [D], if any."""
    weights = load_file(folder / WEIGHTS)
    offsets = weights.pop(DRAFTED, None)
    network.load_state_dict({name: weight.float() for name, weight in weights.items()})
    network.eval()
    return None if offsets is None else offsets.long() + torch.arange(len(offsets))
