"""A Hub client that asks nobody and downloads nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest


def answer(status: int) -> Any:
    """A response of the Hub, as far as its errors show it."""
    return SimpleNamespace(status_code=status, headers={}, request=None)


class HubStub:
    """`failure` is raised instead of a download; `folders` says what lies where, by Hub id."""

    def __init__(self, folder: Path) -> None:
        self.failure: Exception | None = None
        self.is_unreachable = False
        self.is_gated = False
        self.files = [("model.safetensors", 10**9)]
        self.folder = folder
        self.folders: dict[str, Path] = {}
        self.calls: list[dict[str, Any]] = []
        self.tokens: list[object] = []  # with which the Hub was asked for a listing

    @property
    def fetched_weights(self) -> bool:
        return any("*.safetensors" in call["allow_patterns"] for call in self.calls)

    def snapshot_download(self, source: str, **options: Any) -> str:
        self.calls.append(options)
        if self.failure is not None:
            raise self.failure
        return str(self.folders.get(source, self.folder))

    def model_info(self, client: huggingface_hub.HfApi, source: str) -> Any:
        self.tokens.append(client.token)
        if self.is_unreachable:
            raise ConnectionError("no route")
        siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in self.files]
        return SimpleNamespace(siblings=siblings, gated="manual" if self.is_gated else False)


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> HubStub:
    """Put a stub in the place of the real client."""
    stub = HubStub(folder)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", stub.snapshot_download)
    monkeypatch.setattr(
        huggingface_hub.HfApi,
        "model_info",
        lambda self, source, **named: stub.model_info(self, source),
    )
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *args: None)
    return stub
