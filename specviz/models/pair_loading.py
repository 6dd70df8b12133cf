"""Load pairs: a target and the parts that a method needs, each loaded once for all sessions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.allocator import keep_freed_memory, return_freed_memory
from specviz.models.files.file_check import check_files
from specviz.models.files.hub import find_model_folder
from specviz.models.files.loading import LoadedModel, load_surveyed, resolve_device, resolve_dtype
from specviz.models.files.survey import Survey, survey_model
from specviz.models.garbage import collect_all
from specviz.models.heads.eagle_files import open_eagle_head
from specviz.models.heads.eagle_head import EagleHead
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.models.language_model import LanguageModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.llama.self_model import SelfDrafting, self_drafting
from specviz.models.memory import room_bytes, shortage
from specviz.models.memory_estimate import NO_REQUEST, Demand, ModelSize, estimate, without_weights
from specviz.models.pair_catalog import Pair
from specviz.models.pair_check import (
    head_bytes,
    need_refusal,
    needed_models,
    prompt_tokens,
    source_problems,
    survey_pair,
)
from specviz.models.pair_check import needs_missing as needs_missing
from specviz.models.parts import Need, Parts
from specviz.models.text.grammar import Grammar, compiled
from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import difference, refusal
from specviz.models.threads import use_threads
from specviz.records import DecodingConfig
from specviz.slices import check_stop

Key = tuple[str, ...]
T = TypeVar("T")

MODELS_IN_MEMORY = 8


class Store:
    """A cache of at most `size` loaded objects, each with a key.

    If the store drops an object, runs that use the object can continue to use it.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._loads: OrderedDict[Key, Future[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key, load: Callable[[], T]) -> T:
        """Return the object with this key. Call `load` if the store does not have it.

        Callers that ask at the same time share one call of `load`, and also its error. After an
        error, the next caller calls `load` again.
        """
        with self._lock:
            found = self._loads.get(key)
            future: Future[T] = Future() if found is None else found
            self._loads[key] = future
            self._loads.move_to_end(key)
            while len(self._loads) > self._size:
                self._loads.popitem(last=False)
        if found is None:
            self._fill(key, future, load)
        return future.result()

    def __contains__(self, key: Key) -> bool:
        """Return whether the object with this key is loaded or is being loaded now."""
        return key in self._loads

    def held(self, key: Key) -> Any | None:
        """Return the object with this key, or None if no such object is loaded."""
        future = self._loads.get(key)
        is_here = future is not None and future.done() and future.exception() is None
        return future.result() if future is not None and is_here else None

    def idle(self, kept: Collection[Key]) -> list[tuple[Key, Any]]:
        """Return all loaded objects except those with the keys `kept`.

        The least recently used object comes first.
        """
        with self._lock:
            loaded = [(key, load) for key, load in self._loads.items() if key not in kept]
        return [
            (key, load.result()) for key, load in loaded if load.done() and load.exception() is None
        ]

    def drop(self, key: Key) -> None:
        with self._lock:
            self._loads.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._loads.clear()

    def _fill(self, key: Key, future: Future[T], load: Callable[[], T]) -> None:
        try:
            future.set_result(load())
        except BaseException as error:
            with self._lock:
                if self._loads.get(key) is future:
                    del self._loads[key]
            future.set_exception(error)


_store = Store(MODELS_IN_MEMORY)


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """A loaded target with its tokenizer, and the parts of its pair that one run needs."""

    pair: Pair
    target: LanguageModel
    parts: Parts
    codec: TextCodec

    @property
    def models(self) -> tuple[LanguageModel, ...]:
        """Return the target and the draft models."""
        foreign = self.parts.foreign
        return (*self.prompt_models, foreign.model) if foreign else self.prompt_models

    @property
    def prompt_models(self) -> tuple[LanguageModel, ...]:
        """Return the models that run the prompt's tokens: the target and, if needed, the draft."""
        return (self.target, self.parts.draft) if self.parts.draft else (self.target,)

    def grammar(self, config: DecodingConfig) -> Grammar | None:
        """Return the compiled grammar of the settings, or None if they have none.

        Raises InputError for a bad grammar.
        """
        return compiled(config.grammar, self.codec)


def load_pair(
    pair: Pair,
    device: str = "auto",
    dtype: str = "float32",
    needs: frozenset[Need] = frozenset({Need.DRAFT}),
    demand: Demand = NO_REQUEST,
) -> LoadedPair:
    """Return the target and the needed parts of the pair; load those that are not in memory.

    Raises InputError if the pair lacks one of `needs`, if a part cannot be loaded, or if the run
    that `demand` describes does not fit into memory. The weights are downloaded only after all
    checks that need no weights.
    """
    loader = _Loader(pair, resolve_device(device), resolve_dtype(dtype))
    for need in needs_missing(pair, needs):
        raise InputError(need_refusal(pair, need))
    loaded = loader.load(needs, demand)
    chosen = [model.settle() for model in loaded.models if isinstance(model, LlamaModel)]
    # Return free memory to the system. Loading the weights and measuring the kernels needed extra
    # memory, up to half the size of the weights.
    if any(chosen):
        return_freed_memory()
    keep_freed_memory()
    return loaded


def is_loaded(pair: Pair, device: str = "auto", dtype: str = "float32") -> bool:
    """Return whether the pair's target is in memory."""
    loader = _Loader(pair, resolve_device(device), resolve_dtype(dtype))
    return _store.held(loader.key("model", pair.target)) is not None


@dataclass(frozen=True, slots=True)
class _Loader:
    """A loader of the parts of one pair, which puts the loaded parts into the store."""

    pair: Pair
    device: torch.device
    dtype: torch.dtype

    def load(self, needs: frozenset[Need], demand: Demand) -> LoadedPair:
        surveys = self._prepared(needs, demand)
        target = self._model(self.pair.target, "target", surveys)
        # Set the number of threads first: heads choose their matrix kernels for that number.
        use_threads(target.info, Environment.read())
        parts = Parts(
            draft=self._draft(target, surveys) if Need.DRAFT in needs else None,
            medusa=self._medusa(target) if Need.MEDUSA in needs else None,
            eagle=self._eagle(target) if Need.EAGLE in needs else None,
            foreign=self._model(self.pair.foreign_draft, "foreign draft", surveys, target.codec)
            if Need.FOREIGN_DRAFT in needs
            else None,
            codec=target.codec if Need.TEXT in needs else None,
            self_drafting=self._self_drafting(target) if Need.LAYERS in needs else None,
        )
        # A head refers to the target, so the target must stay in the store: mark it as the most
        # recently used entry.
        self._model(self.pair.target, "target", surveys)
        return LoadedPair(self.pair, target.model, parts, target.codec)

    def _prepared(self, needs: frozenset[Need], demand: Demand) -> dict[str, Survey]:
        """Survey the pair's models unless all are in memory, and free memory for the run.

        Return the facts about each surveyed model, by its source.
        """
        sources = needed_models(self.pair, needs)
        loaded = {each: _store.held(self.key("model", each)) for each in sources}
        surveys: dict[str, Survey] = {}
        if not all(self.key("model", each) in _store for each in sources):
            survey = survey_pair(self.pair, needs)
            for problem in source_problems(survey):
                raise InputError(problem)
            surveys = {each.source: each for each in survey.models}
        sizes: list[ModelSize] = []
        for source in sources:
            known, survey_of = loaded[source], surveys.get(source)
            size = survey_of.size(self.dtype) if survey_of else known.size if known else None
            # The size is unknown because another run is loading this model now. That run has made
            # space for it.
            if size is None:
                return surveys
            sizes.append(size)
        first = loaded[sources[0]] or surveys[sources[0]]
        tokens = prompt_tokens(first.codec, demand, least=True)
        heads = head_bytes(self.pair, needs, self.dtype)
        on_cpu = self.device.type == "cpu"
        found = estimate(sizes[0], sizes[1:], demand, tokens, heads, on_cpu)
        loaded_sizes = [size for size in sizes if self.key("model", size.source) in _store]
        kept = {self.key("model", source) for source in sources}
        self._make_room(
            without_weights(found, sum(size.held(on_cpu) for size in loaded_sizes)), kept
        )
        return surveys

    def _make_room(self, size: int, kept: set[Key]) -> None:
        """Drop unused models until `size` bytes of memory are free.

        Raises InputError if too little memory is free even then.
        """
        free = room_bytes(self.device)
        idle = [(key, thing) for key, thing in _store.idle(kept) if key[-2] == self.device.type]
        held = sum(thing.info.bytes for key, thing in idle if key[0] == "model")
        while free is not None and free < size <= free + held and idle:
            key, thing = idle.pop(0)
            held -= thing.info.bytes if key[0] == "model" else 0
            del thing
            _store.drop(key)
            collect_all()
            return_freed_memory()
            free = room_bytes(self.device)
        if free is not None and free < size:
            shown = shortage(size, self.device, self.dtype)
            raise InputError(f"pair {self.pair.name!r} {shown}")

    def _model(
        self, source: str, role: str, surveys: dict[str, Survey], target: TextCodec | None = None
    ) -> LoadedModel:
        name = self.pair.model_name(role)

        def load() -> LoadedModel:
            check_stop()
            survey = surveys.get(source) or survey_model(source, Environment.read(), target)
            return load_surveyed(survey, self.device, self.dtype, name)

        return _store.get(self.key("model", source), load)

    def _draft(self, target: LoadedModel, surveys: dict[str, Survey]) -> LanguageModel:
        draft = self._model(self.pair.draft, "draft", surveys, target.codec)
        check_pair(target, draft)
        return draft.model

    def _medusa(self, target: LoadedModel) -> MedusaHeads:
        source = self.pair.medusa
        key = self.key("medusa", source, self.pair.target)
        return _store.get(key, lambda: MedusaHeads.open(_head_folder(source), target.model))

    def _eagle(self, target: LoadedModel) -> EagleHead:
        source = self.pair.eagle
        key = self.key("eagle", source, self.pair.target)
        return _store.get(key, lambda: open_eagle_head(_head_folder(source), target.model))

    def _self_drafting(self, target: LoadedModel) -> SelfDrafting:
        if not isinstance(target.model, LlamaModel):
            raise InputError(need_refusal(self.pair, Need.LAYERS))
        return self_drafting(target.folder, target.info.layers)

    def key(self, kind: str, *sources: str) -> Key:
        return (kind, *sources, self.device.type, str(self.dtype))


def _head_folder(source: str) -> Path:
    folder = find_model_folder(source, Environment.read())
    check_files(source, folder)
    return folder


def check_pair(target: LoadedModel, draft: LoadedModel) -> None:
    """Raise InputError if draft and target have different tokens for one id.

    Ids that are only padding in one of the models are not compared.
    """
    found = difference(target.codec, draft.codec)
    if found is not None:
        raise InputError(refusal(target.info.name, draft.info.name, found))
