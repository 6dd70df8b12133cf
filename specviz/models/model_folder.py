"""Where a model's files are: a folder as it stands, or a download from the Hugging Face Hub.

Knows nothing of what the files mean. Only configuration, tokenizer and safetensors files are ever
fetched: no pickles, no code.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import huggingface_hub
from huggingface_hub import errors
from huggingface_hub.utils.tqdm import disable_progress_bars

from specviz.errors import InputError
from specviz.settings import Settings

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TEXT = ["*.json", "*.txt", "*.model"]  # configuration and tokenizer
_WEIGHTS = ["*.safetensors"]
_UNWANTED = ["*/*", "consolidated*"]  # subfolders, and second copies of the weights


def find_model_folder(source: str, settings: Settings, weights: bool = True) -> Path:
    """The local folder of `source`; raises InputError where there is none to be had.

    Without `weights` only configuration and tokenizer are sure to be in it, so that a model can be
    refused before gigabytes are fetched.
    """
    folder = os.path.expanduser(source)
    if os.path.isdir(folder):
        return Path(folder)
    if os.path.isfile(folder):
        raise InputError(f"model must be a folder or a Hub id, got the file {source!r}")
    if not _HUB_ID.fullmatch(source):
        raise InputError(f"model folder {source!r} does not exist; check the path")
    disable_progress_bars()
    try:
        return _download(source, settings, weights)
    except InputError:
        raise
    except errors.GatedRepoError:
        raise InputError(
            f"model {source!r} is gated: accept its terms on huggingface.co and set HF_TOKEN"
        ) from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise InputError(
            f"model {source!r} is neither a folder here nor a public model on the Hub; "
            "check the spelling"
        ) from None
    except Exception as error:  # the Hub client's failures have no common base class
        raise InputError(_unreachable(source, settings, error)) from None


def local_folder(source: str) -> Path | None:
    """The folder of `source` where its configuration lies on this machine; asks nobody."""
    folder = Path(os.path.expanduser(source))
    if folder.is_dir():
        return folder
    if not _HUB_ID.fullmatch(source):
        return None
    found = huggingface_hub.try_to_load_from_cache(source, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def _download(source: str, settings: Settings, weights: bool) -> Path:
    if weights and not settings.hub_offline:
        _check_files(source, settings)
    folder = huggingface_hub.snapshot_download(
        source,
        allow_patterns=_TEXT + _WEIGHTS if weights else _TEXT,
        ignore_patterns=_UNWANTED,
        local_files_only=settings.hub_offline,
    )
    return Path(folder)


def _check_files(source: str, settings: Settings) -> None:
    try:
        files = huggingface_hub.HfApi().model_info(source, files_metadata=True).siblings or []
    except errors.HfHubHTTPError:
        raise
    except Exception:  # no answer, whatever the Hub client's transport calls that
        return  # what was downloaded before still serves
    weights = [
        file
        for file in files
        if file.rfilename.endswith(".safetensors")
        and "/" not in file.rfilename
        and not file.rfilename.startswith("consolidated")
    ]
    if not weights:
        raise InputError(f"model {source!r} must have its weights as *.safetensors, found none")
    size = sum(file.size or 0 for file in weights) / 1e9
    if size > settings.max_model_gb:
        raise InputError(
            f"model {source!r} must be at most {settings.max_model_gb} GB (SPECVIZ_MAX_MODEL_GB), "
            f"its weights take {size:.1f} GB"
        )


def _unreachable(source: str, settings: Settings, error: Exception) -> str:
    if settings.hub_offline:
        reason = "HF_HUB_OFFLINE is set"
    else:
        is_plain = isinstance(error, errors.LocalEntryNotFoundError)
        detail = "" if is_plain else f" ({type(error).__name__})"
        reason = f"the Hub cannot be reached{detail}"
    return (
        f"model {source!r} is not on this machine and {reason}; "
        "choose the bundled pair or a model folder"
    )
