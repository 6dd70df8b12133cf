"""Where a model's files are: a folder or a GGUF file here, or a download from the Hugging Face Hub.

Only configuration, tokenizer and safetensors files are ever fetched: no pickles, no code. Whatever
the Hub refuses becomes one sentence.
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
from specviz.models.files.gguf_source import gguf_path

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TEXT = ["*.json", "*.txt", "*.jinja", "*.model"]  # configuration and tokenizer
_WEIGHTS = ["*.safetensors"]
_UNWANTED = ["*/*", "consolidated*"]  # subfolders, and second copies of the weights
_CONFIG = "config.json"
_LOAD_ANOTHER = "choose the bundled pair or a model folder"
_SIZE_ANOTHER = "choose a preset, or give its config.json"
CHAT_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"  # the page begins with it, so it is always kept
MAX_TEXT_BYTES = 100_000_000  # of one file beside the weights; the largest tokenizers have 40
MAX_TEXTS_BYTES = 200_000_000  # of all of them
MAX_TEXT_FILES = 64


@dataclass(frozen=True, slots=True)
class Listing:
    """What the Hub says of a repository's files before they are fetched: names and bytes."""

    weights: tuple[tuple[str, int], ...]
    is_gated: bool
    texts: tuple[tuple[str, int], ...] = ()  # what else would be fetched

    @property
    def weight_bytes(self) -> int:
        return sum(size for _, size in self.weights)


def list_repository(source: str, environment: Environment) -> Listing | None:
    """The weights of a repository; None where nobody can be asked.

    Raises InputError where the Hub refuses, or where there are no weights that can be read safely.
    """
    if environment.hub_offline:
        return None
    try:
        client = huggingface_hub.HfApi(token=_token(source, environment))
        found = client.model_info(source, files_metadata=True)
    except errors.HfHubHTTPError as error:
        raise _refusal(source, environment, error) from None
    except Exception:  # no answer, whatever the Hub client's transport calls that
        return None  # what was downloaded before still serves
    sizes = [(file.rfilename, file.size or 0) for file in found.siblings or []]
    weights = tuple(each for each in sizes if _is_wanted(each[0], _WEIGHTS))
    if not weights:
        raise InputError(f"model {source!r} must have its weights as *.safetensors, found none")
    texts = tuple(each for each in sizes if _is_wanted(each[0], _TEXT))
    return Listing(weights, bool(getattr(found, "gated", False)), texts)


def text_problems(source: str, listing: Listing) -> Iterator[str]:
    """What keeps configuration and tokenizer from being fetched: more than any model has."""
    if len(listing.texts) > MAX_TEXT_FILES:
        yield (
            f"model {source!r} must have at most {MAX_TEXT_FILES} files beside its weights, "
            f"got {len(listing.texts)}"
        )
    total = sum(size for _, size in listing.texts)
    if total > MAX_TEXTS_BYTES:
        yield (
            f"model {source!r} must have at most {MAX_TEXTS_BYTES // 10**6} MB beside its weights, "
            f"got {total / 1e6:.0f} MB"
        )
    for name, size in listing.texts:
        if size > MAX_TEXT_BYTES:
            yield (
                f"model {source!r} must have files of at most {MAX_TEXT_BYTES // 10**6} MB beside "
                f"its weights, {name} has {size / 1e6:.0f} MB"
            )


def download_problems(source: str, listing: Listing, environment: Environment) -> Iterator[str]:
    """What keeps the weights from being fetched: this installation's limit, or the disk."""
    size = listing.weight_bytes / 1e9
    if size > environment.max_model_gb:
        yield (
            f"model {source!r} must be at most {environment.max_model_gb} GB "
            f"(SPECVIZ_MAX_MODEL_GB), its weights take {size:.1f} GB"
        )
    missing, free = _missing_bytes(source, listing), _disk_bytes()
    if free is not None and missing > free:
        yield (
            f"model {source!r} must have {missing / 1e9:.1f} GB on the disk of "
            f"{constants.HF_HUB_CACHE}, {free / 1e9:.1f} GB are free"
        )


def fetch(
    source: str,
    environment: Environment,
    weights: bool,
    with_progress: bool = False,
    is_local: bool = False,
) -> Path:
    """The local copy of a repository, its weights only where asked for.

    `is_local`: an earlier download, nothing is fetched.

    Raises InputError where the Hub refuses or does not answer.
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
    except Exception as error:  # the Hub client's failures have no common base class
        raise _refusal(source, environment, error) from None
    return Path(folder)


def fetch_configuration(source: str, environment: Environment) -> Path:
    """A repository's config.json, of an earlier download or fetched now, and nothing else of it.

    Raises InputError where the Hub refuses or does not answer, and for a file that is too large.
    """
    if earlier := fetched_folder(source):
        return earlier / _CONFIG
    token = _token(source, environment)
    try:
        if environment.hub_offline:
            raise errors.LocalEntryNotFoundError(source)
        url = huggingface_hub.hf_hub_url(source, _CONFIG)
        found = huggingface_hub.get_hf_file_metadata(url, token=token)  # it does not try again
        check_config_bytes(source, found.size or 0)
        return Path(huggingface_hub.hf_hub_download(source, _CONFIG, token=token))
    except InputError:
        raise
    except Exception as error:  # as above
        raise _refusal(source, environment, error, _SIZE_ANOTHER) from None


def _token(source: str, environment: Environment) -> bool | None:
    """The owner's token (None: as the Hub's client finds it) is for what the owner offers."""
    is_theirs = not environment.is_public or source in environment.allowed_models
    return None if is_theirs else False


def fetched_folder(source: str) -> Path | None:
    """Where an earlier download of the configuration lies; asks nobody."""
    try:
        found = huggingface_hub.try_to_load_from_cache(source, _CONFIG)
    except errors.HFValidationError:  # the Hub has no such names
        return None
    return Path(found).parent if isinstance(found, str) else None


def _missing_bytes(source: str, listing: Listing) -> int:
    """What an earlier download has not fetched."""
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
    """Whether the Hub's client would fetch it."""
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
    """Where a download failed for want of room, perhaps inside an error of the Hub's client."""
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
    """The local folder of `source`, or its GGUF file; InputError where there is none to be had.

    Without `weights` only configuration and tokenizer are sure to be in it, so that a model can be
    refused before gigabytes are fetched.
    """
    return locate(source, environment, weights)[0]


def locate(source: str, environment: Environment, weights: bool) -> tuple[Path, Listing | None]:
    """As `find_model_folder`, and what the Hub says of it; nothing is fetched that is too large."""
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
    """Remove earlier downloads, the one unused for longest first, until this one fits."""
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
            f"model {source!r} must fit into {environment.hub_cache_gb} GB with what is kept "
            f"(SPECVIZ_HUB_CACHE_GB), {excess / 1e9:.1f} GB are missing"
        )


def is_on_the_hub(source: str) -> bool:
    """Whether `source` is a Hub id and nothing on this machine; InputError where it is neither."""
    folder = os.path.expanduser(source)
    if os.path.isdir(folder) or gguf_path(source):
        return False
    if os.path.exists(folder) or not HUB_ID.fullmatch(source):
        raise InputError(f"model must be a model folder, a GGUF file or a Hub id, got {source!r}")
    return True


def local_folder(source: str) -> Path | None:
    """The folder or GGUF file of `source` where it lies on this machine; asks nobody."""
    try:
        return fetched_folder(source) if is_on_the_hub(source) else Path(os.path.expanduser(source))
    except InputError:
        return None
