"""What a run makes, from which files, and in how much time."""

import os
import platform
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import torch
from transformers import LlamaConfig

from specviz.training.distillation import WINDOW, draft_config
from specviz.training.foreign_training import foreign_config
from specviz.training.head_training import eagle_config
from specviz.training.pretraining import STEP_TOKENS, llama_config


class Step(StrEnum):
    """The steps of a run, in order; all but the pair need a finished target."""

    PAIR = "pair"
    SELF_DRAFTING = "self-drafting"
    EAGLE = "eagle"
    MEDUSA = "medusa"
    FOREIGN_DRAFT = "foreign-draft"


class Share:
    """Shares of the budget; the rest goes to text, features and evaluation."""

    TARGET = 0.425
    CACHE = 0.05
    DRAFT = 0.06
    EAGLE = 0.17
    MEDUSA = 0.09
    FOREIGN_DRAFT = 0.09


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """The whole family or some steps of it; a step's share of `minutes` is the same in both."""

    corpus: Path
    output: Path
    work: Path
    minutes: float
    steps: tuple[Step, ...] = tuple(Step)
    device: str = "cpu"
    compiled: bool = True
    library: Path | None = None  # None: that of the running interpreter
    target: LlamaConfig = field(default_factory=llama_config)
    draft: LlamaConfig = field(default_factory=draft_config)
    eagle: LlamaConfig = field(default_factory=eagle_config)
    foreign: LlamaConfig = field(default_factory=foreign_config)
    step_tokens: int = STEP_TOKENS
    cache_rows: int = 192
    cache_window: int = WINDOW

    def seconds(self, share: float) -> float:
        """Seconds of a share of the budget."""
        return 60 * self.minutes * share

    @property
    def machine(self) -> str:
        """The machine it runs on, in words."""
        return machine(self.device)


def machine(device: str = "cpu") -> str:
    """A device's machine in words."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{os.cpu_count()} shared {platform.machine()} CPU cores"
