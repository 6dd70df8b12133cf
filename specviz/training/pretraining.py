"""Trains the target on the corpus, with a second, early-exit loss at layer EXIT_LAYER.

Knows nothing of the draft or of how text is gathered.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig

from specviz.training.loop import Progress, Rates, TrainingLoop
from specviz.training.network import Network
from specviz.training.token_file import TokenMixture
from specviz.training.tokenizer import VOCABULARY

EXIT_LAYER = 3
EXIT_WEIGHT = 0.2
EXIT_STRIDE = 4  # the early loss looks at every fourth position
STEP_TOKENS = 8192
PART_TOKENS = 4096  # of one forward and backward
SHORT, LONG = 256, 512
LONG_FROM = 0.75  # share of the budget
SHARES = {"code": 0.30, "story": 0.27, "maths": 0.15, "translate": 0.18, "summarise": 0.10}


def llama_config(
    layers: int = 12, width: int = 256, inner: int = 768, vocabulary: int = VOCABULARY
) -> LlamaConfig:
    """The family's shape: heads of 64, tied head, 1,024 positions, theta 10,000."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        head_dim=64,
        max_position_embeddings=1024,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )


def pretrain(
    config: LlamaConfig,
    mixture: TokenMixture,
    checkpoint: Path,
    seconds: float,
    step_tokens: int = STEP_TOKENS,
    device: str = "cpu",
    compiled: bool = True,
) -> tuple[Network, Progress]:
    """A target trained for `seconds` (resumed from `checkpoint` if there), and how far it came."""
    torch.manual_seed(0)
    network = Network(config).to(device)
    loop = TrainingLoop(network, mixture, checkpoint, seconds, Rates())
    loss = torch.compile(target_loss, dynamic=False) if compiled else target_loss
    parts = max(1, step_tokens // PART_TOKENS)
    part_tokens = step_tokens // parts

    def losses(fraction: float) -> Iterator[Tensor]:
        length = SHORT if fraction < LONG_FROM else LONG
        for _ in range(parts):
            batch = mixture.batch(part_tokens // length, length).to(device)
            yield loss(network, batch) / parts

    return network, loop.run(losses)


def target_loss(network: Network, batch: Tensor) -> Tensor:
    """Cross entropy of the last layer + EXIT_WEIGHT * that of EXIT_LAYER; batch [B, T + 1]."""
    inputs, wanted = batch[:, :-1], batch[:, 1:]
    states = list(network.states(inputs))
    early = states[min(EXIT_LAYER, len(states)) - 1]
    last_loss = cross_entropy(network, states[-1], wanted)
    early_loss = cross_entropy(network, early[:, ::EXIT_STRIDE], wanted[:, ::EXIT_STRIDE])
    return last_loss + EXIT_WEIGHT * early_loss


def cross_entropy(network: Network, hidden: Tensor, wanted: Tensor) -> Tensor:
    """Mean nats per token; hidden [B, T, D], wanted [B, T]."""
    return F.cross_entropy(network.logits(hidden).float().flatten(0, 1), wanted.flatten())
