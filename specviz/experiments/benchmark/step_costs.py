"""What one token costs: our forward beside the library's, the read of the weights beside both, and
what the time goes into.

Measured in blocks A, B, B, A, so that a slow drift of the machine hits both alike. Knows nothing of
decoding or of how the numbers are shown.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import transformers
from torch.profiler import ProfilerActivity, profile

from specviz.decoding.clock import wait_for
from specviz.environment import silence_profiler
from specviz.experiments.benchmark.peers import load_library_model
from specviz.models.cache import SlotCache
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need

CONTEXT = 128  # tokens that stand in the cache while a step is measured
WARM_UP_STEPS = 10
STEPS = 40  # of one block
_READ_BYTES = 256 << 20  # more than a processor's caches hold
_READS = 7

# the operations of one forward by what they are for; `else` is the rest: norms, gates, positions
_KINDS = {
    "attention": ("attention", "softmax"),
    "products": ("linear", "mm"),
    "copies": ("copy", "cat", "index", "embedding", "clone"),
}


@dataclass(frozen=True, slots=True)
class StepCost:
    """Median seconds of a forward of one token behind CONTEXT others, batch 1.

    `ratio` is ours / the library's, the median over blocks that ran side by side. Where our steps
    are recorded and replayed, `eager_seconds` is what they take kernel by kernel; else None.
    `read_seconds` is what reading every weight once takes at the memory's measured bandwidth (a
    model that fits into a processor's cache can be faster). `shares` says what our time goes into,
    by kind of operation: `between` is all that is no tensor operation.
    """

    model: str
    bytes: int
    own_seconds: float
    eager_seconds: float | None
    library_seconds: float
    ratio: float
    read_seconds: float
    shares: dict[str, float]


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Of a pair's models, on one machine; `bandwidth` in bytes per second."""

    device: str
    threads: int
    context: int
    bandwidth: float
    models: tuple[StepCost, ...]


def step_costs(
    pair: Pair, device: str, dtype: str, blocks: int, progress: Callable[[str], None]
) -> StepCosts:
    """`blocks` (>= 1) pairs of blocks of each model; of the target alone if that is all."""
    loaded = load_pair(pair, device, dtype, frozenset({Need.DRAFT} if pair.draft else ()))
    models = [(loaded.target, pair.target)]
    if loaded.parts.draft is not None:
        models.append((loaded.parts.draft, pair.draft))
    bandwidth = read_bandwidth(loaded.target.device)
    costs = []
    for model, source in models:
        progress(f"{model.info.name}: {blocks} pairs of blocks of {STEPS} steps")
        costs.append(step_cost(model, source, dtype, blocks, bandwidth))
    where, threads = str(loaded.target.device), torch.get_num_threads()
    return StepCosts(where, threads, CONTEXT, bandwidth, tuple(costs))


def step_cost(
    model: LanguageModel, source: str, dtype: str, blocks: int, bandwidth: float
) -> StepCost:
    """One model; `source` is the folder of the same model, for the library to load."""
    own = _own_step(model, model.new_cache(CONTEXT + 1))
    module = load_library_model(source, model.device, dtype)
    steps = {"own": own, "library": library_step(module, model)}
    if isinstance(model, CapturedModel):
        steps["eager"] = _own_step(model, SlotCache(model.info.layers, CONTEXT + 1))
    for step in steps.values():
        _seconds(step, WARM_UP_STEPS)
    times: dict[str, list[float]] = defaultdict(list)
    for block in range(blocks):
        order = list(steps.items())
        for name, step in order if block % 2 == 0 else order[::-1]:
            times[name].append(_seconds(step, STEPS))
    weights = model.info.parameters * model.dtype.itemsize  # a layout beside another is not read
    return StepCost(
        model=model.info.name,
        bytes=weights,
        own_seconds=median(times["own"]),
        eager_seconds=median(times["eager"]) if "eager" in times else None,
        library_seconds=median(times["library"]),
        ratio=median(a / b for a, b in zip(times["own"], times["library"], strict=True)),
        read_seconds=weights / bandwidth,
        shares=_shares(own, STEPS),
    )


def read_bandwidth(device: torch.device) -> float:
    """Bytes per second that this process reads from memory with torch's threads, measured.

    On CPU by a sum; elsewhere by a copy, which reads and writes.
    """
    data = torch.ones(_READ_BYTES // 4, device=device)
    target, passes = torch.empty_like(data), 1 if device.type == "cpu" else 2

    def read() -> None:
        if device.type == "cpu":
            data.sum()
        else:
            target.copy_(data)
        wait_for(device)

    return passes * data.nbytes / _seconds(read, _READS)


def _own_step(model: LanguageModel, cache: KeyValueCache) -> Callable[[], None]:
    device = model.device
    ids = torch.zeros((1, CONTEXT), dtype=torch.int64, device=device)
    model.forward(ids, torch.arange(CONTEXT, device=device)[None], cache, last_only=True)
    one, place = ids[:, :1], torch.full((1, 1), CONTEXT, device=device)

    def step() -> None:
        model.forward(one, place, cache)
        cache.keep(CONTEXT, [])
        wait_for(device)

    return step


def library_step(module: Any, model: LanguageModel) -> Callable[[], None]:
    """The library's own forward with its own cache, as its `generate` calls it.

    Each call is one token behind CONTEXT others.
    """
    cache = transformers.DynamicCache(config=module.config)
    ids = torch.zeros((1, CONTEXT), dtype=torch.int64, device=model.device)

    @torch.inference_mode()
    def run(tokens: torch.Tensor) -> None:
        module(input_ids=tokens, past_key_values=cache, use_cache=True)

    def step() -> None:
        run(ids[:, :1])
        cache.crop(-1)
        wait_for(model.device)

    run(ids)
    return step


def _seconds(step: Callable[[], None], count: int) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return median(times)


def _shares(step: Callable[[], None], count: int) -> dict[str, float]:
    """Of the host's time. Watching slows every operation a little, the small ones most."""
    silence_profiler()
    began = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(count):
            step()
        whole = time.perf_counter() - began
    seconds = dict.fromkeys((*_KINDS, "else"), 0.0)
    for event in profiled.key_averages():
        seconds[_kind(event.key)] += event.self_cpu_time_total / 1e6
    return {
        **{kind: each / whole for kind, each in seconds.items()},
        "between": 1 - sum(seconds.values()) / whole,
    }


def _kind(operation: str) -> str:
    return next(
        (kind for kind, parts in _KINDS.items() if any(p in operation for p in parts)), "else"
    )
