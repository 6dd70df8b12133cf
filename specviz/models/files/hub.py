"""Where a model's files are: a folder or a GGUF file here, or a download from the Hugging Face Hub.

Only configuration, tokenizer and safetensors files are ever fetched: no pickles, no code. Whatever
the Hub refuses becomes one sentence.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import constants, errors
from huggingface_hub.utils.tqdm import disable_progress_bars

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.gguf_source import gguf_path

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TEXT = ["*.json", "*.txt", "*.jinja", "*.model"]  # configuration and tokenizer
_WEIGHTS = ["*.safetensors"]
_UNWANTED = ["*/*", "consolidated*"]  # subfolders, and second copies of the weights


@dataclass(frozen=True, slots=True)
class Listing:
    """What the Hub says of a repository's weights before they are fetched."""

    weights: tuple[tuple[str, int], ...]  # file name, bytes
    is_gated: bool

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
        found = huggingface_hub.HfApi().model_info(source, files_metadata=True)
    except errors.HfHubHTTPError as error:
        raise _refusal(source, environment, error) from None
    except Exception:  # no answer, whatever the Hub client's transport calls that
        return None  # what was downloaded before still serves
    weights = [file for file in found.siblings or [] if _is_weight(file.rfilename)]
    if not weights:
        raise InputError(f"model {source!r} must have its weights as *.safetensors, found none")
    sizes = tuple((file.rfilename, file.size or 0) for file in weights)
    return Listing(sizes, bool(getattr(found, "gated", False)))


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
    source: str, environment: Environment, weights: bool, with_progress: bool = False
) -> Path:
    """The local copy of a repository, its weights only where asked for.

    Raises InputError where the Hub refuses or does not answer.
    """
    if not with_progress:
        disable_progress_bars()
    try:
        folder = huggingface_hub.snapshot_download(
            source,
            allow_patterns=_TEXT + _WEIGHTS if weights else _TEXT,
            ignore_patterns=_UNWANTED,
            local_files_only=environment.hub_offline,
        )
    except Exception as error:  # the Hub client's failures have no common base class
        raise _refusal(source, environment, error) from None
    return Path(folder)


def fetched_folder(source: str) -> Path | None:
    """Where an earlier download of the configuration lies; asks nobody."""
    found = huggingface_hub.try_to_load_from_cache(source, "config.json")
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


def _is_weight(name: str) -> bool:
    return name.endswith(".safetensors") and "/" not in name and not name.startswith("consolidated")


def _refusal(source: str, environment: Environment, error: Exception) -> InputError:
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
    return InputError(_unreachable(source, environment, error))


def _unreachable(source: str, environment: Environment, error: Any) -> str:
    if environment.hub_offline:
        reason = "HF_HUB_OFFLINE is set"
    else:
        is_plain = isinstance(error, errors.LocalEntryNotFoundError)
        detail = "" if is_plain else f" ({type(error).__name__})"
        reason = f"the Hub cannot be reached{detail}"
    return (
        f"model {source!r} is not on this machine and {reason}; "
        "choose the bundled pair or a model folder"
    )


def find_model_folder(source: str, environment: Environment, weights: bool = True) -> Path:
    """The local folder of `source`, or its GGUF file; InputError where there is none to be had.

    Without `weights` only configuration and tokenizer are sure to be in it, so that a model can be
    refused before gigabytes are fetched.
    """
    if not is_on_the_hub(source):
        return Path(os.path.expanduser(source))
    listing = list_repository(source, environment) if weights else None
    for problem in download_problems(source, listing, environment) if listing else ():
        raise InputError(problem)
    return fetch(source, environment, weights)


def is_on_the_hub(source: str) -> bool:
    """Whether `source` is a Hub id and nothing on this machine; InputError where it is neither."""
    folder = os.path.expanduser(source)
    if os.path.isdir(folder) or gguf_path(source):
        return False
    if os.path.isfile(folder):
        raise InputError(
            f"model must be a folder, a GGUF file or a Hub id, got the file {source!r}"
        )
    if not HUB_ID.fullmatch(source):
        raise InputError(f"model folder {source!r} does not exist; check the path")
    return True


def local_folder(source: str) -> Path | None:
    """The folder or GGUF file of `source` where it lies on this machine; asks nobody."""
    try:
        return fetched_folder(source) if is_on_the_hub(source) else Path(os.path.expanduser(source))
    except InputError:
        return None
