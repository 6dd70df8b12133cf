"""Untimed runs before a lane's clock starts, so that no clock includes a cold start.

Every run of a loaded pair calls `rehearse` before it creates its drafter and its decoder. CUDA
graphs that the rehearsal used are then captured as soon as the run's own caches exist.
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
from specviz.models.reading_limit import reading_limit
from specviz.records import BASELINE, MAX_NEW_TOKENS, SETTINGS, SPECULATIVE, DecodingConfig
from specviz.slices import check_stop

REHEARSAL_ROUNDS = 3
# Number of prompt tokens in a rehearsal, for a model on which the length does not matter.
REHEARSAL_PROMPT = 32

# For each target, the rehearsals that were made. With CUDA graphs, an entry contains all settings
# of a run; otherwise it contains a method and its options.
_rehearsed: WeakKeyDictionary[LanguageModel, set[object]] = WeakKeyDictionary()


def get_ready(loaded: LoadedPair) -> None:
    """Do slow first steps now, such as measuring the memory bandwidth, so that no race waits."""
    reading_limit(loaded.target)
    config = method_named(loaded.pair.method).usual(SETTINGS["draft_length"].default)
    rehearse(loaded, loaded.codec.encode("Hello"), config)


def rehearse(loaded: LoadedPair, prompt_ids: Sequence[int], config: DecodingConfig) -> None:
    """Run a few untimed rounds, because the first rounds of a process are slow.

    A model with CUDA graphs captures each kind of step when it first meets it, so both lanes run
    once per setting. Later runs capture the known steps as soon as a cache is created, before a
    lane's clock starts. On any other model, each method runs once, without the baseline.
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
    """Run both lanes in turn, with caches as large as in a race, to capture all kinds of steps."""
    _run_rounds(loaded, prompt_ids, config, is_alone=False)
    # A method with options decides the size of its trees itself, so the largest size is assumed.
    most = MOST_TOKENS if config.options else 1 + config.node_count
    foreign = [loaded.parts.foreign.model] if loaded.parts.foreign else []
    for model in (*loaded.prompt_models, *foreign):
        if isinstance(model, CapturedModel):
            # A foreign draft has a tokenizer of its own. It may need more tokens than the target
            # for the same text, and it may read the end of the text again.
            model.expect(min(4 * most if model in foreign else most, MOST_TOKENS))


def _run_rounds(
    loaded: LoadedPair, prompt_ids: Sequence[int], config: DecodingConfig, is_alone: bool
) -> None:
    """Run a few rounds, alone or alternating with the baseline's steps.

    No token ends the text, so that the rehearsal has its full length.
    """
    tokens = min(config.max_new_tokens, REHEARSAL_ROUNDS * (config.draft_length + 1))
    # A grammar can end a text early, and masks need no rehearsal.
    short = replace(config, max_new_tokens=tokens, grammar="")
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
    """Run forwards of the sizes that a run begins with, because the first of each size is slow.

    The target runs the prompt, one token and a whole tree. The draft runs the prompt, one token and
    each level of a static tree. `rehearse` has already run everything else that a method needs,
    such as the windows of lookahead and trees that grow.
    """
    levels = tuple(accumulate(config.widths, mul))[:-1]
    drafting = [1, *(size for size in levels if 1 < size <= config.max_new_tokens)]
    _warm_up(loaded.target, prompt_ids, [1, min(1 + config.node_count, config.max_new_tokens)])
    if loaded.parts.draft is not None:
        _warm_up(loaded.parts.draft, prompt_ids, drafting)
    if loaded.parts.foreign is not None:
        # The foreign draft has a vocabulary of its own, so it cannot run the prompt's token ids.
        # It runs token 0 instead.
        _warm_up(loaded.parts.foreign.model, [0], drafting)


@torch.inference_mode()
def _warm_up(model: LanguageModel, prompt_ids: Sequence[int], sizes: Sequence[int]) -> None:
    """Run the prompt; then run one forward after it for each number of tokens in `sizes`."""
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
