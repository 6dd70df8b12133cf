"""A trained head as a folder: config.json and bfloat16 weights; and back.

Knows nothing of how it was trained or of how the app reads it.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import LlamaConfig

from specviz.training.eagle import EagleNetwork
from specviz.training.medusa import MedusaNetwork

WEIGHTS = "model.safetensors"


def save_eagle(network: EagleNetwork, folder: Path) -> None:
    """A Llama config of one layer, and the weights; what was in `folder` goes."""
    config = LlamaConfig.from_dict({**network.config.to_dict(), "dtype": "bfloat16"})
    _save(network, folder, config.to_dict())


def save_medusa(network: MedusaNetwork, accuracies: list[list[float]], folder: Path) -> None:
    """Heads, sizes and `accuracies` (see `head_evaluation.accuracies`)."""
    config = {
        "heads": len(network.heads),
        "hidden_size": network.width,
        "vocab_size": network.vocabulary,
        "accuracies": accuracies,
    }
    _save(network, folder, config)


def _save(network: nn.Module, folder: Path, config: dict[str, Any]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    weights = {name: weight.bfloat16() for name, weight in network.state_dict().items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # safetensors writes for its owner alone


def load_eagle(folder: Path) -> EagleNetwork:
    """As saved; its products run in float32."""
    network = EagleNetwork(LlamaConfig.from_pretrained(folder), torch.float32)
    network.load_state_dict(_weights(folder))
    return network.eval()


def load_medusa(folder: Path) -> MedusaNetwork:
    """As saved; its products run in float32."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    table = torch.zeros(config["vocab_size"], config["hidden_size"])
    network = MedusaNetwork(table, config["heads"], torch.float32)
    network.load_state_dict(_weights(folder))
    return network.eval()


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: weight.float() for name, weight in load_file(folder / WEIGHTS).items()}
