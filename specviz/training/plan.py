"""The plan of a training run: what it makes, from which files, and in how much time."""

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
    """The steps of a training run, in order. All but the first step need a finished target."""

    PAIR = "pair"
    SELF_DRAFTING = "self-drafting"
    EAGLE = "eagle"
    MEDUSA = "medusa"
    FOREIGN_DRAFT = "foreign-draft"


class Share:
    """The share of the time budget that each step gets.

    The shares sum to less than 1: the remaining time is for writing texts, computing features and
    evaluation.
    """

    TARGET = 0.425
    CACHE = 0.05
    DRAFT = 0.06
    EAGLE = 0.17
    MEDUSA = 0.09
    FOREIGN_DRAFT = 0.09


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """A plan of a training run, with all steps of the model family or only some of them.

    A step gets the same share of `minutes`, whether or not the plan has other steps.
    """

    corpus: Path
    output: Path
    work: Path
    minutes: float
    steps: tuple[Step, ...] = tuple(Step)
    device: str = "cpu"
    compiled: bool = True
    # folder with Python modules to train on; None means the running Python's library
    library: Path | None = None
    target: LlamaConfig = field(default_factory=llama_config)
    draft: LlamaConfig = field(default_factory=draft_config)
    eagle: LlamaConfig = field(default_factory=eagle_config)
    foreign: LlamaConfig = field(default_factory=foreign_config)
    step_tokens: int = STEP_TOKENS
    cache_rows: int = 192
    cache_window: int = WINDOW

    def seconds(self, share: float) -> float:
        """Return the seconds in a share of the time budget."""
        return 60 * self.minutes * share

    @property
    def machine(self) -> str:
        """A text that describes the machine on which the plan runs."""
        return machine(self.device)


def machine(device: str = "cpu") -> str:
    """Return a text that describes the machine of a device."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{os.cpu_count()} shared {platform.machine()} CPU cores"
