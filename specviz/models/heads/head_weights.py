"""Read the folder of a drafting head: a config.json, and weights that must fit the target.

This module knows nothing about what a head computes.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from specviz.errors import InputError
from specviz.records import ModelInfo


class HeadWeights:
    """A reader of a head's folder. Every method raises InputError if the content is wrong."""

    def __init__(self, title: str, folder: Path) -> None:
        """Read the head's configuration.

        Messages call the head `title`, for example "EAGLE head".
        """
        self._subject = f"{title} in {str(folder)!r}"
        self._folder = folder
        self.config = self._read_config(folder)
        self.bytes = 0  # number of bytes of the tensors that were read so far
        self.numbers = 0  # number of elements of the tensors that were read so far

    def number(self, key: str, least: int = 1) -> int:
        """Return the whole number, at least `least`, in field `key` of the head's configuration."""
        value = self.config.get(key)
        if key not in self.config:
            raise self.error(
                f"must have {key} in its config.json, got none: is it another kind of head?"
            )
        if type(value) is not int or value < least:
            raise self.error(f"must have {key} >= {least}, got {reprlib.repr(value)}")
        return value

    def fit_width(self, target: ModelInfo, key: str = "hidden_size") -> None:
        """Raise InputError if the head was made for another hidden size than the target's."""
        self.fit_states(target.name, target.hidden_size, key)

    def fit_states(self, target: str, states: int, key: str = "hidden_size") -> None:
        """Raise InputError if the head was made for a target whose hidden size is not `states`.

        Unlike `fit_width`, this method needs only the target's name and hidden size.
        """
        width = self.number(key)
        if width != states:
            raise self.error(f"must have {key} {states} like {target}, got {width}")

    def rename(self, start: str, other: str) -> None:
        """Replace the beginning of tensor names.

        The part that matches the regular expression `start` becomes `other`.
        """
        self._tensors = {
            re.sub(f"^(?:{start})", other, name): tensor for name, tensor in self._tensors.items()
        }

    def has(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of the tensor with this name, or None if it does not exist."""
        held = self._tensors.get(name)
        return None if held is None else tuple(held.shape)

    def skip(self, names: Iterable[str]) -> None:
        """Drop tensors that the head does not need, so that `finish` does not report them."""
        for name in names:
            self._tensors.pop(name, None)

    def tensor(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Take a tensor out of the weights. Check its shape and convert it to the dtype and device.

        Each tensor can be taken once.
        """
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
        """Raise InputError if a tensor was not used.

        Without that tensor, the head would not compute what its author intended.
        """
        if self._tensors:
            raise self.error(
                f"has the tensor {min(self._tensors)}, which heads of this kind lack: is it "
                "another kind of head?"
            )

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
            raise self.error("has a broken config.json: it is not a JSON object")
        return content

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        kinds = ("*.safetensors", "*.bin", "*.pt")
        files = next((found for kind in kinds if (found := sorted(self._folder.glob(kind)))), [])
        if not files:
            raise self.error(f"must have its weights as {', '.join(kinds)}, found none")
        try:
            parts = [_read(file) for file in files]
        except UnpicklingError:
            raise self.error(
                "has weights that cannot be read: they hold more than tensors, and such a file may "
                "run code; choose safetensors"
            ) from None
        except Exception as error:
            # Catch every error, because safetensors, torch and the operating system raise different
            # errors.
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise self.error(f"has weights that cannot be read: {line[:200]}") from None
        return {name: tensor for part in parts for name, tensor in part.items()}


def _read(file: Path) -> dict[str, Tensor]:
    """Read the tensors in a file.

    A pickle that contains anything besides tensors is refused: its code never runs.
    """
    held: dict[str, Tensor]
    if file.suffix == ".safetensors":
        held = load_file(file)
        return held
    held = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(held, dict) or not all(isinstance(each, Tensor) for each in held.values()):
        raise ValueError(f"{file.name} is not a table of tensors")
    return held
