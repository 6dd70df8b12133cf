"""Models come from a folder or the Hub; every error of the Hub's client becomes one sentence."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import errors

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.config_bounds import MAX_CONFIG_BYTES
from specviz.models.files.hub import (
    CHAT_ID,
    Listing,
    _refusal,
    fetch_configuration,
    find_model_folder,
    list_repository,
)
from tests.faults.fake_hub import Repository
from tests.models.hub_stub import HubStub, answer

ONLINE, OFFLINE = Environment(), Environment(hub_offline=True)


def refusal(source: str, settings: Environment = ONLINE) -> str:
    with pytest.raises(InputError) as caught:
        find_model_folder(source, settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_is_used_directly(tmp_path: Path) -> None:
    assert find_model_folder(str(tmp_path), OFFLINE) == tmp_path


def test_pickle_files_and_code_are_not_downloaded(hub: HubStub, tmp_path: Path) -> None:
    assert find_model_folder("owner/model", ONLINE) == tmp_path
    wanted = hub.calls[0]["allow_patterns"]
    assert set(wanted) == {"*.json", "*.safetensors", "*.txt", "*.jinja", "*.model"}


def test_without_a_connection_an_earlier_download_is_used(hub: HubStub, tmp_path: Path) -> None:
    hub.is_unreachable = True
    assert find_model_folder("owner/model", ONLINE) == tmp_path


def test_a_download_can_leave_out_the_weights(hub: HubStub) -> None:
    find_model_folder("owner/model", ONLINE, weights=False)
    assert "*.safetensors" not in hub.calls[0]["allow_patterns"]


def test_a_repository_with_pickled_weights_is_refused_before_the_download(hub: HubStub) -> None:
    hub.files = [("pytorch_model.bin", 10**9), ("onnx/model.safetensors", 10**9)]
    assert "must have its weights as *.safetensors, found none" in refusal("owner/model")
    assert hub.calls == []


def test_offline_only_local_files_are_used(hub: HubStub) -> None:
    find_model_folder("owner/model", OFFLINE)
    assert hub.calls[0]["local_files_only"] is True


def test_a_model_that_is_too_large_is_refused_before_the_download(hub: HubStub) -> None:
    hub.files = [("a.safetensors", 15 * 10**9), ("b.safetensors", 15 * 10**9)]
    assert "must be at most 20 GB (SPECVIZ_MAX_MODEL_GB), but its weights take 30.0 GB" in refusal(
        "owner/model"
    )
    assert hub.calls == []


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (
            errors.RepositoryNotFoundError("gone", response=answer(404)),
            "is neither a folder here nor a public model on the Hub; check the spelling, or set "
            "HF_TOKEN if it is private",
        ),
        (
            errors.HfHubHTTPError("refused", response=answer(401)),
            "is refused by the Hub (401): accept its terms on huggingface.co and check HF_TOKEN",
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
def test_an_error_of_the_hub_s_client_becomes_a_sentence(
    hub: HubStub, failure: Exception, message: str
) -> None:
    hub.failure = failure
    assert message in refusal("owner/model")


def test_a_refusal_of_the_hub_is_reported_before_the_download(
    hub: HubStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise errors.GatedRepoError("gated", response=answer(403))

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    assert "is gated: accept its terms" in refusal("owner/model")
    assert hub.calls == []


def test_a_download_that_the_disk_cannot_hold_is_refused(hub: HubStub) -> None:
    hub.files = [("model.safetensors", 10**16)]
    settings = Environment(max_model_gb=10**8)
    assert "needs 10000000.0 GB on the disk of" in refusal("owner/model", settings)
    assert hub.calls == []


@pytest.mark.parametrize(("gated", "is_gated"), [("manual", True), ("auto", True), (False, False)])
def test_the_hub_says_whether_a_model_is_gated(
    hub: HubStub, monkeypatch: pytest.MonkeyPatch, gated: object, is_gated: bool
) -> None:
    siblings = [SimpleNamespace(rfilename="model.safetensors", size=5)]
    info = SimpleNamespace(siblings=siblings, gated=gated)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *args, **options: info)
    assert list_repository("owner/model", ONLINE) == Listing((("model.safetensors", 5),), is_gated)


def test_offline_no_request_is_sent(hub: HubStub) -> None:
    assert list_repository("owner/model", OFFLINE) is None


def test_offline_a_model_that_is_not_downloaded_is_refused(hub: HubStub) -> None:
    hub.failure = errors.LocalEntryNotFoundError("not here")
    assert "is not on this machine and HF_HUB_OFFLINE is set" in refusal("owner/model", OFFLINE)


@pytest.mark.parametrize(
    "source", ["./nothing", "/nothing", "a/b/c", "~/none", "", "a b", "x" * 999 + "!"]
)
def test_a_name_that_can_only_be_a_path_is_not_looked_up_on_the_hub(
    hub: HubStub, source: str
) -> None:
    assert "must be a model folder, a GGUF file or a Hub id" in refusal(source)
    assert hub.calls == []


def test_the_owner_s_token_is_used_only_for_models_that_the_owner_offers(hub: HubStub) -> None:
    public = Environment(is_public=True, allowed_models=("owner/own",))
    for source, settings in (("owner/own", public), ("owner/a", public), ("owner/a", ONLINE)):
        find_model_folder(source, settings)
    assert [call["token"] for call in hub.calls] == [None, False, None]
    assert hub.tokens == [None, False, None]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([("tokenizer.json", 150 * 10**6)], "at most 100 MB apart from its weights, but token"),
        ([("a.model", 10**12)], "must have at most 200 MB apart from its weights, got 1000000 MB"),
        ([(f"{i}.txt", 9 * 10**6) for i in range(30)], "must have at most 200 MB apart from its"),
        (
            [(f"{i}.txt", 1) for i in range(99)],
            "must have at most 64 files apart from its weights, got",
        ),
    ],
)
@pytest.mark.parametrize("weights", [True, False])
def test_models_with_large_files_next_to_their_weights_are_refused(
    hub: HubStub, files: list[tuple[str, int]], message: str, weights: bool
) -> None:
    hub.files += [*files, ("folder/large.json", 10**12)]  # files in subfolders are never downloaded
    with pytest.raises(InputError, match=message):
        find_model_folder("owner/model", ONLINE, weights)
    assert hub.calls == []


def test_nothing_is_downloaded_if_the_hub_does_not_report_the_size(hub: HubStub) -> None:
    hub.is_unreachable = True
    find_model_folder("owner/model", ONLINE)
    assert hub.calls[0]["local_files_only"] is True


def test_a_full_disk_is_reported_as_a_full_disk() -> None:
    def refused(error: Exception) -> str:
        return str(_refusal("owner/model", ONLINE, error))

    full = OSError(errno.ENOSPC, "No space left on device")
    assert "is full" in refused(full)
    wrapped = RuntimeError("could not be written")
    wrapped.__cause__ = full
    assert "is full" in refused(wrapped)
    assert "cannot be reached" in refused(OSError(errno.ECONNRESET, "reset"))


def keep(cache: Path, source: str, size: int, used: float) -> Path:
    """Create a downloaded model of `size` bytes whose last use was at the time `used`."""
    place = cache / f"models--{source.replace('/', '--')}"
    revision = hashlib.sha1(source.encode()).hexdigest()
    for folder in ("blobs", "refs", f"snapshots/{revision}"):
        (place / folder).mkdir(parents=True)
    (place / "refs/main").write_text(revision)
    blob = place / "blobs" / "a"
    blob.write_bytes(bytes(size))
    (place / f"snapshots/{revision}/model.safetensors").symlink_to(blob)
    os.utime(blob, (used, used))
    return place


def test_the_download_that_was_not_used_for_the_longest_time_is_removed(
    hub: HubStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    scan = huggingface_hub.scan_cache_dir
    monkeypatch.setattr(huggingface_hub, "scan_cache_dir", lambda: scan(tmp_path))
    chat, oldest = keep(tmp_path, CHAT_ID, 10, 0), keep(tmp_path, "owner/old", 10, 1)
    newer = keep(tmp_path, "owner/new", 10, 2)
    hub.files = [("model.safetensors", 10**9 - 25)]
    find_model_folder("owner/model", Environment(hub_cache_gb=1))
    assert (chat.exists(), oldest.exists(), newer.exists()) == (True, False, True)
    hub.files = [("model.safetensors", 10**9)]
    with pytest.raises(InputError, match="must fit into the download cache of 1 GB"):
        find_model_folder("owner/model", Environment(hub_cache_gb=1))
    assert chat.exists()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Serve the files of a repository from a local Hub; yield the folder of the files."""
    folder = tmp_path / "served"
    folder.mkdir()
    constants = huggingface_hub.constants
    monkeypatch.setattr(Repository, "folder", folder)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Repository) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        Thread(target=server.serve_forever, daemon=True).start()
        yield folder
        server.shutdown()


