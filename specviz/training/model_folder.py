"""A trained network as a model folder that transformers opens, and back.

Knows nothing of how it was trained.
"""

import hashlib
import shutil
from pathlib import Path

import torch
from transformers import GenerationConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.training.network import Network

SHARD_SIZE = "9MB"


def save_model(network: Network, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """bfloat16 safetensors in shards, config and tokenizer; what was in `folder` goes."""
    shutil.rmtree(folder, ignore_errors=True)
    model = LlamaForCausalLM(network.config)
    missing = model.load_state_dict(network.state_dict(), strict=False).missing_keys
    assert missing in ([], ["lm_head.weight"]), missing
    model.tie_weights()
    model.generation_config = GenerationConfig(eos_token_id=0, pad_token_id=0)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=SHARD_SIZE)
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors writes for its owner alone


def load_network(folder: Path, dtype: torch.dtype = torch.float32) -> Network:
    """The network as saved: weights of bfloat16 precision; its products run in `dtype`."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    network = Network(model.config, dtype)
    weights = {
        name: weight for name, weight in model.state_dict().items() if name != "lm_head.weight"
    }
    network.load_state_dict(weights)
    return network.eval()


def fingerprint(folder: Path) -> str:
    """Eight hexadecimal digits of the saved weights: what is made of a model carries them."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
