"""Train the draft on the probabilities that the target gives to its most probable tokens.

The draft learns from a teacher cache. The cache holds texts, and the target's probabilities of the
TOP most probable next tokens at every position. Half of the texts are from the corpus. The target
itself wrote the other half.

In shapes, N is the number of windows of text in the cache, B that in a batch, T the number of
tokens of a window, V the size of the vocabulary, and k the number of most probable tokens.
"""

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import LlamaConfig

from specviz.training.network import Network, sample
from specviz.training.pretraining import (
    Progress,
    Rates,
    ShuffledPasses,
    TrainingLoop,
    llama_config,
)
from specviz.training.token_files import TokenMixture

TOP = 32
WINDOW = 256
TEMPERATURES = (0.0, 0.0, 0.3, 0.7, 1.0)
PREFIXES = (8, 16, 32, 64)
Judged = tuple[NDArray[np.uint16], NDArray[np.uint16], NDArray[np.float16]]


@dataclass(frozen=True, slots=True)
class TeacherCache:
    """Windows of text with the target's distributions.

    `tokens` is [N, WINDOW + 1]. Each token except the last has the ids and probabilities of the TOP
    most probable next tokens.
    """

    tokens: NDArray[np.uint16]
    top_ids: NDArray[np.uint16]  # [N, WINDOW, TOP]
    top_probs: NDArray[np.float16]  # [N, WINDOW, TOP]

    @classmethod
    def open(cls, folder: Path) -> "TeacherCache":
        """Open a saved teacher cache. Its arrays are memory-mapped."""
        parts = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in cls.__slots__)
        return cls(*parts)

    def written(self, rows: int) -> NDArray[np.uint16]:
        """Return the tokens of all windows that the target wrote, [N / 2, WINDOW + 1].

        `rows` is the argument with which `make_cache` made this cache.
        """
        width = self.tokens.shape[1]
        return self.tokens.reshape(-1, 2, rows, width)[:, 1].reshape(-1, width)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.__slots__:
            np.save(folder / f"{name}.npy", getattr(self, name))


