"""How many nodes a tree should have: expected tokens per second of target forward.

The forward's time over the number of tokens is measured once per model. What a further node is
worth follows from a table of how often choices are right (see `ranked_tree`). Knows nothing of
drafters.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch

from specviz.decoding.drafters.method import Option
from specviz.forward_curve import ForwardCurve
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.records import MAX_TREE_NODES

NODES = Option(
    "nodes", "Nodes verified", 0, 0, MAX_TREE_NODES, "0: chosen from the measured forward times"
)
TOKEN_COUNTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 65)
CONTEXT = 128
REPEATS = 8

_curves: WeakKeyDictionary[LanguageModel, ForwardCurve] = WeakKeyDictionary()


def best_node_count(
    model: LanguageModel, gains: Sequence[float], drafting: float = 0.0, slack: float = 0.0
) -> int:
    """Nodes n of the largest (1 + expected accepted) / (`drafting` + forward over 1 + n tokens).

    `gains` are the chances of acceptance of the nodes, best first; at least one, at most 64.
    Drafting is in seconds. The most nodes whose rate is within the share `slack` of the best.
    """
    curve = forward_curve(model)
    rates = [
        (1 + sum(gains[:count])) / (drafting + curve.at(count + 1))
        for count in range(1, len(gains) + 1)
    ]
    good = (1 - slack) * max(rates)
    return max(count for count, rate in enumerate(rates, start=1) if rate >= good)


def forward_curve(model: LanguageModel) -> ForwardCurve:
    """A forward of one row behind CONTEXT tokens, measured once per model at TOKEN_COUNTS.

    What else runs on the machine only adds, so it is the least of REPEATS passes over all counts,
    and no more than what a larger count took.
    """
    if model not in _curves:
        passes = zip(*_passes(model), strict=True)
        least = [min(seconds) for seconds in passes]
        seconds = tuple(min(least[index:]) for index in range(len(least)))
        _curves[model] = ForwardCurve(TOKEN_COUNTS, seconds)
    return _curves[model]


@torch.inference_mode()
def _passes(model: LanguageModel) -> list[list[float]]:
    """Seconds per count, pass by pass; the first one warms up and is left out."""
    most = TOKEN_COUNTS[-1]
    context = min(CONTEXT, max(1, model.info.context_length - most))
    cache = model.new_cache(context + most)
    _run(model, cache, 0, context)
    return [
        [_forward_seconds(model, cache, context, count) for count in TOKEN_COUNTS]
        for _ in range(REPEATS + 1)
    ][1:]


def _forward_seconds(model: LanguageModel, cache: KeyValueCache, context: int, count: int) -> float:
    _wait(model.device)
    began = time.perf_counter()
    _run(model, cache, context, count)
    _wait(model.device)
    seconds = time.perf_counter() - began
    cache.keep(context, [])
    return seconds


def _run(model: LanguageModel, cache: KeyValueCache, start: int, count: int) -> None:
    token_ids = torch.arange(count, device=model.device)[None] % model.info.vocab_size
    positions = torch.arange(start, start + count, device=model.device)[None]
    model.forward(token_ids, positions, cache, last_only=start == 0)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