def test_a_configuration_is_downloaded_alone_and_kept(
    served: Path,
) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (served / name).write_text("{}")
    file = fetch_configuration("owner/model", ONLINE)
    assert [each.name for each in file.parent.iterdir()] == ["config.json"]
    (served / "config.json").unlink()
    assert fetch_configuration("owner/model", OFFLINE) == file and file.read_text() == "{}"


def test_a_configuration_that_is_too_large_is_not_fetched(served: Path, tmp_path: Path) -> None:
    with (served / "config.json").open("wb") as file:
        file.truncate(MAX_CONFIG_BYTES + 1)
    with pytest.raises(InputError, match="config.json of at most 10000000 bytes, got 10000001"):
        fetch_configuration("owner/model", ONLINE)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("source", "environment", "said"),
    [
        ("owner/model", OFFLINE, "HF_HUB_OFFLINE is set; choose a preset, or give its config.json"),
        ("a--b/c", ONLINE, "is neither a folder here nor a public model on the Hub"),
    ],
)
def test_a_configuration_that_is_not_available_is_one_line(
    served: Path, source: str, environment: Environment, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        fetch_configuration(source, environment)


def test_a_repository_without_a_configuration_is_named() -> None:
    gone = errors.RemoteEntryNotFoundError("gone", response=answer(404))
    assert str(_refusal("owner/model", ONLINE, gone)).startswith(
        "model 'owner/model' has no config.json on the Hub; "
    )