def make_cache(
    network: Network,
    mixture: TokenMixture,
    folder: Path,
    seconds: float,
    rows: int = 192,
    window: int = WINDOW,
) -> TeacherCache:
    """Make a teacher cache in `folder`, with as many windows of text as `seconds` allow.

    If the folder already has a cache, open it.

    The target writes half of the windows; the other half is from the corpus. There are at least
    `rows` windows of each kind.
    """
    if not (folder / "top_probs.npy").exists():
        parts: list[Judged] = []
        deadline = time.monotonic() + seconds
        while not parts or time.monotonic() < deadline:
            prefix = PREFIXES[len(parts) // 2 % len(PREFIXES)]
            parts.append(judge(network, mixture.batch(rows, window)))
            parts.append(judge(network, _written(network, mixture, rows, prefix, window + 1)))
            _report(len(parts) * rows * window, deadline)
        TeacherCache(*(np.concatenate(column) for column in zip(*parts, strict=True))).save(folder)
    return TeacherCache.open(folder)


def _written(network: Network, mixture: TokenMixture, rows: int, prefix: int, total: int) -> Tensor:
    """Let the target continue random beginnings of documents; return token ids [rows, total].

    A beginning has `prefix` tokens.
    """
    device = network.model.embed_tokens.weight.device
    order = torch.arange(rows, device=device) % len(TEMPERATURES)
    temperatures = torch.tensor(TEMPERATURES, device=device)[order]
    return sample(network, mixture.beginnings(rows, prefix).to(device), total, temperatures)


@torch.no_grad()
def judge(network: Network, tokens: Tensor) -> Judged:
    """Compute the target's TOP most probable next tokens at every position of some texts.

    `tokens` is [N, T + 1]. Return `tokens`, and the ids and probabilities of the next tokens, each
    [N, T, TOP].
    """
    device = network.model.embed_tokens.weight.device
    ids, probs = [], []
    for part in torch.split(tokens[:, :-1].to(device), 8):
        top = network(part).float().softmax(-1).topk(TOP, dim=-1)
        ids.append(top.indices.cpu().numpy().astype(np.uint16))
        probs.append(top.values.half().cpu().numpy())
    return tokens.cpu().numpy().astype(np.uint16), np.concatenate(ids), np.concatenate(probs)


def _report(tokens: int, deadline: float) -> None:
    left = max(0.0, deadline - time.monotonic()) / 60
    print(f"teacher: {tokens / 1e6:.2f} M tokens, {left:.1f} min left", file=sys.stderr, flush=True)


ROWS = 16  # number of windows of text per training step
SMALLEST = 1e-6  # smallest probability in the loss, so that logarithms stay finite


def draft_config() -> LlamaConfig:
    """Return the shape of the draft: two narrow layers, so that its forward takes little time."""
    return llama_config(layers=2, width=192, inner=512)


class CacheReader(ShuffledPasses):
    """Shuffled passes over a TeacherCache, as a data source for TrainingLoop."""

    def __init__(self, cache: TeacherCache, seed: int) -> None:
        super().__init__(len(cache.tokens), seed)
        self.cache = cache

    def batch(self, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the next windows: tokens [B, T], top ids [B, T, k] and probabilities [B, T, k]."""
        return self.lines(self.pick(rows))

    def pick(self, rows: int) -> list[int]:
        """Return the indices of the next `rows` windows of the current pass over the cache."""
        if len(self.waiting) < rows:
            self.begin_pass()
        picked = sorted(self.waiting.pop() for _ in range(min(rows, len(self.waiting))))
        self.tokens_read += len(picked) * (self.cache.tokens.shape[1] - 1)
        return picked

    def lines(self, picked: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the cached arrays of the windows `picked`, a list of B indices.

        -> tokens [B, T], top ids [B, T, k], probabilities [B, T, k]
        """
        return (
            torch.from_numpy(self.cache.tokens[picked][:, :-1].astype(np.int64)),
            torch.from_numpy(self.cache.top_ids[picked].astype(np.int64)),
            torch.from_numpy(self.cache.top_probs[picked].astype(np.float32)),
        )


def distil(
    config: LlamaConfig,
    cache: TeacherCache,
    checkpoint: Path,
    seconds: float,
    device: str = "cpu",
    compiled: bool = True,
) -> tuple[Network, Progress]:
    """Train a draft for `seconds`. Return the draft and the progress of its training."""
    torch.manual_seed(1)
    network = Network(config).to(device)
    reader = CacheReader(cache, seed=0)
    loop = TrainingLoop(network, reader, checkpoint, seconds, Rates())
    loss = torch.compile(draft_loss, dynamic=False) if compiled else draft_loss

    def losses(fraction: float) -> Iterator[Tensor]:
        yield loss(network, *(part.to(device) for part in reader.batch(ROWS)))

    return network, loop.run(losses)


def draft_loss(network: Network, tokens: Tensor, top_ids: Tensor, top_probs: Tensor) -> Tensor:
    """Return the mean divergence of the draft from the target's distributions, per position.

    `tokens` is [B, T]. `top_ids` and `top_probs` are [B, T, k].
    """
    return divergence(network(tokens), top_ids, top_probs)


def divergence(
    logits: Tensor, top_ids: Tensor, top_probs: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return the mean KL(target || draft) per position in nats.

    All tokens outside the top tokens count as one token. `logits` is [..., V]; `top_ids` and
    `top_probs` are [..., k], where an entry of probability 0 is ignored. `weights` [...] are the
    weights of the positions; without them all positions count equally. The result is 0 if draft and
    target give the same probability to each top token and to all other tokens together.
    """
    log_draft = logits.float().log_softmax(-1).gather(-1, top_ids)  # [..., k]
    log_draft = log_draft.masked_fill(top_probs == 0, math.log(SMALLEST))
    rest = (1 - top_probs.sum(-1)).clamp_min(SMALLEST)
    log_rest = torch.log1p(-log_draft.exp().sum(-1).clamp_max(1 - SMALLEST))
    inside = (top_probs * (top_probs.clamp_min(SMALLEST).log() - log_draft)).sum(-1)
    each = inside + rest * (rest.log() - log_rest)
    if weights is None:
        return each.mean()
    mean: Tensor = (each * weights).sum() / weights.sum().clamp_min(SMALLEST)
    return mean
