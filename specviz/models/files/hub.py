"""Find a model's files: a folder or a GGUF file on this machine, or a Hugging Face repository.

Only configuration, tokenizer and safetensors files are downloaded, never pickles or code. Every
error of the Hub becomes one sentence.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import constants, errors
from huggingface_hub.utils.tqdm import disable_progress_bars

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.config_bounds import check_config_bytes
from specviz.models.files.file_check import MAX_TEXT_BYTES
from specviz.models.files.gguf_source import gguf_path

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# patterns of the names of configuration and tokenizer files
_TEXT = ["*.json", "*.txt", "*.jinja", "*.model"]
_WEIGHTS = ["*.safetensors"]
# patterns of files that are never downloaded: subfolders, and second copies of the weights
_UNWANTED = ["*/*", "consolidated*"]
_CONFIG = "config.json"
_LOAD_ANOTHER = "choose the bundled pair or a model folder"
_SIZE_ANOTHER = "choose a preset, or give its config.json"
# The target of the default pair, whose download is never removed from the cache.
CHAT_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
MAX_TEXTS_BYTES = 200_000_000  # limit in bytes for all text files of a repository together
MAX_TEXT_FILES = 64


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository on the Hub as pairs (name, bytes), known before a download."""

    weights: tuple[tuple[str, int], ...]
    is_gated: bool
    texts: tuple[tuple[str, int], ...] = ()  # all files of a download except the weights

    @property
    def weight_bytes(self) -> int:
        return sum(size for _, size in self.weights)


def list_repository(source: str, environment: Environment) -> Listing | None:
    """List the files of a repository. If the Hub does not answer, return None.

    Raises InputError if the Hub refuses, or if the repository has no safetensors weights.
    """
    if environment.hub_offline:
        return None
    try:
        client = huggingface_hub.HfApi(token=_token(source, environment))
        found = client.model_info(source, files_metadata=True)
    except errors.HfHubHTTPError as error:
        raise _refusal(source, environment, error) from None
    except Exception:
        # The Hub did not answer. The class of this error depends on the Hub's client.
        return None  # Without a list, files of an earlier download may still be on this machine.
    sizes = [(file.rfilename, file.size or 0) for file in found.siblings or []]
    weights = tuple(each for each in sizes if _is_wanted(each[0], _WEIGHTS))
    if not weights:
        raise InputError(f"model {source!r} must have its weights as *.safetensors, found none")
    texts = tuple(each for each in sizes if _is_wanted(each[0], _TEXT))
    return Listing(weights, bool(getattr(found, "gated", False)), texts)


def text_problems(source: str, listing: Listing) -> Iterator[str]:
    """Yield one sentence for each limit that the configuration and tokenizer files exceed."""
    if len(listing.texts) > MAX_TEXT_FILES:
        yield (
            f"model {source!r} must have at most {MAX_TEXT_FILES} files apart from its weights, "
            f"got {len(listing.texts)}"
        )
    total = sum(size for _, size in listing.texts)
    if total > MAX_TEXTS_BYTES:
        yield (
            f"model {source!r} must have at most {MAX_TEXTS_BYTES // 10**6} MB apart from its "
            f"weights, got {total / 1e6:.0f} MB"
        )
    for name, size in listing.texts:
        if size > MAX_TEXT_BYTES:
            yield (
                f"model {source!r} must have files of at most {MAX_TEXT_BYTES // 10**6} MB apart "
                f"from its weights, but {name} has {size / 1e6:.0f} MB"
            )


def download_problems(source: str, listing: Listing, environment: Environment) -> Iterator[str]:
    """Yield the reasons not to download the weights: this server's limit, or a full disk."""
    size = listing.weight_bytes / 1e9
    if size > environment.max_model_gb:
        yield (
            f"model {source!r} must be at most {environment.max_model_gb} GB "
            f"(SPECVIZ_MAX_MODEL_GB), but its weights take {size:.1f} GB"
        )
    missing, free = _missing_bytes(source, listing), _disk_bytes()
    if free is not None and missing > free:
        yield (
            f"model {source!r} needs {missing / 1e9:.1f} GB on the disk of "
            f"{constants.HF_HUB_CACHE}, but {free / 1e9:.1f} GB are free"
        )


