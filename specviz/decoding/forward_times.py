"""Measure the time of a model's forward, once per model and size, for one row or many rows.

In shapes, B is the number of rows and N the number of tokens in each row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from statistics import median
from weakref import WeakKeyDictionary

import torch

from specviz.decoding.clock import wait_for
from specviz.forward_curve import ForwardCurve
from specviz.models.language_model import (
    BatchedModel,
    KeyValueCache,
    LanguageModel,
    RaggedKeyValueCache,
)
from specviz.slices import check_stop

CONTEXT = 128  # number of tokens that are already in the cache when a forward is measured
# the numbers of new tokens with which a forward of one row is measured
TOKEN_COUNTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 65)
REPEATS = 8
ROWS_REPEATS = 3

_curves: WeakKeyDictionary[LanguageModel, ForwardCurve] = WeakKeyDictionary()
_row_times: WeakKeyDictionary[BatchedModel, dict[tuple[int, int], float]] = WeakKeyDictionary()


def forward_curve(model: LanguageModel) -> ForwardCurve:
    """Return the seconds of a forward of one row, as a function of its number of new tokens.

    The cache holds CONTEXT tokens. The time is measured for the numbers in TOKEN_COUNTS.

    Other programs can only make a forward slower. So each value is the minimum of REPEATS passes
    over all counts. In the result, more tokens never take less time than fewer tokens: if a
    measurement says so, the smaller time counts for both.
    """
    if model not in _curves:
        passes = zip(*_passes(model), strict=True)
        least = [min(seconds) for seconds in passes]
        seconds = tuple(min(least[index:]) for index in range(len(least)))
        _curves[model] = ForwardCurve(TOKEN_COUNTS, seconds)
    return _curves[model]


def _passes(model: LanguageModel) -> list[list[float]]:
    return list(forward_passes(model, TOKEN_COUNTS, REPEATS))


@torch.inference_mode()
def forward_passes(
    model: LanguageModel, counts: Sequence[int], repeats: int
) -> Iterator[list[float]]:
    """Yield the seconds of forwards of one row after CONTEXT tokens.

    A forward is measured for each number of new tokens in `counts`. Each yielded list has the times
    of one pass over all these numbers. A first pass only warms up and yields nothing.
    """
    most = max(counts)
    context = min(CONTEXT, max(1, model.info.context_length - most))
    cache = model.new_cache(context + most)
    _run_one(model, cache, 0, context)
    for index in range(repeats + 1):
        check_stop()
        seconds = [_forward_seconds(model, cache, context, count) for count in counts]
        if index:
            yield seconds


def _forward_seconds(model: LanguageModel, cache: KeyValueCache, context: int, count: int) -> float:
    wait_for(model.device)
    began = time.perf_counter()
    _run_one(model, cache, context, count)
    wait_for(model.device)
    seconds = time.perf_counter() - began
    cache.keep(context, [])
    return seconds


def _run_one(model: LanguageModel, cache: KeyValueCache, start: int, count: int) -> None:
    token_ids = torch.arange(count, device=model.device)[None] % model.info.vocab_size
    positions = torch.arange(start, start + count, device=model.device)[None]
    model.forward(token_ids, positions, cache, last_only=start == 0)


def rows_time(model: BatchedModel, rows: int, count: int) -> float:
    """Return the seconds of a forward over `rows` rows with `count` tokens each.

    The time is measured for powers of two and interpolated between them.
    """
    below = 1 << (rows.bit_length() - 1)
    low = _measured_rows(model, below, count)
    if below == rows:
        return low
    return low + (_measured_rows(model, 2 * below, count) - low) * (rows - below) / below


def _measured_rows(model: BatchedModel, rows: int, count: int) -> float:
    known = _row_times.setdefault(model, {})
    if (rows, count) not in known:
        known[rows, count] = _measure_rows(model, rows, count)
    return known[rows, count]


@torch.inference_mode()
def _measure_rows(model: BatchedModel, rows: int, count: int) -> float:
    context = min(CONTEXT, max(1, model.info.context_length - count))
    cache = model.new_ragged_cache(rows, context + count)
    _run_rows(model, cache, 0, context)
    seconds = []
    for _ in range(ROWS_REPEATS + 1):
        wait_for(model.device)
        began = time.perf_counter()
        _run_rows(model, cache, context, count)
        wait_for(model.device)
        seconds.append(time.perf_counter() - began)
        cache.keep([context] * rows, [()] * rows)
    return median(seconds[1:])


def _run_rows(model: BatchedModel, cache: RaggedKeyValueCache, start: int, count: int) -> None:
    rows = len(cache.lengths)
    positions = torch.arange(start, start + count, device=model.device).expand(rows, -1)
    token_ids = positions % model.info.vocab_size  # [B, N]
    model.forward_rows(token_ids, [count] * rows, positions, cache, last_only=start == 0)
