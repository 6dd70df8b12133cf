"""Where the weights of a model go: one device, or several GPUs where one is too small.

Knows nothing of files.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from specviz.errors import InputError
from specviz.models.memory import free_bytes, gigabytes

_KEPT = 0.1  # of each GPU, for caches and the draft, where a target is spread


@dataclass(frozen=True, slots=True)
class Placement:
    """A device, or all GPUs with `device` as the first of them."""

    device: torch.device
    is_spread: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """What transformers must be told for it."""
        if not self.is_spread:
            return {}
        room = {i: int(free * (1 - _KEPT)) for i, free in enumerate(gpu_bytes())}
        return {"device_map": "auto", "max_memory": room}


def place(source: str, size: int, device: torch.device, dtype: torch.dtype) -> Placement:
    """A place for weights of `size` bytes; InputError where there is none."""
    free = free_bytes(device)
    if free is None or size <= free:
        _check_way(source, size, device)
        return Placement(device)
    if size <= spread_bytes(device):
        return Placement(torch.device("cuda", 0), is_spread=True)
    raise InputError(f"model {source!r} {shortage(size, device, dtype)}")


def _check_way(source: str, size: int, device: torch.device) -> None:
    """Weights of a GPU pass through main memory."""
    free = free_bytes(torch.device("cpu"))
    if device.type == "cuda" and free is not None and size > free:
        raise InputError(
            f"model {source!r} must pass through main memory with {gigabytes(size)}, "
            f"{gigabytes(free)} are free: choose a smaller one"
        )


def room_bytes(device: torch.device) -> int | None:
    """The most that models can take there, spread or not; None where the machine does not say."""
    free = free_bytes(device)
    return None if free is None else max(free, spread_bytes(device))


def spread_bytes(device: torch.device) -> int:
    """What all GPUs together leave for a model that is spread over them; 0 where that cannot be."""
    gpus = gpu_bytes() if device.type == "cuda" else []
    can_spread = len(gpus) > 1 and importlib.util.find_spec("accelerate") is not None
    return int(sum(gpus) * (1 - _KEPT)) if can_spread else 0


def gpu_bytes() -> list[int]:
    """What each GPU has left."""
    devices = (torch.device("cuda", i) for i in range(torch.cuda.device_count()))
    return [free_bytes(device) or 0 for device in devices]


def dtype_warnings(device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """What the device does not do well."""
    if dtype == torch.float16 and device.type == "cpu":
        yield "float16 is slow on a CPU: choose bfloat16 or float32"
    if dtype == torch.bfloat16 and device.type == "cuda":
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            yield "this GPU has no bfloat16 of its own: choose float16 or float32"


def shortage(size: int, device: torch.device, dtype: torch.dtype) -> str:
    """That `size` bytes do not fit, what would help, and how much is free."""
    name = str(dtype).removeprefix("torch.")
    needs = f"needs about {gigabytes(size)} in {name}"
    gpus = gpu_bytes() if device.type == "cuda" else []
    if len(gpus) > 1 and size <= sum(gpus) * (1 - _KEPT):
        return (
            f"{needs}, one GPU has {gigabytes(max(gpus))} free: install accelerate to spread it "
            f"over {len(gpus)} GPUs"
        )
    free = gigabytes(room_bytes(device) or 0)
    smaller = "a smaller one, or bfloat16" if dtype == torch.float32 else "a smaller one"
    return f"{needs}, {free} are free ({device.type}): choose {smaller}"