def fetch(
    source: str,
    environment: Environment,
    weights: bool,
    with_progress: bool = False,
    is_local: bool = False,
) -> Path:
    """Download a repository and return its folder.

    Without `weights`, download only its small files. With `is_local`, download nothing and return
    the folder of an earlier download. Raises InputError if the Hub refuses or does not answer.
    """
    if not with_progress:
        disable_progress_bars()
    try:
        folder = huggingface_hub.snapshot_download(
            source,
            allow_patterns=_TEXT + _WEIGHTS if weights else _TEXT,
            ignore_patterns=_UNWANTED,
            local_files_only=environment.hub_offline or is_local,
            token=_token(source, environment),
        )
    except Exception as error:
        # Catch every error, because the errors of the Hub's client have no common base class.
        raise _refusal(source, environment, error) from None
    return Path(folder)


def fetch_configuration(source: str, environment: Environment) -> Path:
    """Return a repository's config.json, from an earlier download or downloaded now.

    Raises InputError if the Hub refuses or does not answer, or if the file is too large.
    """
    if earlier := fetched_folder(source):
        return earlier / _CONFIG
    token = _token(source, environment)
    try:
        if environment.hub_offline:
            raise errors.LocalEntryNotFoundError(source)
        url = huggingface_hub.hf_hub_url(source, _CONFIG)
        # Ask for the size first. If the Hub does not answer, this request fails at once, while a
        # download would be repeated.
        found = huggingface_hub.get_hf_file_metadata(url, token=token)
        check_config_bytes(source, found.size or 0)
        return Path(huggingface_hub.hf_hub_download(source, _CONFIG, token=token))
    except InputError:
        raise
    except Exception as error:
        # Catch every error, because the errors of the Hub's client have no common base class.
        raise _refusal(source, environment, error, _SIZE_ANOTHER) from None


def _token(source: str, environment: Environment) -> bool | None:
    """Return the `token` argument for the client of the Hub: None if the owner's token may be used.

    False means that the client must not use the token of the server's owner. On a public server,
    only models that the owner offers may be downloaded with it, because visitors must not get
    access to other private models.
    """
    is_theirs = not environment.is_public or source in environment.allowed_models
    return None if is_theirs else False


def fetched_folder(source: str) -> Path | None:
    """Return the folder of an earlier download of the configuration, or None; download nothing."""
    try:
        found = huggingface_hub.try_to_load_from_cache(source, _CONFIG)
    except errors.HFValidationError:
        # The Hub does not allow this name, so there is no earlier download.
        return None
    return Path(found).parent if isinstance(found, str) else None


def _missing_bytes(source: str, listing: Listing) -> int:
    return sum(
        size
        for name, size in listing.weights
        if not isinstance(huggingface_hub.try_to_load_from_cache(source, name), str)
    )


def _disk_bytes() -> int | None:
    folder = Path(constants.HF_HUB_CACHE)
    there = next((each for each in (folder, *folder.parents) if each.is_dir()), None)
    return shutil.disk_usage(there).free if there else None


def _is_wanted(name: str, patterns: list[str]) -> bool:
    is_unwanted = any(fnmatch(name, pattern) for pattern in _UNWANTED)
    return not is_unwanted and any(fnmatch(name, pattern) for pattern in patterns)


def _refusal(
    source: str, environment: Environment, error: Exception, instead: str = _LOAD_ANOTHER
) -> InputError:
    if full := _disk_refusal(source, error):
        return full
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return InputError(
            f"model {source!r} is gated: accept its terms on huggingface.co and set HF_TOKEN"
        )
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return InputError(
            f"model {source!r} is neither a folder here nor a public model on the Hub; "
            "check the spelling, or set HF_TOKEN if it is private"
        )
    if status in (401, 403):
        return InputError(
            f"model {source!r} is refused by the Hub ({status}): accept its terms on "
            "huggingface.co and check HF_TOKEN"
        )
    is_local = isinstance(error, errors.LocalEntryNotFoundError)
    if isinstance(error, errors.EntryNotFoundError) and not is_local:
        return InputError(f"model {source!r} has no {_CONFIG} on the Hub; {instead}")
    return InputError(f"{_unreachable(source, environment, error)}; {instead}")


