"""A training loop with a time budget, and the training of the target, with an early-exit loss.

The early exit is the target without its layers after EXIT_LAYER. In shapes, B is the number of
windows of text, T the number of tokens of a window, and D the hidden size.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig

from specviz.training.network import Network
from specviz.training.token_files import VOCABULARY, TokenMixture

# Learning rates depend on the elapsed share of the time budget.

WARM_UP = 0.01  # share of the time budget in which the learning rate rises
PLATEAU_END = 0.35  # share of the time budget after which the learning rate falls linearly
# learning rate at the end of the time budget, divided by the highest learning rate
LAST_RATE = 0.03
ADAM_BETAS = (0.9, 0.95)
CHECKPOINT_SECONDS = 180.0
REPORT_SECONDS = 15.0
# matrices with one row per token, which AdamW trains instead of Muon
TABLES = ("embed_tokens", "output")


@dataclass(frozen=True, slots=True)
class Rates:
    """The highest learning rate of each kind of weights, and the weight decay of the matrices."""

    matrix: float = 0.02
    other: float = 0.004
    decay: float = 0.1


@dataclass(slots=True)
class Progress:
    """The progress of a training run, which every checkpoint stores."""

    step: int = 0
    elapsed_seconds: float = 0.0
    tokens: int = 0
    smooth_loss: float = math.nan


class DataSource(Protocol):
    """A source of batches.

    A checkpoint contains its state, so that a training run can be resumed.
    """

    tokens_read: int

    def state_dict(self) -> dict[str, object]:
        """Return the state of the source, which determines the next batches."""
        ...

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Continue from a state that `state_dict` returned."""
        ...


class ShuffledPasses:
    """Shuffled passes over the indices of a data set. Each index occurs once per pass."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.chance = np.random.default_rng(seed)
        self.waiting: list[int] = []  # indices of the current pass; the last entry is used next
        self.tokens_read = 0

    def begin_pass(self) -> None:
        self.waiting = self.chance.permutation(self.count).tolist()

    def state_dict(self) -> dict[str, object]:
        return {
            "chance": self.chance.bit_generator.state,
            "waiting": self.waiting,
            "tokens_read": self.tokens_read,
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Continue from a saved state, without the waiting indices that no longer exist."""
        chance, waiting = state["chance"], state["waiting"]
        assert isinstance(chance, dict) and isinstance(waiting, list)
        self.chance.bit_generator.state = chance
        self.waiting = [part for part in waiting if part < self.count]
        self.tokens_read = int(str(state["tokens_read"]))


def rate_factor(fraction: float) -> float:
    """Return the learning rate after a share of the time budget, divided by the highest rate.

    The rate rises, stays constant, and then falls linearly to LAST_RATE. For example, 0.005 of the
    budget gives 0.5, 0.2 gives 1, and 1 gives 0.03.
    """
    if fraction < WARM_UP:
        return fraction / WARM_UP
    falling = max(0.0, fraction - PLATEAU_END) / (1 - PLATEAU_END)
    return 1.0 - (1.0 - LAST_RATE) * min(1.0, falling)


class TrainingLoop:
    """A loop that trains `network` until `seconds` are used up, including the time before a resume.

    Muon trains the matrices (K. Jordan, 2024), with the momentum and the scaling that Jordan used.
    AdamW without decay trains all other weights, including the matrices with one row per token.
    """

    def __init__(
        self,
        network: nn.Module,
        data: DataSource,
        checkpoint: Path,
        seconds: float,
        rates: Rates,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create the loop.

        `clock` measures the seconds of the budget, by default in wall-clock time.
        """
        self.network = network
        self.data = data
        self.checkpoint = checkpoint
        self.seconds = seconds
        self.rates = rates
        self.clock = clock or time.monotonic
        self.progress = Progress()
        matrices = [
            weight for name, weight in network.named_parameters() if _is_matrix(name, weight)
        ]
        others = [
            weight for name, weight in network.named_parameters() if not _is_matrix(name, weight)
        ]
        self.muon = torch.optim.Muon(matrices, lr=0.0, weight_decay=rates.decay)
        self.adam = torch.optim.AdamW(
            others, lr=0.0, betas=ADAM_BETAS, weight_decay=0.0, fused=True
        )
        if checkpoint.exists():
            self._load()

    @property
    def fraction(self) -> float:
        """The share of the time budget that is used up."""
        return min(1.0, self.progress.elapsed_seconds / self.seconds)

    def run(
        self, losses: Callable[[float], Iterator[Tensor]], most_steps: int | None = None
    ) -> Progress:
        """Train until the budget or `most_steps` is reached; return the progress.

        `losses(fraction)` yields the losses of a step's parts, each divided by the number of parts.
        """
        begun = self.clock() - self.progress.elapsed_seconds
        saved = reported = begun + self.progress.elapsed_seconds
        while self.fraction < 1 and (most_steps is None or self.progress.step < most_steps):
            self._step(losses)
            now = self.clock()
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
        for optimiser, rate in ((self.muon, self.rates.matrix), (self.adam, self.rates.other)):
            for group in optimiser.param_groups:
                group["lr"] = factor * rate
            optimiser.step()  # type: ignore[no-untyped-call]
            optimiser.zero_grad()
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
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
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
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.data.load_state_dict(state["data"])
        torch.set_rng_state(state["random"])
        self.progress = state["progress"]


def _is_matrix(name: str, weight: nn.Parameter) -> bool:
    return weight.ndim == 2 and not any(part in name for part in TABLES)


EXIT_LAYER = 3
EXIT_WEIGHT = 0.2
EXIT_STRIDE = 4  # the early-exit loss uses every fourth position
STEP_TOKENS = 8192
# number of tokens in one forward and backward pass; a step consists of several passes
PART_TOKENS = 4096
SHORT, LONG = 256, 512
LONG_FROM = 0.75  # share of the time budget after which training reads long windows
SHARES = {"code": 0.30, "story": 0.27, "maths": 0.15, "translate": 0.18, "summarise": 0.10}


def llama_config(
    layers: int = 12, width: int = 256, inner: int = 768, vocabulary: int = VOCABULARY
) -> LlamaConfig:
    """Return the shape of a model that this package trains.

    It has heads of width 64, tied embeddings, 1,024 positions and theta 10,000.
    """
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
    """Train a target for `seconds`, or continue its training from a checkpoint.

    Return the target and the progress of the training.
    """
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
    """Return the cross entropy of the target, including that of its early exit.

    The result is the cross entropy after the last layer plus EXIT_WEIGHT times the cross entropy
    after layer EXIT_LAYER.

    `batch` is [B, T + 1].
    """
    inputs, wanted = batch[:, :-1], batch[:, 1:]
    states = list(network.states(inputs))
    early = states[min(EXIT_LAYER, len(states)) - 1]
    last_loss = cross_entropy(network, states[-1], wanted)
    early_loss = cross_entropy(network, early[:, ::EXIT_STRIDE], wanted[:, ::EXIT_STRIDE])
    return last_loss + EXIT_WEIGHT * early_loss


def cross_entropy(network: Network, hidden: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean cross entropy in nats per token; hidden [B, T, D], wanted [B, T]."""
    return F.cross_entropy(network.logits(hidden).float().flatten(0, 1), wanted.flatten())
