"""Trains Medusa heads: each foretells the token one place further than the one before.

With feature h(n - 1), from which the target itself draws the token at n, head i (from 0) gives the
distribution of the token at n + i + 1: a residual block, then an output matrix of its own (Cai et
al., Medusa, arXiv 2401.10774). Heads learn apart from each other and leave the target as it is.
Knows nothing of how features were cached.

Letters: B rows, T positions, W width, V vocabulary.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.training.distillation import divergence
from specviz.training.feature_cache import Features, Lesson, LessonReader
from specviz.training.loop import Progress, Rates, TrainingLoop
from specviz.training.network import linear
from specviz.training.teacher_cache import TeacherCache

HEADS = 4
ROWS = 8  # windows a step
RATES = Rates(other=0.001)  # output matrices begin as the target's, which is trained


class MedusaHead(nn.Module):
    """x + SiLU(residual(x)), then the output matrix; at first it says what the target says."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        vocabulary, width = table.shape
        self.residual = nn.Linear(width, width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        nn.init.zeros_(self.residual.weight)
        nn.init.zeros_(self.residual.bias)
        with torch.no_grad():
            self.output.weight.copy_(table)

    def forward(self, features: Tensor) -> Tensor:
        """features [..., W] -> logits [..., V], in the dtype of the features."""
        bias = self.residual.bias.to(features.dtype)
        moved = features + F.silu(linear(features, self.residual) + bias)
        return linear(moved, self.output)


class MedusaNetwork(nn.Module):
    """All heads over one feature. `dtype` is that of the products; weights stay float32."""

    def __init__(
        self, table: Tensor, heads: int = HEADS, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        super().__init__()
        self.vocabulary, self.width = table.shape
        self.dtype = dtype
        self.heads = nn.ModuleList(MedusaHead(table) for _ in range(heads))

    def forward(self, features: Tensor) -> Iterator[Tensor]:
        """features [B, T, W] -> per head the logits where the window knows what it foretells.

        Head i: [B, T - i - 1, V].
        """
        for index, head in enumerate(self.heads):
            yield head(features[:, : -index - 1].to(self.dtype))


def train_medusa(
    cache: TeacherCache,
    features: Features,
    table: Tensor,
    checkpoint: Path,
    seconds: float,
    device: str = "cpu",
    compiled: bool = True,
) -> tuple[MedusaNetwork, Progress]:
    """Heads trained for `seconds` (resumed if begun); table [V, W] is the target's tied head."""
    network = MedusaNetwork(table).to(device)
    reader = LessonReader(cache, features, seed=3)
    loop = TrainingLoop(network, reader, checkpoint, seconds, RATES)
    loss = torch.compile(medusa_loss, dynamic=False) if compiled else medusa_loss

    def losses(fraction: float) -> Iterator[Tensor]:
        yield loss(network, reader.lesson(ROWS).to(device))

    return network, loop.run(losses)


def medusa_loss(network: MedusaNetwork, lesson: Lesson) -> Tensor:
    """Mean over heads of the divergence from the target's distribution one place further per
    head.
    """
    parts = [
        divergence(logits, lesson.top_ids[:, index + 1 :], lesson.top_probs[:, index + 1 :])
        for index, logits in enumerate(network(lesson.features))
    ]
    return torch.stack(parts).mean()
