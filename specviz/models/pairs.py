"""Pairs in memory: a target and a draft that share one vocabulary, loaded once for all sessions.

Knows nothing of decoding; the caches of a run are the run's own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass

from specviz.errors import InputError
from specviz.models.catalog import BUNDLED, Pair
from specviz.models.language_model import LanguageModel
from specviz.models.loading import LoadedModel, load_model, resolve_device, resolve_dtype
from specviz.models.threads import use_threads
from specviz.models.tokenizer import TextCodec
from specviz.settings import Settings

PAIRS_IN_MEMORY = 2

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """Both models of a pair; their shared vocabulary is the target's."""

    pair: Pair
    target: LanguageModel
    draft: LanguageModel
    codec: TextCodec


_loads: OrderedDict[_Key, Future[LoadedPair]] = OrderedDict()
_lock = threading.Lock()


def load_pair(pair: Pair, device: str = "auto", dtype: str = "float32") -> LoadedPair:
    """The pair, from memory where it is there; the one unused for longest makes room.

    Callers that ask for the same pair at once share one load, and its InputError if it fails.
    """
    key = (pair.target, pair.draft, resolve_device(device).type, str(resolve_dtype(dtype)))
    with _lock:
        load = _loads.get(key)
        is_mine = load is None
        if load is None:
            load = _loads[key] = Future()
        _loads.move_to_end(key)
        while len(_loads) > PAIRS_IN_MEMORY:
            _loads.popitem(last=False)
    if is_mine:
        _fill(load, key, pair, device, dtype)
    loaded = load.result()
    use_threads(loaded.target.info, Settings.from_environment())
    return loaded


def _fill(load: Future[LoadedPair], key: _Key, pair: Pair, device: str, dtype: str) -> None:
    try:
        load.set_result(_load(pair, device, dtype))
    except BaseException as error:
        with _lock:
            if _loads.get(key) is load:
                del _loads[key]
        load.set_exception(error)


def _load(pair: Pair, device: str, dtype: str) -> LoadedPair:
    is_bundled = pair.name == BUNDLED
    target = load_model(pair.target, device, dtype, "bundled target" if is_bundled else None)
    draft = load_model(pair.draft, device, dtype, "bundled draft" if is_bundled else None)
    check_pair(target, draft)
    return LoadedPair(pair, target.model, draft.model, target.codec)


def check_pair(target: LoadedModel, draft: LoadedModel) -> None:
    """Raise InputError unless every token id means the same to both (padding apart)."""
    ours, theirs = target.codec.vocabulary, draft.codec.vocabulary
    shared = min(len(ours), len(theirs))
    for token_id in range(shared):
        if ours[token_id] != theirs[token_id]:
            _refuse(
                target, draft, f"token {token_id} is {ours[token_id]!r} and {theirs[token_id]!r}"
            )
    if any(name is not None for name in (*ours[shared:], *theirs[shared:])):
        _refuse(target, draft, f"they have {len(ours)} and {len(theirs)} tokens")


def _refuse(target: LoadedModel, draft: LoadedModel, difference: str) -> None:
    raise InputError(
        f"draft {draft.info.name!r} must share the vocabulary of target {target.info.name!r}: "
        f"{difference}; choose a draft of the same family"
    )
