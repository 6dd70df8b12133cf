"""How many nodes a dynamic tree should have: expected tokens per second of target forward.

The forward's time over the number of tokens is measured once per model. What a further node is
worth follows from how often a draft's first, second, … choice is right; the best nodes are taken
first (Sequoia 2402.12374 builds its trees from the same numbers). Knows nothing of drafters.
"""

from __future__ import annotations

import heapq
import time
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from statistics import median
from weakref import WeakKeyDictionary

import torch

from specviz.models.language_model import KeyValueCache, LanguageModel

# How often the bundled draft's k-th choice is the next token of its target, over all tasks.
RANK_ACCEPTANCE = (0.60, 0.14, 0.06, 0.04, 0.02, 0.02, 0.01, 0.01)
TOKEN_COUNTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 65)
CONTEXT = 128
REPEATS = 5

_curves: WeakKeyDictionary[LanguageModel, tuple[float, ...]] = WeakKeyDictionary()


def best_node_count(model: LanguageModel, depth: int, width: int) -> int:
    """Nodes n of the largest (1 + expected accepted) / time of a forward over 1 + n tokens."""
    times = forward_times(model)
    gains = node_gains(depth, width, TOKEN_COUNTS[-1] - 1)
    rates = [
        (1 + sum(gains[:count])) / time_of(count + 1, times) for count in range(1, len(gains) + 1)
    ]
    return 1 + max(range(len(rates)), key=rates.__getitem__)


def forward_times(model: LanguageModel) -> tuple[float, ...]:
    """Median seconds of a forward over each of TOKEN_COUNTS tokens, measured once per model."""
    if model not in _curves:
        _curves[model] = tuple(_forward_time(model, count) for count in TOKEN_COUNTS)
    return _curves[model]


def time_of(count: int, times: Sequence[float]) -> float:
    """Seconds for `count` tokens (1 to 65), linear between the measured counts.

    >>> time_of(6, (1, 1, 2, 4, 0, 0, 0, 0, 0, 0))
    3.0
    """
    right = bisect_left(TOKEN_COUNTS, count)
    if TOKEN_COUNTS[right] == count:
        return times[right]
    low, high = TOKEN_COUNTS[right - 1], TOKEN_COUNTS[right]
    share = (count - low) / (high - low)
    return times[right - 1] * (1 - share) + times[right] * share


@lru_cache(maxsize=64)
def node_gains(depth: int, width: int, most: int) -> tuple[float, ...]:
    """Chance of acceptance of the best nodes, best first; at most `most` of them.

    A node of rank r under a node of chance c has c * RANK_ACCEPTANCE[r].

    >>> [round(gain, 4) for gain in node_gains(2, 2, 4)]
    [0.6, 0.36, 0.14, 0.084]
    """
    waiting = [(-RANK_ACCEPTANCE[rank], 1) for rank in range(min(width, len(RANK_ACCEPTANCE)))]
    heapq.heapify(waiting)
    gains: list[float] = []
    while waiting and len(gains) < most:
        gain, level = heapq.heappop(waiting)
        gains.append(-gain)
        if level < depth:
            for rank in range(width):
                heapq.heappush(waiting, (gain * RANK_ACCEPTANCE[rank], level + 1))
    return tuple(gains)


@torch.inference_mode()
def _forward_time(model: LanguageModel, count: int) -> float:
    context = min(CONTEXT, max(1, model.info.context_length - count))
    cache = model.new_cache(context + count)
    _run(model, cache, 0, context)
    seconds = []
    for _ in range(REPEATS + 1):
        _wait(model.device)
        began = time.perf_counter()
        _run(model, cache, context, count)
        _wait(model.device)
        seconds.append(time.perf_counter() - began)
        cache.keep(context, [])
    return median(seconds[1:])


def _run(model: LanguageModel, cache: KeyValueCache, start: int, count: int) -> None:
    token_ids = torch.arange(count, device=model.device)[None] % model.info.vocab_size
    positions = torch.arange(start, start + count, device=model.device)[None]
    model.forward(token_ids, positions, cache, last_only=start == 0)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
