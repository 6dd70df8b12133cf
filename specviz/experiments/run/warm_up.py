"""What runs before a lane's clock starts, so that no clock counts a cold start.

Every run of a loaded pair calls `rehearse` before it makes its drafter and its decoder: the CUDA
graphs that the rehearsal needed are then captured as soon as the run's own caches are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, islice
from operator import mul
from weakref import WeakKeyDictionary

import torch

from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, method_named
from specviz.decoding.race import race
from specviz.decoding.target import cache_capacity
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.graphs.graph_buffers import MOST_TOKENS
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.models.pair_loading import LoadedPair
from specviz.records import BASELINE, MAX_NEW_TOKENS, SETTINGS, SPECULATIVE, DecodingConfig
from specviz.slices import check_stop

REHEARSAL_ROUNDS = 3
REHEARSAL_PROMPT = 32  # tokens, where nothing depends on them

# by the target: settings whose graphs are captured, or methods with their options that have run
_rehearsed: WeakKeyDictionary[LanguageModel, set[object]] = WeakKeyDictionary()


def get_ready(loaded: LoadedPair) -> None:
    """What the first race of the pair's own method would wait for, such as a copy of the target."""
    config = method_named(loaded.pair.method).usual(SETTINGS["draft_length"].default)
    rehearse(loaded, loaded.codec.encode("Hello"), config)


def rehearse(loaded: LoadedPair, prompt_ids: Sequence[int], config: DecodingConfig) -> None:
    """Run a few rounds that no clock counts: the first ones of a process are slow.

    A model whose steps are CUDA graphs captures each kind of step when it first meets it, so both
    lanes run once per setting. Those steps that it knows are captured as soon as a cache is made,
    before a lane's clock starts. On any other model a method runs alone, once.
    """
    done = _rehearsed.setdefault(loaded.target, set())
    if isinstance(loaded.target, CapturedModel):
        likes = replace(config, seed=0, max_new_tokens=MAX_NEW_TOKENS)
        if likes not in done:
            _capture_steps(loaded, prompt_ids, config)
            done.add(likes)
    elif (config.method, config.options) not in done:
        _run_rounds(loaded, prompt_ids[:REHEARSAL_PROMPT], config, is_alone=True)
        done.add((config.method, config.options))


def _capture_steps(loaded: LoadedPair, prompt_ids: Sequence[int], config: DecodingConfig) -> None:
    """Both lanes side by side, as their caches will be."""
    _run_rounds(loaded, prompt_ids, config, is_alone=False)
    most = MOST_TOKENS if config.options else 1 + config.node_count  # options size trees
    foreign = [loaded.parts.foreign.model] if loaded.parts.foreign else []
    for model in (*loaded.prompt_models, *foreign):
        if isinstance(model, CapturedModel):
            # a foreign draft reads the text again where its own tokens end elsewhere
            model.expect(min(4 * most if model in foreign else most, MOST_TOKENS))


def _run_rounds(
    loaded: LoadedPair, prompt_ids: Sequence[int], config: DecodingConfig, is_alone: bool
) -> None:
    """A few rounds, alone or until the baseline beside them has as many tokens; none ends them."""
    tokens = min(config.max_new_tokens, REHEARSAL_ROUNDS * (config.draft_length + 1))
    short = replace(config, max_new_tokens=tokens)
    target, capacity = loaded.target, cache_capacity(prompt_ids, short)
    drafter = make_drafter(Setup(target, loaded.parts, short, capacity))
    lane = speculative.decode(target, drafter, prompt_ids, short)
    baseline = autoregressive.decode(target, prompt_ids, short)
    events = lane if is_alone else race({BASELINE: baseline, SPECULATIVE: lane})
    try:
        for _ in islice(events, 1 + REHEARSAL_ROUNDS if is_alone else None):
            check_stop()
    finally:
        drafter.close()


def warm_up_pair(loaded: LoadedPair, prompt_ids: Sequence[int], config: DecodingConfig) -> None:
    """Forwards like those that a run begins with, so that no lane's clock counts a cold start.

    The first forward of a size is slow. On the target: the prompt, one token, a whole tree; on the
    draft: the prompt, one token, each level of a static tree. What a method runs beside these (the
    windows of lookahead, trees that grow as they go) `rehearse` has run.
    """
    levels = tuple(accumulate(config.widths, mul))[:-1]
    drafting = [1, *(size for size in levels if 1 < size <= config.max_new_tokens)]
    _warm_up(loaded.target, prompt_ids, [1, min(1 + config.node_count, config.max_new_tokens)])
    if loaded.parts.draft is not None:
        _warm_up(loaded.parts.draft, prompt_ids, drafting)
    if loaded.parts.foreign is not None:
        _warm_up(loaded.parts.foreign.model, [0], drafting)  # the prompt's ids are not its own


@torch.inference_mode()
def _warm_up(model: LanguageModel, prompt_ids: Sequence[int], sizes: Sequence[int]) -> None:
    """The prompt once, then as many tokens behind it at once as each of `sizes` says."""
    cache = model.new_cache(len(prompt_ids) + max(sizes))
    _forward(model, cache, prompt_ids)
    for size in sizes:
        _forward(model, cache, list(prompt_ids[:1]) * size)
        cache.keep(len(prompt_ids), [])


def _forward(model: LanguageModel, cache: KeyValueCache, token_ids: Sequence[int]) -> None:
    tokens = torch.tensor([token_ids], device=model.device)
    first = cache.length
    positions = torch.arange(first, first + len(token_ids), device=model.device)[None]
    model.forward(tokens, positions, cache, last_only=True)
