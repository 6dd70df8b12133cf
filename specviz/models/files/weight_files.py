"""Check that a model's weight files are complete, from their headers and lengths alone.

After an interrupted download, a file is too short, or a file that the index lists is missing. The
check names such files before any weights are loaded.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from specviz.errors import InputError, first_line, short

_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$", re.IGNORECASE)
WHOLE = "model.safetensors"
INDEX = f"{WHOLE}.index.json"


def check_weights(source: str, folder: Path) -> None:
    """Raise InputError if the weights are incomplete, or if reading them would run code."""
    if folder.is_file():
        _check_gguf(source, folder)
        return
    files = sorted(folder.glob("*.safetensors"))
    named = _named_by_index(source, folder / INDEX)
    missing = sorted(named - {file.name for file in files})
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"model {source!r} lacks the weights {missing[0]}{others}, which {INDEX} names: "
            "download it again"
        )
    if not files:
        raise _without_weights(source, folder)
    if not loaded_files(folder):
        raise InputError(
            f"model {source!r} must have its weights in {WHOLE} or in files that {INDEX} names, "
            f"found only {files[0].name}"
        )
    for file in files:
        try:
            with safe_open(file, "pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"model {source!r} has broken weights in {file.name} ({first_line(error)}): "
                "download that file again"
            ) from None


def loaded_files(folder: Path) -> list[Path]:
    """Return the files from which transformers reads the weights. The folder may have more files.

    The index must be valid, as `check_weights` makes sure.
    """
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    return [folder / name for name in sorted(_named_by_index(str(folder), folder / INDEX))]


def _without_weights(source: str, folder: Path) -> InputError:
    ends = ("bin", "pt", "pth", "ckpt")
    pickles = [file.name for end in ends for file in folder.glob(f"*.{end}")]
    found = f"only {pickles[0]}, which can run code" if pickles else "none"
    return InputError(f"model {source!r} must have its weights as *.safetensors, found {found}")


def _named_by_index(source: str, index: Path) -> set[str]:
    """Return the weight files that the folder's index lists; the set is empty without an index."""
    if not index.is_file():
        return set()
    try:
        named = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"model {source!r} has a broken {INDEX}: download that file again"
        ) from None
    odd = next((each for each in named if not _is_name(each)), None)
    if odd is not None:
        raise InputError(f"model {source!r} must name files in {INDEX}, got {short(odd)}")
    return named


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.endswith(".safetensors") and "/" not in value


def _check_gguf(source: str, file: Path) -> None:
    """Check the types of a GGUF file's tensors, and whether the file is as long as they need."""
    from specviz.models.files.gguf_reader import tensor_headers

    part = _PART.search(file.name)
    if part and int(part[1]) > 1:
        raise InputError(
            f"model {source!r} is one of {int(part[1])} parts of a GGUF file: join them with "
            "llama-gguf-split --merge"
        )
    size = file.stat().st_size
    try:
        tensors = tensor_headers(file)
    except (ValueError, LookupError, OSError, OverflowError, TypeError, struct.error):
        raise InputError(
            f"model {source!r} is a GGUF file with a broken or unfinished header: download it again"
        ) from None
    by_kind = {each.kind: each for each in tensors}
    odd = {kind for kind, each in by_kind.items() if not each.is_readable}
    if found := next((each for each in tensors if each.kind in odd), None):
        raise InputError(
            f"model {source!r} is a GGUF file whose tensor {found.name[:80]!r} has the type "
            f"{found.type_name}, which the package gguf cannot read: choose a file with another "
            "quantisation, such as Q4_K_M"
        )
    last = max(tensors, key=lambda each: each.end, default=None)
    if last and last.end > size:
        raise InputError(
            f"model {source!r} is a GGUF file cut short: tensor {last.name[:80]!r} ends at byte "
            f"{last.end:,}, the file at {size:,}: download it again"
        )
