"""The one test for GPUs: all code that runs only on a GPU first asks `is_accelerator`.

The host launches work on an accelerator and continues without waiting. Code that waits, reads
results or copies therefore has rules that do not apply to a CPU. A test without a GPU can add
another device type to ACCELERATORS; specviz then runs its code for GPUs on that device.
"""

from __future__ import annotations

import torch
from torch import Tensor

ACCELERATORS = {"cuda"}  # the values of `torch.device.type` that count as GPUs


def is_accelerator(device: torch.device) -> bool:
    """Return whether the device is a GPU, which runs its work while the host continues."""
    return device.type in ACCELERATORS


def prepare(device: torch.device) -> None:
    """Set the options of torch for decoding, before a model runs on this device.

    On recent GPUs, torch prefers the attention of cuDNN. cuDNN makes a plan for each exact shape,
    but the shapes of verification change from round to round. This function therefore switches
    cuDNN attention off.
    """
    if is_accelerator(device):
        torch.backends.cuda.enable_cudnn_sdp(False)


def host_buffer(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a tensor of zeros in host memory, [count].

    Copies between this tensor and `device` do not block. For a GPU, the memory is pinned.
    """
    return torch.zeros(count, dtype=dtype, pin_memory=is_accelerator(device))


def pinned(host: Tensor, device: torch.device) -> Tensor:
    """Return the tensor in host memory from which a copy to `device` does not block.

    For a GPU this is pinned memory; the tensor is copied there if necessary. Without pinned memory,
    the driver would copy twice.
    """
    return host.pin_memory() if is_accelerator(device) else host


def upload(host: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to `device` without blocking."""
    return pinned(host, device).to(device, non_blocking=True)
