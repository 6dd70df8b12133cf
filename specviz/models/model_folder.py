"""Where a model's files are: a folder as it stands, or a download from the Hugging Face Hub.

Knows nothing of what the files mean.
"""

from __future__ import annotations

import os
from pathlib import Path

from specviz.errors import InputError
from specviz.models.hub import HUB_ID, download_problems, fetch, fetched_folder, list_repository
from specviz.settings import Settings


def find_model_folder(source: str, settings: Settings, weights: bool = True) -> Path:
    """The local folder of `source`; raises InputError where there is none to be had.

    Without `weights` only configuration and tokenizer are sure to be in it, so that a model can be
    refused before gigabytes are fetched.
    """
    if not is_on_the_hub(source):
        return Path(os.path.expanduser(source))
    listing = list_repository(source, settings) if weights else None
    for problem in download_problems(source, listing, settings) if listing else ():
        raise InputError(problem)
    return fetch(source, settings, weights)


def is_on_the_hub(source: str) -> bool:
    """Whether `source` is a Hub id rather than a folder; InputError where it can be neither."""
    folder = os.path.expanduser(source)
    if os.path.isdir(folder):
        return False
    if os.path.isfile(folder):
        raise InputError(f"model must be a folder or a Hub id, got the file {source!r}")
    if not HUB_ID.fullmatch(source):
        raise InputError(f"model folder {source!r} does not exist; check the path")
    return True


def local_folder(source: str) -> Path | None:
    """The folder of `source` where its configuration lies on this machine; asks nobody."""
    try:
        return fetched_folder(source) if is_on_the_hub(source) else Path(os.path.expanduser(source))
    except InputError:
        return None
