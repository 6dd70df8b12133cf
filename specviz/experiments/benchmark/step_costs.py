"""The time of one token: specviz's forward compared with Transformers' and the reading limit.

The reading limit is the time to read every weight once. This module also times forwards of several
tokens and other weight formats, and it splits a step's time by kind of operation. A block runs a
series of each of the compared steps. Every second block runs them in reverse order. If the machine
slowly gets faster or slower, this therefore affects all of them alike.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from specviz.decoding.clock import wait_for
from specviz.environment import silence_profiler
from specviz.errors import InputError
from specviz.experiments.benchmark.kernel_costs import (
    FEW_ROWS,
    BaselineCheck,
    KernelCost,
    check_baseline,
    chooses_kernels,
    kernel_costs,
    watched,
)
from specviz.experiments.benchmark.peers import load_library_model
from specviz.machine import processor_name, version
from specviz.models.cache import SlotCache
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.llama.self_model import quantised
from specviz.models.local_model import LocalModel
from specviz.models.memory import gigabytes
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.models.reading_limit import LEAST_FREE, READ_BYTES, measured_bandwidth

CONTEXT = 128  # tokens in the KV cache while a step is measured
WARM_UP_STEPS = 10
STEPS = 40  # timed steps per block
FORWARDS = 12  # timed forwards per block, for each number of tokens
# The numbers of tokens in a timed forward. Each such forward is compared with a forward of one
# token.
TOKENS = (2, 3, 4, 6, 8, 16)

# Purpose of an operation -> words in the names of such operations. Norms, gates and positions
# count as `else`.
_KINDS = {
    "attention": ("attention", "softmax"),
    "matrices": ("linear", "mm"),
    "copies": ("copy", "cat", "index", "embedding", "clone"),
}


@dataclass(frozen=True, slots=True)
class ForwardCost:
    """The time of a forward that verifies a draft: `tokens` tokens after CONTEXT cached tokens.

    In each block, this time is divided by the time of a forward of one token. `ratio` is the median
    of these quotients. `seconds` is `ratio` times the median time of a forward of one token, so
    that `seconds` and `ratio` do not contradict each other.
    """

    tokens: int
    seconds: float
    ratio: float


@dataclass(frozen=True, slots=True)
class FormatCost:
    """The time of the target's step with its weights in another format.

    In each block, this time is divided by the time of a step with the weights as they were loaded.
    `ratio` is the median of these quotients. `seconds` is `ratio` times the median time of a step
    with the weights as they were loaded, so that `seconds` and `ratio` do not contradict each
    other. `read_seconds` is the time to read `bytes` of weights once.
    """

    weights: str
    bytes: int
    seconds: float
    ratio: float
    read_seconds: float


@dataclass(frozen=True, slots=True)
class StepCost:
    """The time of a forward of one token after CONTEXT cached tokens (medians, batch size 1).

    - `own_seconds` is the time of specviz, and `eager_seconds` its time without a CUDA graph (None
      if no CUDA graph is used).
    - `ratio` is the time of specviz divided by that of Transformers, as the median over blocks.
      `library_seconds` is `own_seconds` / `ratio`, so that the three numbers agree.
    - `read_seconds` is the reading limit: the time to read every weight once. A model that fits
      into a processor's cache can be faster.
    - `shares` splits the time of a forward by kind of operation; `between` is the time outside
      tensor operations. In this forward, the operations are called one by one, so with compiled
      kernels it takes longer than `own_seconds`.
    - `forwards` has one entry for each number in TOKENS.
    """

    model: str
    bytes: int
    own_seconds: float
    eager_seconds: float | None
    library_seconds: float
    ratio: float
    read_seconds: float
    shares: dict[str, float]
    forwards: tuple[ForwardCost, ...]


@dataclass(frozen=True, slots=True)
class StepCosts:
    """The costs of a pair's models on one machine; `bandwidth` is in bytes per second.

    `kernels` has the times of the target's matrix kernels, in forwards of one token and of FEW_ROWS
    tokens. It is empty if specviz does not choose the kernels. `check` is None unless the user
    asked for it.
    """

    device: str
    processor: str
    version: str
    threads: int
    context: int
    bandwidth: float
    models: tuple[StepCost, ...]
    kernels: tuple[KernelCost, ...]
    formats: tuple[FormatCost, ...]
    check: BaselineCheck | None


def step_costs(
    pair: Pair,
    device: str,
    dtype: str,
    blocks: int,
    progress: Callable[[str], None],
    has_formats: bool = False,
    has_check: bool = False,
) -> StepCosts:
    """Measure each model of the pair in `blocks` (>= 1) pairs of blocks.

    `has_formats` adds the target's step in bfloat16, int8 and int4, as far as the model and torch
    support them. `has_check` adds a check whether other matrix kernels would be faster. Raises
    InputError if too little memory is free to measure the reading limit, and for a check of a
    target whose kernels specviz does not choose.
    """
    loaded = load_pair(pair, device, dtype, frozenset({Need.DRAFT} if pair.draft else ()))
    target = loaded.target
    if has_check and not chooses_kernels(target):
        raise InputError(
            "'check' must be given only for a target of the Llama family on a CPU, got "
            f"{target.info.architecture} on {target.device.type}"
        )
    models = [(target, pair.target)]
    if loaded.parts.draft is not None:
        models.append((loaded.parts.draft, pair.draft))
    bandwidth = _bandwidth(target.device)
    costs = []
    for model, source in models:
        progress(f"{model.info.name}: {blocks} pairs of blocks of {STEPS} steps")
        costs.append(step_cost(model, source, dtype, blocks, bandwidth))
    kernels, check = _kernels(target, blocks if has_check else 0, progress)
    formats: tuple[FormatCost, ...] = ()
    if has_formats:
        progress(f"{target.info.name} in other formats: {blocks} blocks each")
        formats = format_costs(target, other_formats(pair, target), blocks, bandwidth)
    return StepCosts(
        device=str(target.device),
        processor=processor_name(),
        version=version(),
        threads=torch.get_num_threads(),
        context=CONTEXT,
        bandwidth=bandwidth,
        models=tuple(costs),
        kernels=kernels,
        formats=formats,
        check=check,
    )


def _kernels(
    target: LanguageModel, blocks: int, progress: Callable[[str], None]
) -> tuple[tuple[KernelCost, ...], BaselineCheck | None]:
    """Return the times of the target's kernels, and the check of the baseline.

    The check runs in `blocks` blocks. If `blocks` is 0, nothing is checked and the check is None.
    """
    if not (isinstance(target, LlamaModel) and chooses_kernels(target)):
        return (), None
    costs = [each for rows in (1, FEW_ROWS) for each in kernel_costs(target, _rows(rows), rows)]
    check = check_baseline(target, _rows(1), blocks, progress) if blocks else None
    return tuple(costs), check


def _rows(count: int) -> Callable[[LlamaModel], Callable[[], None]]:
    """Return a function that takes a model and returns a function that runs `count` tokens."""
    return lambda model: _own_step(model, model.new_cache(CONTEXT + count), count)


def _bandwidth(device: torch.device) -> float:
    found = measured_bandwidth(device)
    if found is None:
        least = gigabytes(LEAST_FREE * READ_BYTES)
        raise InputError(
            f"{device} must have {least} of free memory to measure its memory bandwidth"
        )
    return found


def step_cost(
    model: LanguageModel, source: str, dtype: str, blocks: int, bandwidth: float
) -> StepCost:
    """Time the steps of a model in specviz, and in Transformers with the weights in `source`."""
    own = _own_step(model, model.new_cache(CONTEXT + 1))
    module = load_library_model(source, model.device, dtype)
    steps = {"own": own, "library": library_step(module, model)}
    if isinstance(model, CapturedModel):
        steps["eager"] = _own_step(model, SlotCache(model.info.layers, CONTEXT + 1))
    for count in TOKENS:
        steps[str(count)] = _own_step(model, model.new_cache(CONTEXT + count), count)
    counts = {name: FORWARDS if name.isdigit() else STEPS for name in steps}
    times = _alternated(steps, counts, blocks)
    seconds, ratio = median(times["own"]), _ratio(times["own"], times["library"])
    ratios = {count: _ratio(times[str(count)], times["own"]) for count in TOKENS}
    return StepCost(
        model=model.info.name,
        bytes=step_bytes(model),
        own_seconds=seconds,
        eager_seconds=median(times["eager"]) if "eager" in times else None,
        library_seconds=seconds / ratio,
        ratio=ratio,
        read_seconds=step_bytes(model) / bandwidth,
        shares=_shares(_marked_step(model) or own, STEPS),
        forwards=tuple(ForwardCost(n, each * seconds, each) for n, each in ratios.items()),
    )


def step_bytes(model: LanguageModel) -> int:
    """Return how many bytes of weights a step reads; all experts count for a mixture of experts."""
    known = model.step_bytes if isinstance(model, LocalModel) else None
    return model.info.parameters * model.dtype.itemsize if known is None else known


def other_formats(pair: Pair, target: LanguageModel) -> dict[str, tuple[LanguageModel, int]]:
    """Return the target in each other weight format, and the bytes that its step reads."""
    found: dict[str, tuple[LanguageModel, int]] = {}
    if target.dtype is not torch.bfloat16:
        model = load_pair(pair, str(target.device), "bfloat16", frozenset()).target
        found["bfloat16"] = (model, step_bytes(model))
    if isinstance(target, LlamaModel):
        for bits in (8, 4):
            # This version of torch may have no kernel for so few bits. The format is then left out.
            with suppress(InputError):
                copy = quantised(target, bits)
                found[f"int{bits}"] = (copy, sum(each.shape.bytes for each in copy.projections))
    return found


def format_costs(
    target: LanguageModel,
    others: dict[str, tuple[LanguageModel, int]],
    blocks: int,
    bandwidth: float,
) -> tuple[FormatCost, ...]:
    """Time the target as it was loaded, and each of `others`, in neighbouring blocks."""
    own = str(target.dtype).removeprefix("torch.")
    models = {own: (target, step_bytes(target)), **others}
    steps = {
        name: _own_step(model, model.new_cache(CONTEXT + 1)) for name, (model, _) in models.items()
    }
    times = _alternated(steps, dict.fromkeys(steps, STEPS), blocks)
    ratios = {name: _ratio(times[name], times[own]) for name in models}
    return tuple(
        FormatCost(name, read, each * median(times[own]), each, read / bandwidth)
        for (name, (_, read)), each in zip(models.items(), ratios.values(), strict=True)
    )


def _alternated(
    steps: dict[str, Callable[[], None]], counts: dict[str, int], blocks: int
) -> dict[str, list[float]]:
    """Return each step's median seconds in each block; every second block runs in reverse order."""
    for step in steps.values():
        _seconds(step, WARM_UP_STEPS)
    times: dict[str, list[float]] = defaultdict(list)
    for block in range(blocks):
        order = list(steps.items())
        for name, step in order if block % 2 == 0 else order[::-1]:
            times[name].append(_seconds(step, counts[name]))
    return times


