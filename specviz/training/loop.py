"""A training loop with a budget in seconds: rates follow its elapsed share; it can resume.

Knows nothing of what the loss is.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from specviz.training.muon import MuonAndAdam

WARM_UP = 0.01  # share of the budget
PLATEAU_END = 0.35  # from here the rate falls in a line
LAST_RATE = 0.03  # of the highest
CHECKPOINT_SECONDS = 180.0
REPORT_SECONDS = 15.0
TABLES = ("embed_tokens", "output")  # a row per token: no matrices to Muon


@dataclass(frozen=True, slots=True)
class Rates:
    """The highest learning rates, and the decay of the matrices."""

    matrix: float = 0.02
    other: float = 0.004
    decay: float = 0.1


@dataclass(slots=True)
class Progress:
    """How far a run is; survives a resume."""

    step: int = 0
    elapsed_seconds: float = 0.0
    tokens: int = 0
    smooth_loss: float = math.nan


class DataSource(Protocol):
    """Where batches come from: its state is saved with the weights."""

    tokens_read: int

    def state_dict(self) -> dict[str, object]:
        """All that decides the batches to come."""
        ...

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from there."""
        ...


def rate_factor(fraction: float) -> float:
    """Share of the highest rate at a share of the budget: up, level, then in a line to LAST_RATE.

    0.005 -> 0.5, 0.2 -> 1, 1 -> 0.03
    """
    if fraction < WARM_UP:
        return fraction / WARM_UP
    falling = max(0.0, fraction - PLATEAU_END) / (1 - PLATEAU_END)
    return 1.0 - (1.0 - LAST_RATE) * min(1.0, falling)


class TrainingLoop:
    """Trains `network` until `seconds` are used up, over all resumes together."""

    def __init__(
        self, network: nn.Module, data: DataSource, checkpoint: Path, seconds: float, rates: Rates
    ) -> None:
        self.network = network
        self.data = data
        self.checkpoint = checkpoint
        self.seconds = seconds
        self.rates = rates
        self.progress = Progress()
        matrices = [
            weight for name, weight in network.named_parameters() if _is_matrix(name, weight)
        ]
        others = [
            weight for name, weight in network.named_parameters() if not _is_matrix(name, weight)
        ]
        self.optimiser = MuonAndAdam(matrices, others, rates.decay)
        if checkpoint.exists():
            self._load()

    @property
    def fraction(self) -> float:
        """The share of the budget that is used up."""
        return min(1.0, self.progress.elapsed_seconds / self.seconds)

    def run(
        self, losses: Callable[[float], Iterator[Tensor]], most_steps: int | None = None
    ) -> Progress:
        """`losses(fraction)` yields the losses of a step's parts, divided by their number."""
        begun = time.monotonic() - self.progress.elapsed_seconds
        saved = reported = begun + self.progress.elapsed_seconds
        while self.fraction < 1 and (most_steps is None or self.progress.step < most_steps):
            self._step(losses)
            now = time.monotonic()
            self.progress.elapsed_seconds = now - begun
            if now - reported > REPORT_SECONDS:
                reported = now
                self._report()
            if now - saved > CHECKPOINT_SECONDS:
                saved = now
                self._save()
        self._save()
        self._report()
        return self.progress

    def _step(self, losses: Callable[[float], Iterator[Tensor]]) -> None:
        total = 0.0
        for loss in losses(self.fraction):
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        factor = rate_factor(self.fraction)
        self.optimiser.step(factor * self.rates.matrix, factor * self.rates.other)
        progress = self.progress
        progress.step += 1
        progress.tokens = self.data.tokens_read
        progress.smooth_loss = (
            total
            if math.isnan(progress.smooth_loss)
            else 0.98 * progress.smooth_loss + 0.02 * total
        )

    def _report(self) -> None:
        progress = self.progress
        speed = progress.tokens / max(progress.elapsed_seconds, 1e-9)
        left = max(0.0, self.seconds - progress.elapsed_seconds) / 60
        print(
            f"{self.checkpoint.stem}: step {progress.step}, {progress.tokens / 1e6:.2f} M tokens,"
            f" loss {progress.smooth_loss:.3f}, {speed:.0f} tokens/s, {left:.1f} min left",
            file=sys.stderr,
            flush=True,
        )

    def _save(self) -> None:
        state = {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "data": self.data.state_dict(),
            "random": torch.get_rng_state(),
            "progress": self.progress,
        }
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)

    def _load(self) -> None:
        state: dict[str, Any] = torch.load(self.checkpoint, map_location="cpu", weights_only=False)
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.data.load_state_dict(state["data"])
        torch.set_rng_state(state["random"])
        self.progress = state["progress"]


def _is_matrix(name: str, weight: nn.Parameter) -> bool:
    return weight.ndim == 2 and not any(part in name for part in TABLES)
