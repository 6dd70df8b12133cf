"""How long a forward of many rows takes, measured once per model and size.

Knows nothing of drafting. Letters: B rows, N tokens of each.
"""

from __future__ import annotations

import time
from statistics import median
from weakref import WeakKeyDictionary

import torch

from specviz.models.language_model import BatchedModel, RaggedKeyValueCache

CONTEXT = 128  # tokens of each row before the measured ones
REPEATS = 3

_times: WeakKeyDictionary[BatchedModel, dict[tuple[int, int], float]] = WeakKeyDictionary()


def rows_time(model: BatchedModel, rows: int, count: int) -> float:
    """Seconds of a forward of `rows` with `count` tokens each.

    Powers of two are measured, what lies between them is interpolated.
    """
    below = 1 << (rows.bit_length() - 1)
    low = _measured(model, below, count)
    if below == rows:
        return low
    return low + (_measured(model, 2 * below, count) - low) * (rows - below) / below


def _measured(model: BatchedModel, rows: int, count: int) -> float:
    known = _times.setdefault(model, {})
    if (rows, count) not in known:
        known[rows, count] = _measure(model, rows, count)
    return known[rows, count]


@torch.inference_mode()
def _measure(model: BatchedModel, rows: int, count: int) -> float:
    context = min(CONTEXT, max(1, model.info.context_length - count))
    cache = model.new_ragged_cache(rows, context + count)
    _run(model, cache, 0, context)
    seconds = []
    for _ in range(REPEATS + 1):
        _wait(model.device)
        began = time.perf_counter()
        _run(model, cache, context, count)
        _wait(model.device)
        seconds.append(time.perf_counter() - began)
        cache.keep([context] * rows, [()] * rows)
    return median(seconds[1:])


def _run(model: BatchedModel, cache: RaggedKeyValueCache, start: int, count: int) -> None:
    rows = len(cache.lengths)
    positions = torch.arange(start, start + count, device=model.device).expand(rows, -1)
    token_ids = positions % model.info.vocab_size  # [B, N]
    model.forward_rows(token_ids, [count] * rows, positions, cache, last_only=start == 0)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