def _ratio(times: list[float], others: list[float]) -> float:
    return median(one / other for one, other in zip(times, others, strict=True))


def _own_step(model: LanguageModel, cache: KeyValueCache, count: int = 1) -> Callable[[], None]:
    """Return a function that runs one forward of `count` tokens after CONTEXT cached tokens.

    Every call runs the same tokens at the same positions.
    """
    device = model.device
    ids = torch.zeros((1, CONTEXT), dtype=torch.int64, device=device)
    model.forward(ids, torch.arange(CONTEXT, device=device)[None], cache, last_only=True)
    tokens, places = ids[:, :count], torch.arange(CONTEXT, CONTEXT + count, device=device)[None]

    def step() -> None:
        model.forward(tokens, places, cache)
        cache.keep(CONTEXT, [])
        wait_for(device)

    return step


def library_step(module: Any, model: LanguageModel) -> Callable[[], None]:
    """Return a function that runs Transformers' forward of one token after CONTEXT cached tokens.

    It uses the cache of Transformers, as `generate` does.
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


def _marked_step(model: LanguageModel) -> Callable[[], None] | None:
    """Return a step whose matrix kernels the profiler recognises.

    The profiler does not see specviz's kernels as torch operations, and would count them as Python
    time. The result is None if the model uses torch's kernels only.
    """
    if not (isinstance(model, LlamaModel) and chooses_kernels(model)):
        return None

    def mark(kind: str, multiply: Callable[[], Tensor]) -> Tensor:
        with record_function(f"linear {kind}"):
            return multiply()

    marked = watched(model, mark)
    return _own_step(marked, marked.new_cache(CONTEXT + 1))


def _shares(step: Callable[[], None], count: int) -> dict[str, float]:
    """Return the share of the host's time for each kind of operation.

    The shares of small operations are too large, because the profiler slows them most.
    """
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
