"""Where models come from: what the Hub client raises becomes one sentence."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from specviz.errors import InputError
from specviz.models.model_folder import find_model_folder
from specviz.settings import Settings

ONLINE, OFFLINE = Settings(), Settings(hub_offline=True)


def answer(status: int) -> Any:
    return SimpleNamespace(status_code=status, headers={}, request=None)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A Hub client that downloads nothing; `failure` is raised instead of an answer."""
    files = [("model.safetensors", 10**9)]
    state = SimpleNamespace(failure=None, is_unreachable=False, files=files, calls=[])

    def snapshot_download(source: str, **options: Any) -> str:
        state.calls.append(options)
        if state.failure is not None:
            raise state.failure
        return str(tmp_path)

    def model_info(self: Any, source: str, **options: Any) -> Any:
        if state.is_unreachable:
            raise ConnectionError("no route")
        siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in state.files]
        return SimpleNamespace(siblings=siblings)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    return state


def refusal(source: str, settings: Settings = ONLINE) -> str:
    with pytest.raises(InputError) as caught:
        find_model_folder(source, settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert find_model_folder(str(tmp_path), OFFLINE) == tmp_path


def test_only_configuration_tokenizer_and_safetensors_are_fetched(
    hub: SimpleNamespace, tmp_path: Path
) -> None:
    assert find_model_folder("owner/model", ONLINE) == tmp_path
    wanted = hub.calls[0]["allow_patterns"]
    assert set(wanted) == {"*.json", "*.safetensors", "*.txt", "*.model"}


def test_without_a_connection_an_earlier_download_serves(
    hub: SimpleNamespace, tmp_path: Path
) -> None:
    hub.is_unreachable = True
    assert find_model_folder("owner/model", ONLINE) == tmp_path


def test_weights_can_wait(hub: SimpleNamespace) -> None:
    find_model_folder("owner/model", ONLINE, weights=False)
    assert "*.safetensors" not in hub.calls[0]["allow_patterns"]


def test_a_repository_of_pickles_is_refused_before_the_download(hub: SimpleNamespace) -> None:
    hub.files = [("pytorch_model.bin", 10**9), ("onnx/model.safetensors", 10**9)]
    assert "must have its weights as *.safetensors, found none" in refusal("owner/model")
    assert hub.calls == []


def test_offline_only_local_files_are_used(hub: SimpleNamespace) -> None:
    find_model_folder("owner/model", OFFLINE)
    assert hub.calls[0]["local_files_only"] is True


def test_a_model_that_is_too_large_is_refused_before_the_download(hub: SimpleNamespace) -> None:
    hub.files = [("a.safetensors", 15 * 10**9), ("b.safetensors", 15 * 10**9)]
    assert "must be at most 20 GB (SPECVIZ_MAX_MODEL_GB), its weights take 30.0 GB" in refusal(
        "owner/model"
    )
    assert hub.calls == []


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (
            errors.RepositoryNotFoundError("gone", response=answer(404)),
            "is neither a folder here nor a public model on the Hub; check the spelling",
        ),
        (
            errors.GatedRepoError("gated", response=answer(403)),
            "is gated: accept its terms on huggingface.co and set HF_TOKEN",
        ),
        (
            ConnectionError("no route"),
            "is not on this machine and the Hub cannot be reached (ConnectionError); "
            "choose the bundled pair or a model folder",
        ),
        (OSError("disk full"), "the Hub cannot be reached (OSError)"),
    ],
)
def test_what_the_hub_client_raises_becomes_a_sentence(
    hub: SimpleNamespace, failure: Exception, message: str
) -> None:
    hub.failure = failure
    assert message in refusal("owner/model")


def test_offline_a_model_that_is_not_here_is_refused(hub: SimpleNamespace) -> None:
    hub.failure = errors.LocalEntryNotFoundError("not here")
    assert "is not on this machine and HF_HUB_OFFLINE is set" in refusal("owner/model", OFFLINE)


@pytest.mark.parametrize(
    "source", ["./nothing", "/nothing", "a/b/c", "~/none", "", "a b", "x" * 999 + "!"]
)
def test_what_can_only_be_a_path_is_never_looked_up(hub: SimpleNamespace, source: str) -> None:
    assert "does not exist; check the path" in refusal(source)
    assert hub.calls == []
