"""Check whether a model has a chat template, reading only its small files."""

from __future__ import annotations

import json
import mmap
from pathlib import Path

from specviz.models.files.hub import local_folder

_IN_GGUF = b"tokenizer.chat_template"
# the number of bytes at the start of a GGUF file that are searched for a chat template
_HEADER_BYTES = 64 << 20
_MOST_CONFIG_BYTES = 10_000_000


def has_chat_template(source: str) -> bool | None:
    """Return whether a model has a chat template, or None if the model must be downloaded first."""
    folder = local_folder(source)
    if folder is None or not folder.exists():
        return None
    try:
        return _in_gguf(folder) if folder.is_file() else in_folder(folder)
    except (OSError, ValueError, RecursionError):
        # The file is broken. The loader reports later what is wrong with it.
        return False


def in_folder(folder: Path) -> bool:
    """Return whether a model folder has a chat template.

    Raises OSError or ValueError if the files of the folder cannot be read.
    """
    if (folder / "chat_template.jinja").is_file():
        return True
    file = folder / "tokenizer_config.json"
    if not file.is_file() or file.stat().st_size > _MOST_CONFIG_BYTES:
        return False
    content = json.loads(file.read_text(encoding="utf-8"))
    return isinstance(content, dict) and bool(content.get("chat_template"))


def _in_gguf(file: Path) -> bool:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(_IN_GGUF, 0, _HEADER_BYTES) >= 0
