"""Pairs in memory: a target and what a method needs beside it, each loaded once for all sessions.

Knows nothing of decoding; the caches of a run are the run's own.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.errors import InputError
from specviz.models.catalog import BUNDLED, Pair, pairs
from specviz.models.language_model import LanguageModel
from specviz.models.llama_model import LlamaModel
from specviz.models.loading import (
    LoadedModel,
    known_to_run_by_layers,
    load_model,
    resolve_device,
    resolve_dtype,
)
from specviz.models.model_folder import find_model_folder
from specviz.models.parts import EagleHead, MedusaHeads, Need, Parts
from specviz.models.self_drafting import self_drafting
from specviz.models.store import Store
from specviz.models.threads import use_threads
from specviz.models.tokenizer import TextCodec
from specviz.models.vocabulary import difference
from specviz.settings import Settings

MODELS_IN_MEMORY = 6

_store = Store(MODELS_IN_MEMORY)


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """A target, its tokenizer, and the parts that were needed."""

    pair: Pair
    target: LanguageModel
    parts: Parts
    codec: TextCodec

    @property
    def draft(self) -> LanguageModel:
        """The draft, where it was needed."""
        assert self.parts.draft is not None
        return self.parts.draft


def load_pair(
    pair: Pair,
    device: str = "auto",
    dtype: str = "float32",
    needs: frozenset[Need] = frozenset({Need.DRAFT}),
) -> LoadedPair:
    """The pair's target and whatever of `needs` it has, from memory where it is there.

    Raises InputError where the pair lacks one of `needs`, or where something cannot be loaded.
    """
    resolve_device(device), resolve_dtype(dtype)
    for need in needs_missing(pair, needs):
        _refuse_need(pair, need)
    loaded = _Loader(pair, device, dtype).load(needs)
    use_threads(loaded.target.info, Settings.from_environment())
    return loaded


def needs_missing(pair: Pair, needs: frozenset[Need]) -> tuple[Need, ...]:
    """The needs that the pair cannot meet, as far as that can be told without loading it."""
    sources = {
        Need.DRAFT: pair.draft,
        Need.MEDUSA: pair.medusa,
        Need.EAGLE: pair.eagle,
        Need.FOREIGN_DRAFT: pair.foreign_draft,
    }
    return tuple(
        need
        for need in Need
        if need in needs
        and (not sources.get(need, "there") or (need is Need.LAYERS and _lacks_layers(pair)))
    )


def _lacks_layers(pair: Pair) -> bool:
    return known_to_run_by_layers(pair.target, pair.model_type) is False


def _refuse_need(pair: Pair, need: Need) -> None:
    able = [each.name for each in pairs() if not needs_missing(each, frozenset({need}))]
    instead = f", or one of the pairs {', '.join(able)}" if able else ""
    raise InputError(
        f"pair {pair.name!r} has no {need.title}: choose a method that needs none{instead}"
    )


@dataclass(frozen=True, slots=True)
class _Loader:
    """Loads the parts of one pair through the store."""

    pair: Pair
    device: str
    dtype: str

    def load(self, needs: frozenset[Need]) -> LoadedPair:
        target = self._model(self.pair.target, "target")
        parts = Parts(
            draft=self._draft(target) if Need.DRAFT in needs else None,
            medusa=self._medusa(target) if Need.MEDUSA in needs else None,
            eagle=self._eagle(target) if Need.EAGLE in needs else None,
            foreign=self._model(self.pair.foreign_draft, "foreign draft")
            if Need.FOREIGN_DRAFT in needs
            else None,
            codec=target.codec if Need.TEXT in needs else None,
            self_drafting=self._self_drafting(target) if Need.LAYERS in needs else None,
        )
        self._model(self.pair.target, "target")  # used last: it never goes before its heads
        return LoadedPair(self.pair, target.model, parts, target.codec)

    def _model(self, source: str, role: str) -> LoadedModel:
        name = f"bundled {role}" if self.pair.name == BUNDLED else None
        return _store.get(
            self._key("model", source), lambda: load_model(source, self.device, self.dtype, name)
        )

    def _draft(self, target: LoadedModel) -> LanguageModel:
        draft = self._model(self.pair.draft, "draft")
        check_pair(target, draft)
        return draft.model

    def _medusa(self, target: LoadedModel) -> MedusaHeads:
        return self._head("medusa", self.pair.medusa, target)

    def _eagle(self, target: LoadedModel) -> EagleHead:
        return self._head("eagle", self.pair.eagle, target)

    def _head(self, kind: str, source: str, target: LoadedModel) -> Any:
        """A head belongs to its target, whose device and dtype it has."""
        return _store.get(
            self._key(kind, source, self.pair.target),
            lambda: _open_head(
                kind, find_model_folder(source, Settings.from_environment()), target.model
            ),
        )

    def _self_drafting(self, target: LoadedModel) -> Any:
        if not isinstance(target.model, LlamaModel):
            _refuse_need(self.pair, Need.LAYERS)
        return self_drafting(target.folder, target.info.layers)

    def _key(self, kind: str, *sources: str) -> tuple[str, ...]:
        return (kind, *sources, resolve_device(self.device).type, self.dtype)


def _open_head(kind: str, folder: Path, target: LanguageModel) -> Any:
    name, reader = _HEADS[kind]
    return getattr(importlib.import_module(f"specviz.models.{name}"), reader).open(folder, target)


# until both are there to be imported
_HEADS = {"medusa": ("medusa_heads", "MedusaHeads"), "eagle": ("eagle_head", "EagleHead")}


def check_pair(target: LoadedModel, draft: LoadedModel) -> None:
    """Raise InputError unless every token id means the same to both (padding apart)."""
    found = difference(target.codec, draft.codec)
    if found is not None:
        raise InputError(
            f"draft {draft.info.name!r} must share the vocabulary of target "
            f"{target.info.name!r}: {found}; choose a draft of the same family, or a method that "
            "takes drafts of another vocabulary"
        )
