"""What the finished target makes of cached texts: its feature at every position.

A feature is the hidden state after the final norm; the tied head turns it into the distribution of
the next token. Knows nothing of the heads that are trained on it.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.training.distillation import CacheReader
from specviz.training.network import Network
from specviz.training.teacher_cache import TeacherCache

ROWS = 16  # windows a forward
REPORT_ROWS = 50 * ROWS
Features = NDArray[np.float16]  # [N, T, W]


class Lesson(NamedTuple):
    """Windows for a head to learn from."""

    tokens: Tensor  # [B, T]
    top_ids: Tensor  # [B, T, k]: of the target's distribution after each token
    top_probs: Tensor  # [B, T, k]
    features: Tensor  # [B, T, W]

    def to(self, device: str) -> "Lesson":
        """The same on a device."""
        return Lesson(*(part.to(device) for part in self))


class LessonReader(CacheReader):
    """Shuffled passes over a teacher cache and its features."""

    def __init__(self, cache: TeacherCache, features: Features, seed: int) -> None:
        super().__init__(cache, seed)
        self.features = features

    def lesson(self, rows: int) -> Lesson:
        """The next `rows` windows."""
        picked = self.pick(rows)
        features = torch.from_numpy(self.features[picked].astype(np.float32))
        return Lesson(*self.lines(picked), features)


def make_features(network: Network, tokens: NDArray[np.uint16], path: Path) -> Features:
    """Features of all but the last token of each row of `tokens` [N, T + 1], memory-mapped."""
    if not path.exists():
        partial = path.with_suffix(".partial")
        shape = (len(tokens), tokens.shape[1] - 1, network.config.hidden_size)
        made = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float16, shape=shape)
        for start in range(0, len(tokens), ROWS):
            rows = torch.from_numpy(tokens[start : start + ROWS, :-1].astype(np.int64))
            made[start : start + ROWS] = features(network, rows).half().cpu().numpy()
            if start % REPORT_ROWS == 0:
                print(f"features: {start} of {len(tokens)} rows", file=sys.stderr, flush=True)
        made.flush()
        partial.replace(path)
    found: Features = np.load(path, mmap_mode="r")
    return found


@torch.no_grad()
def features(network: Network, token_ids: Tensor) -> Tensor:
    """token_ids [B, T] -> features [B, T, W] in float32, on the network's device."""
    *_, last = network.states(token_ids.to(network.model.embed_tokens.weight.device))
    normed: Tensor = network.model.norm(last, torch.float32)
    return normed
