"""Models that a visitor of *Serve* names: a repository of the Hub, or a pasted config.json."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.models.files.config_bounds import bounded_config, read_config_file
from specviz.models.files.hub import HUB_ID, fetch_configuration
from specviz.models.limited_process import children_seconds
from specviz.models.pair_catalog import check_offered
from specviz.shape_source import shape_of_content
from specviz.sizing.shape import ModelShape
from specviz.ui.spending import spending

# The largest number of configurations fetched at the same time; each occupies one thread.
FETCHES = 4
# The largest number of configurations whose parameters the server is counting, or that wait to be
# counted. Each occupies one thread.
COUNTS = 6
KEPT = 256  # largest number of models' shapes that the server remembers


class OwnModels:
    """The shapes of models that visitors name.

    The server counts the parameters of one configuration at a time.
    """

    def __init__(self) -> None:
        self._fetches = threading.BoundedSemaphore(FETCHES)
        self._counts = threading.BoundedSemaphore(COUNTS)
        self._counting = threading.Lock()
        self._kept: dict[bytes, ModelShape] = {}

    def shape(self, name: str, text: str, visitor: str) -> ModelShape:
        """Return the shape of the model in the field `name`.

        `text` is a repository of the Hub or the content of a config.json. A path is refused, so a
        visitor cannot read a file of this server. The CPU time of counting is charged to the
        visitor. InputError begins with the field's name, so that the page can show it next to the
        field.
        """
        if not _is_repository(text) and not text.startswith("{"):
            raise InputError(
                f"{name} must be a repository of the Hub, such as owner/model, or a config.json, "
                f"got {short(text)}"
            )
        try:
            if _is_repository(text):
                return self._counted(self._fetched(name, text), text, name, visitor)
            return self._counted(bounded_config("your own", text), "your own", name, visitor)
        except InputError as error:
            sentence = str(error)
            raise InputError(
                sentence if sentence.startswith(f"{name} ") else f"{name} {sentence}"
            ) from None

    def _fetched(self, name: str, repository: str) -> dict[str, Any]:
        environment = Environment.read()
        check_offered({name: repository}, environment)
        if not self._fetches.acquire(blocking=False):
            raise InputError(
                f"{name} must wait while other models are fetched: try again in a moment"
            )
        try:
            return read_config_file(repository, fetch_configuration(repository, environment))
        finally:
            self._fetches.release()

    def _counted(
        self, content: Mapping[str, Any], title: str, name: str, visitor: str
    ) -> ModelShape:
        """Return the shape of the model in a configuration.

        Count its parameters once for all visitors.
        """
        key = sha256(json.dumps([title, content]).encode()).digest()
        if (kept := self._kept.get(key)) is not None:
            return kept
        if not self._counts.acquire(blocking=False):
            raise InputError(
                f"{name} must wait while other models are counted: try again in a moment"
            )
        try:
            with self._counting:
                if (kept := self._kept.get(key)) is not None:
                    return kept
                return self._keep(key, _charged(content, title, visitor))
        finally:
            self._counts.release()

    def _keep(self, key: bytes, shape: ModelShape) -> ModelShape:
        if len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = shape
        return shape


def _charged(content: Mapping[str, Any], title: str, visitor: str) -> ModelShape:
    before = children_seconds()
    try:
        return shape_of_content(content, title)
    finally:
        spending.add(visitor, children_seconds() - before)


def _is_repository(text: str) -> bool:
    """Return whether `text` is a Hub id with an owner, as in owner/name.

    The Hub also has ids without an owner; the app does not accept them.
    """
    return "/" in text and HUB_ID.fullmatch(text) is not None
