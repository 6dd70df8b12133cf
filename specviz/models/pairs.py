"""Pairs in memory: a target and what a method needs beside it, each loaded once for all sessions.

Knows nothing of decoding; the caches of a run are the run's own.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path

import torch

from specviz.errors import InputError
from specviz.models.catalog import BUNDLED, Pair
from specviz.models.eagle_head import EagleHead
from specviz.models.language_model import LanguageModel
from specviz.models.llama_model import LlamaModel
from specviz.models.loading import LoadedModel, load_surveyed, resolve_device, resolve_dtype
from specviz.models.medusa_heads import MedusaHeads
from specviz.models.model_folder import find_model_folder
from specviz.models.pair_check import needed_bytes, source_problems, survey_pair
from specviz.models.pair_needs import need_refusal, needed_models
from specviz.models.pair_needs import needs_missing as needs_missing
from specviz.models.parts import Need, Parts
from specviz.models.placement import room_bytes, shortage
from specviz.models.self_drafting import SelfDrafting, self_drafting
from specviz.models.store import Key, Store
from specviz.models.survey import Survey, survey_model
from specviz.models.threads import use_threads
from specviz.models.tokenizer import TextCodec
from specviz.models.vocabulary import difference, refusal
from specviz.settings import Settings

MODELS_IN_MEMORY = 8

_store = Store(MODELS_IN_MEMORY)


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """A target, its tokenizer, and the parts that were needed."""

    pair: Pair
    target: LanguageModel
    parts: Parts
    codec: TextCodec


def load_pair(
    pair: Pair,
    device: str = "auto",
    dtype: str = "float32",
    needs: frozenset[Need] = frozenset({Need.DRAFT}),
) -> LoadedPair:
    """The pair's target and what is needed of its parts, from memory where it is there.

    Raises InputError where the pair lacks one of `needs`, or where something cannot be loaded; no
    weights are fetched before everything that can be told without them is known to fit.
    """
    loader = _Loader(pair, resolve_device(device), resolve_dtype(dtype))
    for need in needs_missing(pair, needs):
        raise InputError(need_refusal(pair, need))
    loaded = loader.load(needs)
    use_threads(loaded.target.info, Settings.from_environment())
    return loaded


@dataclass(frozen=True, slots=True)
class _Loader:
    """Loads the parts of one pair through the store."""

    pair: Pair
    device: torch.device
    dtype: torch.dtype

    def load(self, needs: frozenset[Need]) -> LoadedPair:
        surveys = self._look(needs)
        target = self._model(self.pair.target, "target", surveys)
        parts = Parts(
            draft=self._draft(target, surveys) if Need.DRAFT in needs else None,
            medusa=self._medusa(target) if Need.MEDUSA in needs else None,
            eagle=self._eagle(target) if Need.EAGLE in needs else None,
            foreign=self._model(self.pair.foreign_draft, "foreign draft", surveys)
            if Need.FOREIGN_DRAFT in needs
            else None,
            codec=target.codec if Need.TEXT in needs else None,
            self_drafting=self._self_drafting(target) if Need.LAYERS in needs else None,
        )
        self._model(self.pair.target, "target", surveys)  # the last to go, heads belong to it
        return LoadedPair(self.pair, target.model, parts, target.codec)

    def _look(self, needs: frozenset[Need]) -> dict[str, Survey]:
        """Survey the pair and make room for it, unless all its models are in memory."""
        keys = {self._key("model", source) for source in needed_models(self.pair, needs)}
        if all(key in _store for key in keys):
            return {}
        survey = survey_pair(self.pair, needs)
        for problem in source_problems(survey):
            raise InputError(problem)
        missing = [each for each in survey.models if self._key("model", each.source) not in _store]
        self._make_room(missing, keys)
        return {each.source: each for each in survey.models}

    def _make_room(self, missing: list[Survey], kept: set[Key]) -> None:
        """Raise InputError unless these models fit, perhaps in the place of others."""
        size, free = needed_bytes(missing, self.dtype), room_bytes(self.device)
        idle = [(key, thing) for key, thing in _store.idle(kept) if key[-2] == self.device.type]
        held = sum(thing.info.bytes for key, thing in idle if key[0] == "model")
        while free is not None and free < size <= free + held and idle:
            key, thing = idle.pop(0)
            held -= thing.info.bytes if key[0] == "model" else 0
            del thing
            _store.drop(key)
            gc.collect()
            free = room_bytes(self.device)
        if free is not None and free < size:
            shown = shortage(size, self.device, self.dtype)
            raise InputError(f"pair {self.pair.name!r} {shown}")

    def _model(self, source: str, role: str, surveys: dict[str, Survey]) -> LoadedModel:
        name = f"bundled {role}" if self.pair.name == BUNDLED else None

        def load() -> LoadedModel:
            survey = surveys.get(source) or survey_model(source, Settings.from_environment())
            return load_surveyed(survey, self.device, self.dtype, name)

        return _store.get(self._key("model", source), load)

    def _draft(self, target: LoadedModel, surveys: dict[str, Survey]) -> LanguageModel:
        draft = self._model(self.pair.draft, "draft", surveys)
        check_pair(target, draft)
        return draft.model

    def _medusa(self, target: LoadedModel) -> MedusaHeads:
        source = self.pair.medusa
        key = self._key("medusa", source, self.pair.target)
        return _store.get(key, lambda: MedusaHeads.open(_head_folder(source), target.model))

    def _eagle(self, target: LoadedModel) -> EagleHead:
        source = self.pair.eagle
        key = self._key("eagle", source, self.pair.target)
        return _store.get(key, lambda: EagleHead.open(_head_folder(source), target.model))

    def _self_drafting(self, target: LoadedModel) -> SelfDrafting:
        if not isinstance(target.model, LlamaModel):
            raise InputError(need_refusal(self.pair, Need.LAYERS))
        return self_drafting(target.folder, target.info.layers)

    def _key(self, kind: str, *sources: str) -> Key:
        return (kind, *sources, self.device.type, str(self.dtype))


def _head_folder(source: str) -> Path:
    return find_model_folder(source, Settings.from_environment())


def check_pair(target: LoadedModel, draft: LoadedModel) -> None:
    """Raise InputError unless every token id means the same to both (padding apart)."""
    found = difference(target.codec, draft.codec)
    if found is not None:
        raise InputError(refusal(target.info.name, draft.info.name, found))
