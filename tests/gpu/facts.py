"""Read facts about the machine: versions, torch's attention kernels, capture, and bandwidth."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from specviz import __version__
from specviz.decoding.clock import mark, wait_for
from specviz.models.files.loading import DTYPES
from specviz.models.graphs.captured_work import CapturedWork, GraphSet
from specviz.models.llama.layer import take_heads
from specviz.models.reading_limit import read_bandwidth
from tests.gpu.probe_results import Results
from tests.gpu.random_models import llama_config
from tests.gpu.scale import Scale
from tests.gpu.step import Measure

PACKAGES = ("torch", "triton", "transformers", "tokenizers", "numpy", "huggingface_hub", "pytest")
QUERY = "name,driver_version,clocks.max.sm,clocks.sm,clocks.mem,power.limit,temperature.gpu"
SLOTS = 1024  # smallest number of cache slots in a captured step
# Number of links in the chain that is captured as one graph. A link has two operations.
LINKS = 50


def parts(scale: Scale, results: Results) -> Iterator[tuple[str, Measure]]:
    device = torch.device(scale.device)
    yield "versions", partial(versions, device)
    yield "attention", partial(attention_choices, scale)
    yield "capture", partial(capture, device)
    yield "bandwidth", lambda: {"bytes_per_second": read_bandwidth(device)}


def versions(device: torch.device) -> dict[str, Any]:
    """Return the versions of the driver, of CUDA and of PACKAGES, and facts about the machine.

    Call this before any measurement, because `nvidia-smi` disturbs measurements.
    """
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "specviz": __version__,
        **{name: _version(name) for name in PACKAGES},
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "cudnn_attention": torch.backends.cuda.cudnn_sdp_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
    }
    if device.type == "cuda":
        card = torch.cuda.get_device_properties(device)
        found["card"], found["capability"] = card.name, f"{card.major}.{card.minor}"
        found["memory_bytes"] = card.total_memory
        found["multiprocessors"] = card.multi_processor_count
        found["cudnn"] = torch.backends.cudnn.version()
    if device.type == "cuda" and shutil.which("nvidia-smi"):
        command = ("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader")
        found["nvidia_smi"] = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def attention_choices(scale: Scale) -> dict[str, Any]:
    """Return the kernel that torch chooses for each attention shape of our models."""
    found = {}
    for name, shape in scale.shapes.items():
        heads = take_heads(llama_config(shape))
        for dtype in scale.dtypes:
            make = partial(torch.randn, device=scale.device, dtype=DTYPES[dtype])

            def keys(slots: int, make: Callable[..., Tensor] = make, heads: Any = heads) -> Tensor:
                return make(1, heads.keys, slots, heads.size)

            prompt = make(1, heads.queries, 128, heads.size)
            choices = {"prompt of 128": _choice(prompt, keys(128), None, heads.group > 1)}
            for count in (1, 6):
                rows = heads.group * count
                packed, mask = make(1, heads.keys, rows, heads.size), make(rows, SLOTS)
                choices[f"{count} behind {SLOTS}, masked"] = _choice(packed, keys(SLOTS), mask)
            one = make(1, heads.keys, heads.group, heads.size)
            choices["1 behind 900, no mask"] = _choice(one, keys(900), None)
            found[f"{name} {dtype}"] = choices
    return found


def _choice(
    queries: Tensor, keys: Tensor, mask: Tensor | None, is_prompt_of_groups: bool | None = None
) -> str:
    is_causal = is_prompt_of_groups is not None
    number = torch._fused_sdp_choice(
        queries, keys, keys, mask, 0.0, is_causal, enable_gqa=bool(is_prompt_of_groups)
    )
    return SDPBackend(number).name.lower()


@torch.inference_mode()
def capture(device: torch.device) -> dict[str, Any]:
    """Capture a chain of small operations as a graph, and check the result of a replay.

    Measure the time per operation with the graph and without it.
    """
    start, place = torch.arange(256.0, device=device), torch.empty(256, device=device)

    def work() -> tuple[Tensor, ...]:
        place.copy_(start)
        for _ in range(LINKS):
            place.mul_(0.5).add_(1.0)
        return (place + 0.0,)

    captured = CapturedWork(work, GraphSet(device))
    (expected,), (found,) = work(), captured()
    eager = median(elapsed(work, device) for _ in range(20))
    replayed = median(elapsed(captured, device) for _ in range(20))
    return {
        "is_captured": captured._graph is not None,
        "is_equal": bool(torch.equal(expected, found)),
        "eager_us_per_operation": 1e6 * eager / (2 * LINKS + 2),
        "replayed_us_per_operation": 1e6 * replayed / (2 * LINKS + 2),
    }


def elapsed(work: Callable[[], object], device: torch.device) -> float:
    """Return the device's seconds from the first launch of `work` to the end of its last kernel."""
    wait_for(device)
    began = mark(device)
    work()
    ended = mark(device)
    wait_for(device)
    return began.seconds_until(ended)
