"""The folder of a drafting head: a config.json and weights that have to fit the target.

Knows nothing of what a head computes.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from specviz.errors import InputError
from specviz.records import ModelInfo


class HeadWeights:
    """Reads a folder for what it should hold; every question raises InputError if it does not."""

    def __init__(self, title: str, folder: Path) -> None:
        """`title` is what the head is called in messages, such as "EAGLE head"."""
        self._subject = f"{title} in {str(folder)!r}"
        self._folder = folder
        self.config = self._read_config(folder)
        self.bytes = 0  # of the tensors taken so far
        self.numbers = 0  # in them

    def number(self, key: str, least: int = 1) -> int:
        """A whole number of the configuration."""
        value = self.config.get(key)
        if key not in self.config:
            raise self.error(
                f"must have {key} in its config.json, got none: is it of another kind?"
            )
        if type(value) is not int or value < least:
            raise self.error(f"must have {key} >= {least}, got {reprlib.repr(value)}")
        return value

    def fit_width(self, target: ModelInfo, key: str = "hidden_size") -> None:
        """Insist that the head was made for the hidden states of such a target."""
        self.fit_states(target.name, target.hidden_size, key)

    def fit_states(self, target: str, states: int, key: str = "hidden_size") -> None:
        """As `fit_width`, of a target of which no more than its name and that number is known."""
        width = self.number(key)
        if width != states:
            raise self.error(f"must have {key} {states} like {target}, got {width}")

    def rename(self, start: str, other: str) -> None:
        """What begins the names of tensors, a regular expression, is `other` from now on."""
        self._tensors = {
            re.sub(f"^(?:{start})", other, name): tensor for name, tensor in self._tensors.items()
        }

    def has(self, name: str) -> bool:
        """Whether there is such a tensor."""
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Of a tensor; None where there is none of that name."""
        held = self._tensors.get(name)
        return None if held is None else tuple(held.shape)

    def skip(self, names: Iterable[str]) -> None:
        """Tensors of these names say nothing that is needed."""
        for name in names:
            self._tensors.pop(name, None)

    def tensor(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """A tensor of the weights; each can be taken once."""
        held = self._tensors.pop(name, None)
        if held is None:
            raise self.error(f"has no tensor {name}")
        if tuple(held.shape) != shape:
            raise self.error(f"must have {name} of shape {shape}, got {tuple(held.shape)}")
        if not held.isfinite().all():
            raise self.error(f"must have finite weights, got NaN or infinity in {name}")
        taken = held.to(device, dtype)
        self.bytes += taken.nbytes
        self.numbers += taken.numel()
        return taken

    def finish(self) -> None:
        """Refuse tensors that nobody asked for: the head would compute something else."""
        if self._tensors:
            raise self.error(f"has a tensor that is not part of it: {min(self._tensors)}")

    def error(self, problem: str) -> InputError:
        return InputError(f"{self._subject} {problem}")

    def _read_config(self, folder: Path) -> dict[str, Any]:
        try:
            content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except OSError:
            raise self.error("has no config.json that can be read") from None
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise self.error("has a broken config.json: it is no JSON object")
        return content

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        kinds = ("*.safetensors", "*.bin", "*.pt")
        files = next((found for kind in kinds if (found := sorted(self._folder.glob(kind)))), [])
        if not files:
            raise self.error(f"must have its weights as {', '.join(kinds)}, found none")
        try:
            parts = [_read(file) for file in files]
        except Exception as error:  # each library raises classes of its own, and the system's
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise self.error(f"has weights that cannot be read: {line[:200]}") from None
        return {name: tensor for part in parts for name, tensor in part.items()}


def _read(file: Path) -> dict[str, Tensor]:
    """A pickled file is read for its tensors alone: what else it holds is refused, never run."""
    held: dict[str, Tensor]
    if file.suffix == ".safetensors":
        held = load_file(file)
        return held
    held = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(held, dict) or not all(isinstance(each, Tensor) for each in held.values()):
        raise ValueError(f"{file.name} is no table of tensors")
    return held
