"""Save and load folders of trained models: a config, and the weights in bfloat16.

Some models draft only D of the target's tokens, the draft vocabulary. Their weights contain the
tensor `d2t` [D], as in EAGLE-3: token i of the draft vocabulary has the id i + d2t[i] in the
target's vocabulary.
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
# The entries of a config that describe the shape of a Llama model.
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
    """Return the entries of a folder's config that describe the shape of a Llama model."""
    return {name: getattr(config, name) for name in SHAPE}


def save_model(
    network: nn.Module, config: dict[str, Any], folder: Path, drafted: Tensor | None = None
) -> None:
    """Save the config and the weights in bfloat16; delete the old content of `folder`.

    `drafted` [D] is the draft vocabulary, if there is one.
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
    # safetensors makes files that only their owner can read, but other users may need the model.
    (folder / WEIGHTS).chmod(0o644)


def load_into(network: nn.Module, folder: Path) -> Tensor | None:
    """Load the weights in a folder into a network, in float32.

    Return the draft vocabulary [D], or None if the folder has none.
    """
    weights = load_file(folder / WEIGHTS)
    offsets = weights.pop(DRAFTED, None)
    network.load_state_dict({name: weight.float() for name, weight in weights.items()})
    network.eval()
    return None if offsets is None else offsets.long() + torch.arange(len(offsets))
