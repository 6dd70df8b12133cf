"""A client of the Hugging Face Hub that makes no requests and downloads nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest


def answer(status: int) -> Any:
    """Return a fake response of the Hub.

    It has the attributes that the error classes of the Hub's client read.
    """
    return SimpleNamespace(status_code=status, headers={}, request=None)


class HubStub:
    """A stub that raises `failure`, returns `folder`, or looks up a Hub id in `folders`."""

    def __init__(self, folder: Path) -> None:
        self.failure: Exception | None = None
        self.is_unreachable = False
        self.is_gated = False
        self.files = [("model.safetensors", 10**9)]
        self.folder = folder
        self.folders: dict[str, Path] = {}
        self.calls: list[dict[str, Any]] = []
        self.tokens: list[object] = []  # the access token of each request for a file list

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
    """Replace the real client by a new stub and return the stub."""
    stub = HubStub(folder)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", stub.snapshot_download)
    monkeypatch.setattr(
        huggingface_hub.HfApi,
        "model_info",
        lambda self, source, **named: stub.model_info(self, source),
    )
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *args: None)
    return stub
