"""Trains the draft to say what the target says: KL divergence to cached target probabilities.

Knows nothing of how the cache was made.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaConfig

from specviz.training.loop import Progress, Rates, TrainingLoop
from specviz.training.network import Network
from specviz.training.pretraining import llama_config
from specviz.training.teacher_cache import TeacherCache

ROWS = 16  # windows a step
SMALLEST = 1e-6  # of a remaining mass


def draft_config() -> LlamaConfig:
    """Two narrow layers: a forward costs a small part of the target's."""
    return llama_config(layers=2, width=192, inner=512)


class CacheReader:
    """Shuffled passes over a TeacherCache; a data source for TrainingLoop."""

    def __init__(self, cache: TeacherCache, seed: int) -> None:
        self.cache = cache
        self.chance = np.random.default_rng(seed)
        self.waiting: list[int] = []
        self.tokens_read = 0

    def batch(self, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """tokens [B, T], top ids [B, T, k], top probabilities [B, T, k]."""
        return self.lines(self.pick(rows))

    def pick(self, rows: int) -> list[int]:
        """The next `rows` windows of the pass."""
        if len(self.waiting) < rows:
            self.waiting = self.chance.permutation(len(self.cache.tokens)).tolist()
        picked = sorted(self.waiting.pop() for _ in range(min(rows, len(self.waiting))))
        self.tokens_read += len(picked) * (self.cache.tokens.shape[1] - 1)
        return picked

    def lines(self, picked: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """What the cache holds of these windows; see `batch`."""
        return (
            torch.from_numpy(self.cache.tokens[picked][:, :-1].astype(np.int64)),
            torch.from_numpy(self.cache.top_ids[picked].astype(np.int64)),
            torch.from_numpy(self.cache.top_probs[picked].astype(np.float32)),
        )

    def state_dict(self) -> dict[str, object]:
        return {
            "chance": self.chance.bit_generator.state,
            "waiting": self.waiting,
            "tokens_read": self.tokens_read,
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        chance, waiting = state["chance"], state["waiting"]
        assert isinstance(chance, dict) and isinstance(waiting, list)
        self.chance.bit_generator.state = chance
        self.waiting = waiting
        self.tokens_read = int(str(state["tokens_read"]))


def distil(
    config: LlamaConfig,
    cache: TeacherCache,
    checkpoint: Path,
    seconds: float,
    device: str = "cpu",
    compiled: bool = True,
) -> tuple[Network, Progress]:
    """A draft trained for `seconds`, and how far it came."""
    torch.manual_seed(1)
    network = Network(config).to(device)
    reader = CacheReader(cache, seed=0)
    loop = TrainingLoop(network, reader, checkpoint, seconds, Rates())
    loss = torch.compile(draft_loss, dynamic=False) if compiled else draft_loss

    def losses(fraction: float) -> Iterator[Tensor]:
        yield loss(network, *(part.to(device) for part in reader.batch(ROWS)))

    return network, loop.run(losses)


def draft_loss(network: Network, tokens: Tensor, top_ids: Tensor, top_probs: Tensor) -> Tensor:
    """Mean divergence per position; tokens [B, T], the rest as in `divergence`."""
    return divergence(network(tokens), top_ids, top_probs)


def divergence(logits: Tensor, top_ids: Tensor, top_probs: Tensor) -> Tensor:
    """Mean KL(target || draft) per position, all tokens outside the target's top as one outcome.

    logits [..., V]; top ids and probabilities [..., k].
    Target (0.7, 0.2, rest 0.1) against an equal draft: 0.
    """
    log_draft = logits.float().log_softmax(-1).gather(-1, top_ids)  # [..., k]
    rest = (1 - top_probs.sum(-1)).clamp_min(SMALLEST)
    log_rest = torch.log1p(-log_draft.exp().sum(-1).clamp_max(1 - SMALLEST))
    inside = (top_probs * (top_probs.clamp_min(SMALLEST).log() - log_draft)).sum(-1)
    mean: Tensor = (inside + rest * (rest.log() - log_rest)).mean()
    return mean