def _disk_refusal(source: str, error: BaseException) -> InputError | None:
    """Return an InputError about a full disk if a full disk caused `error`, otherwise None."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return InputError(
                f"model {source!r} cannot be kept: the disk of {constants.HF_HUB_CACHE} is full"
            )
        cause = cause.__cause__ or cause.__context__
    return None


def _unreachable(source: str, environment: Environment, error: Any) -> str:
    if environment.hub_offline:
        reason = "HF_HUB_OFFLINE is set"
    else:
        is_plain = isinstance(error, errors.LocalEntryNotFoundError)
        detail = "" if is_plain else f" ({type(error).__name__})"
        reason = f"the Hub cannot be reached{detail}"
    return f"model {source!r} is not on this machine and {reason}"


def find_model_folder(source: str, environment: Environment, weights: bool = True) -> Path:
    """Return the folder or GGUF file of `source` on this machine. Download it if needed.

    Without `weights`, only configuration and tokenizer are downloaded. A caller can then refuse a
    model before gigabytes are downloaded. Raises InputError if the model cannot be found.
    """
    return locate(source, environment, weights)[0]


def locate(source: str, environment: Environment, weights: bool) -> tuple[Path, Listing | None]:
    """Return the folder or file of a model, and the list of its files on the Hub if there is one.

    Without `weights`, only configuration and tokenizer are downloaded. Raises InputError, before a
    download, for a model that is too large.
    """
    if not is_on_the_hub(source):
        return Path(os.path.expanduser(source)), None
    listing = list_repository(source, environment)
    if listing:
        for problem in text_problems(source, listing):
            raise InputError(problem)
        for problem in download_problems(source, listing, environment) if weights else ():
            raise InputError(problem)
        if weights and environment.hub_cache_gb:
            _make_room(source, listing, environment)
    return fetch(source, environment, weights, is_local=listing is None), listing


def _make_room(source: str, listing: Listing, environment: Environment) -> None:
    """Delete the least recently used downloads until the new one fits into the cache's limit.

    Raises InputError if it does not fit even then.
    """
    try:
        cache = huggingface_hub.scan_cache_dir()
    except errors.CacheNotFound:
        return
    excess = cache.size_on_disk + _missing_bytes(source, listing)
    excess -= environment.hub_cache_gb * 10**9
    kept = {source, CHAT_ID, *environment.allowed_models}
    for repository in sorted(cache.repos, key=lambda each: each.last_accessed):
        if excess > 0 and repository.repo_id not in kept:
            revisions = (revision.commit_hash for revision in repository.revisions)
            cache.delete_revisions(*revisions).execute()
            excess -= repository.size_on_disk
    if excess > 0:
        raise InputError(
            f"model {source!r} must fit into the download cache of {environment.hub_cache_gb} GB "
            f"(SPECVIZ_HUB_CACHE_GB), but {excess / 1e9:.1f} GB more are needed"
        )


def is_on_the_hub(source: str) -> bool:
    """Return whether `source` is a Hub id and not a local path.

    Raises InputError if it is neither of them.
    """
    folder = os.path.expanduser(source)
    if os.path.isdir(folder) or gguf_path(source):
        return False
    if os.path.exists(folder) or not HUB_ID.fullmatch(source):
        raise InputError(f"model must be a model folder, a GGUF file or a Hub id, got {source!r}")
    return True


def local_folder(source: str) -> Path | None:
    """Return the folder or GGUF file of `source` if it is on this machine, otherwise None.

    The function downloads nothing.
    """
    try:
        return fetched_folder(source) if is_on_the_hub(source) else Path(os.path.expanduser(source))
    except InputError:
        return None
