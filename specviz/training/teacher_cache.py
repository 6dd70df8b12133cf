"""What the finished target thinks of some texts: its TOP likeliest tokens at every position.

Half of the texts are windows of the corpus, half the target wrote itself. Knows nothing of
those that learn from it.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.training.generation import sample
from specviz.training.network import Network
from specviz.training.token_file import TokenMixture

TOP = 32
WINDOW = 256
TEMPERATURES = (0.0, 0.0, 0.3, 0.7, 1.0)
PREFIXES = (8, 16, 32, 64)
Judged = tuple[NDArray[np.uint16], NDArray[np.uint16], NDArray[np.float16]]


@dataclass(frozen=True, slots=True)
class TeacherCache:
    """tokens [N, WINDOW + 1]; after each but the last the TOP ids and probabilities."""

    tokens: NDArray[np.uint16]
    top_ids: NDArray[np.uint16]  # [N, WINDOW, TOP]
    top_probs: NDArray[np.float16]  # [N, WINDOW, TOP]

    @classmethod
    def open(cls, folder: Path) -> "TeacherCache":
        """Memory-mapped."""
        parts = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in cls.__slots__)
        return cls(*parts)

    def written(self, rows: int) -> NDArray[np.uint16]:
        """The tokens of all windows that the target wrote; `rows` as in `make_cache`."""
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
    """The windows that fit in `seconds`, half read and half written; at least `rows` of both."""
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
    """Text that the network wrote after the beginnings of documents, [rows, total]."""
    device = network.model.embed_tokens.weight.device
    order = torch.arange(rows, device=device) % len(TEMPERATURES)
    temperatures = torch.tensor(TEMPERATURES, device=device)[order]
    return sample(network, mixture.beginnings(rows, prefix).to(device), total, temperatures)


@torch.no_grad()
def judge(network: Network, tokens: Tensor) -> Judged:
    """tokens [N, T + 1] with the TOP ids and probabilities after each but the last."""
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
