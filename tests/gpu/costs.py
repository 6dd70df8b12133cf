"""Measure steps and rounds with models of published shapes and random weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, median
from time import perf_counter
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from specviz.decoding import autoregressive, speculative
from specviz.decoding.clock import mark, wait_for
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, method_named
from specviz.decoding.target import cache_capacity
from specviz.environment import silence_profiler
from specviz.metrics import acceptance_rate, block_efficiency
from specviz.models.files.loading import DTYPES
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.language_model import KeyValueCache
from specviz.models.parts import Parts
from specviz.models.reading_limit import read_bandwidth
from specviz.records import BASELINE, SPECULATIVE, DecodingConfig, Round, TokenStep
from tests.gpu.probe_results import Results
from tests.gpu.random_models import random_model
from tests.gpu.scale import DRAFT, SMALL, TARGET, RoundSetting, Scale
from tests.gpu.step import Measure

ACCEPTANCE = 0.8
WARM_UPS = 3
BLOCKS = (BASELINE, SPECULATIVE, SPECULATIVE, BASELINE)
PROFILED_STEPS = 4
PROFILED_TOKENS = 4
MOST_KERNELS = 12  # largest number of kernels that the results list


def parts(scale: Scale, results: Results) -> Iterator[tuple[str, Measure]]:
    models = Models(scale)
    for name in (TARGET, DRAFT):
        yield from _shape_parts(scale, models, name)
    for setting in scale.rounds:
        label = f"{setting.method} K={setting.draft_length} at {setting.context}"
        yield f"rounds {label}", partial(rounds, scale, models, setting)
    yield from _shape_parts(scale, models, SMALL)


def _shape_parts(scale: Scale, models: Models, name: str) -> Iterator[tuple[str, Measure]]:
    yield f"{name} build", partial(build, scale, models, name)
    for context in scale.contexts:
        yield f"{name} at {context}", partial(steps, scale, models, name, context)
    yield f"{name} profile", partial(kernels, scale, models, name)


@dataclass
class Models:
    """Random models, found by name. Each model is made when it is first requested."""

    scale: Scale
    _made: dict[str, CapturedModel] = field(default_factory=dict)

    def get(self, name: str) -> CapturedModel:
        """Return the model of that name with its own CUDA graphs.

        So no measurement reuses CUDA graphs that another measurement has captured.
        """
        if name not in self._made:
            scale = self.scale
            made = random_model(
                scale.shapes[name],
                torch.device(scale.device),
                DTYPES[scale.dtype],
                ACCEPTANCE,
                seed=list(scale.shapes).index(name),
                kind=CapturedModel,
            )
            assert isinstance(made, CapturedModel)
            self._made[name] = made
        model = self._made[name]
        view = model.with_layers(model.layers, model.info)
        assert isinstance(view, CapturedModel)
        return view


def build(scale: Scale, models: Models, name: str) -> dict[str, Any]:
    began = perf_counter()
    info = models.get(name).info
    wait_for(torch.device(scale.device))
    peak = torch.cuda.max_memory_allocated() if scale.device == "cuda" else None
    return {
        "parameters": info.parameters,
        "bytes": info.bytes,
        "build_seconds": perf_counter() - began,
        "peak_bytes": peak,
    }


@torch.inference_mode()
def steps(scale: Scale, models: Models, name: str, context: int) -> dict[str, Any]:
    """Measure captured forwards with various numbers of tokens after `context` tokens of text."""
    model, shape = models.get(name), scale.shapes[name]
    cache = filled(model, context, max(scale.token_counts))
    cached = context * shape.cache_values_per_token
    read = int(shape.weights.always + cached) * model.dtype.itemsize
    bandwidth = read_bandwidth(model.device)
    limit = None if bandwidth is None else read / bandwidth
    rows = []
    for count in scale.token_counts:
        step = step_of(model, cache, context, count)
        seconds, device_seconds = timed(step, model.device, scale.repeats)
        rows.append(
            {
                "tokens": count,
                "seconds": seconds,
                "device_seconds": device_seconds,
                "share_of_limit": None if limit is None else limit / seconds,
            }
        )
    return {"context": context, "read_bytes": read, "limit_seconds": limit, "rows": rows}


def filled(model: CapturedModel, context: int, room: int) -> KeyValueCache:
    """Return a cache with `context` random tokens and free slots for `room` more tokens."""
    cache, device = model.new_cache(context + room), model.device
    ids = torch.randint(model.info.vocab_size, (1, context), device=device)
    model.forward(ids, torch.arange(context, device=device)[None], cache, last_only=True)
    return cache


def step_of(
    model: CapturedModel, cache: KeyValueCache, context: int, count: int
) -> Callable[[], None]:
    """Return a function that runs `count` tokens after the context and removes them again."""
    ids = torch.zeros((1, count), dtype=torch.int64, device=model.device)
    positions = torch.arange(context, context + count, device=model.device)[None]

    def step() -> None:
        model.forward(ids, positions, cache)
        cache.keep(context, [])

    for _ in range(WARM_UPS):
        step()
    wait_for(model.device)
    return step


def timed(step: Callable[[], None], device: torch.device, repeats: int) -> tuple[float, float]:
    """Return the median seconds of a step, by the host's clock and by the device's clock.

    The host waits for the device after every step.
    """
    host, own = [], []
    for _ in range(repeats):
        began, first = perf_counter(), mark(device)
        step()
        last = mark(device)
        wait_for(device)
        host.append(perf_counter() - began)
        own.append(first.seconds_until(last))
    return median(host), median(own)


@torch.inference_mode()
def kernels(scale: Scale, models: Models, name: str) -> dict[str, Any]:
    """Return the number of kernels in a captured step and the time of each kernel.

    On a CPU, torch's operations are counted instead.
    """
    model, context = models.get(name), scale.contexts[0]
    step = step_of(model, filled(model, context, PROFILED_TOKENS), context, PROFILED_TOKENS)
    silence_profiler()
    is_cuda = model.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_cuda else [])]
    with profile(activities=activities) as profiled:
        began = perf_counter()
        for _ in range(PROFILED_STEPS):
            step()
        wait_for(model.device)
        whole = perf_counter() - began
    kind = DeviceType.CUDA if is_cuda else DeviceType.CPU
    seconds, counts = Counter[str](), Counter[str]()
    for event in profiled.events():
        if event.device_type == kind:
            own = event.self_device_time_total if is_cuda else event.self_cpu_time_total
            seconds[event.name] += own / 1e6
            counts[event.name] += 1
    total = sum(seconds.values())
    return {
        "tokens": PROFILED_TOKENS,
        "context": context,
        "kernels_per_step": counts.total() / PROFILED_STEPS,
        "kernels_per_layer": counts.total() / PROFILED_STEPS / model.info.layers,
        # The profiler slows the host. Without the profiler, the device's busy share is higher.
        "busy_share": total / whole,
        "kernels": [
            {
                "name": each[:120],
                "per_step": counts[each] / PROFILED_STEPS,
                "seconds_per_step": spent / PROFILED_STEPS,
                "share": spent / total,
            }
            for each, spent in seconds.most_common(MOST_KERNELS)
        ],
    }


def rounds(scale: Scale, models: Models, setting: RoundSetting) -> dict[str, Any]:
    """Measure whole rounds at temperature 1 and plain steps, without the prefills of their runs.

    Blocks of rounds and blocks of plain steps alternate.
    """
    target, draft = models.get(TARGET), models.get(DRAFT)
    config = method_named(setting.method).usual(
        setting.draft_length, temperature=1.0, max_new_tokens=scale.round_tokens, seed=3
    )
    generator = torch.Generator().manual_seed(0)
    prompt = torch.randint(
        min(target.info.vocab_size, draft.info.vocab_size), (setting.context,), generator=generator
    ).tolist()
    lanes = partial(_lane, target, Parts(draft=draft), prompt, config)
    for lane in BLOCKS[:2]:
        list(lanes(lane))  # this run captures the CUDA graphs before the measurement
    blocks = [(lane, list(lanes(lane))) for lane in BLOCKS]
    plain = [each for lane, events in blocks if lane == BASELINE for each in events]
    ran = [each for lane, events in blocks if lane == SPECULATIVE for each in events]
    rates = {lane: [_rate(events) for each, events in blocks if each == lane] for lane in BLOCKS}
    pairs = zip(rates[SPECULATIVE], rates[BASELINE], strict=True)
    ratios = sorted(ours / base for ours, base in pairs)
    found = [each for each in ran if isinstance(each, Round)]
    return {
        "method": setting.method,
        "draft_length": setting.draft_length,
        "context": setting.context,
        "expected_acceptance_rate": ACCEPTANCE,
        "acceptance_rate": acceptance_rate(found),
        "block_efficiency": block_efficiency(found),
        "step_seconds": median(each.seconds for each in plain),
        "round_seconds": fmean(each.work_seconds for each in found),
        "draft_seconds": fmean(each.draft_seconds for each in found),
        "verify_seconds": fmean(each.verify_seconds for each in found),
        "host_seconds": fmean(each.host_seconds for each in found),
        "speedup": fmean(ratios),
        "speedup_spread": [ratios[0], ratios[-1]],
    }


def _lane(
    target: CapturedModel, parts: Parts, prompt: Sequence[int], config: DecodingConfig, lane: str
) -> Iterator[Round | TokenStep]:
    """Yield the steps or rounds of one lane, without the target's prefill."""
    if lane == BASELINE:
        events: Iterator[Any] = autoregressive.decode(target, prompt, config)
    else:
        setup = Setup(target, parts, config, cache_capacity(prompt, config))
        events = speculative.decode(target, make_drafter(setup), prompt, config)
    return (each for each in events if isinstance(each, Round | TokenStep))


def _rate(events: Sequence[Round | TokenStep]) -> float:
    """Return the tokens per second of steps or rounds, without the draft's prefill."""
    if isinstance(events[0], TokenStep):
        return len(events) / sum(each.seconds for each in events)
    tokens = sum(len(each.emitted_ids) for each in events)
    return tokens / sum(each.work_seconds for each in events)
