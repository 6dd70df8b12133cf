"""A model in one GGUF file: its configuration, tokenizer and quantised weights.

transformers reads the file and dequantises the weights. This module imports large libraries only
when it opens a file. So code that only asks whether a source is a GGUF file stays fast, and a
machine that opens no GGUF file does not need the package gguf.
"""

from __future__ import annotations

import importlib.util
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.errors import InputError
from specviz.models.files.config_bounds import check_numbers

END = ".gguf"


@dataclass(frozen=True, slots=True)
class LibrarySource:
    """Arguments for `from_pretrained`: a folder or a Hub id, and the name of a GGUF file if any."""

    place: str
    options: dict[str, Any]

    @classmethod
    def of(cls, source: str | Path) -> LibrarySource:
        """Return the arguments for `source`: a folder, a Hub id or a GGUF file."""
        file = gguf_path(str(source))
        if file is None:
            return cls(str(source), {})
        return cls(str(file.parent), {"gguf_file": file.name})

    def reading(self) -> AbstractContextManager[None]:
        """Return a context manager; transformers must read this source inside it.

        For a GGUF file, it replaces the slow reader of GGUF headers.
        """
        if not self.options:
            return nullcontext()
        from specviz.models.files.gguf_reader import quick_headers

        return quick_headers()


def check_gguf_package(name: str, value: str) -> None:
    """Raise InputError if the package gguf is not installed.

    The message says which parameter (`name`) and which `value` need the package.
    """
    if importlib.util.find_spec("gguf") is None:
        raise InputError(
            f"{name} {value!r} needs the package gguf, which is not installed: pip install gguf"
        )


def gguf_path(source: str) -> Path | None:
    """Return the path if `source` is the name of a GGUF file, otherwise None.

    Raises InputError if the file is missing or the package gguf is not installed.
    """
    path = Path(os.path.expanduser(source))
    if path.suffix.lower() != END or path.is_dir():
        return None
    if not path.is_file():
        raise InputError(f"model must be a model folder, a GGUF file or a Hub id, got {source!r}")
    check_gguf_package("model", source)
    return path


def read_gguf_config(source: str, file: Path) -> Any:
    """Return the configuration of the model in a GGUF file.

    Raises InputError if transformers cannot read the file.
    """
    import transformers
    from transformers import AutoConfig

    from specviz.models.files.gguf_rotary import read_rotary

    header = _header(source, file)
    kind = str(header["general.architecture"])
    check_numbers(source, {name: each for name, each in header.items() if type(each) is int})
    where = LibrarySource.of(file)
    try:
        with where.reading():
            config = AutoConfig.from_pretrained(where.place, local_files_only=True, **where.options)
    except Exception as error:
        # transformers does not know the architecture, or a package is missing
        detail = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise InputError(
            f"model {source!r} is a GGUF file of architecture {kind!r} that transformers "
            f"{transformers.__version__} cannot read: {detail}"
        ) from None
    read_rotary(source, file, header, config)
    return config


def architecture(source: str, file: Path) -> str:
    """Return the name of the architecture in the file's header."""
    return str(_header(source, file)["general.architecture"])


def quantisation(source: str, file: Path) -> str:
    """Return the name of the quantisation in the file, such as Q4_K_M."""
    from gguf import LlamaFileType

    number = _header(source, file).get("general.file_type")
    named = next((kind.name for kind in LlamaFileType if kind.value == number), "unknown")
    return named.removeprefix("MOSTLY_").removeprefix("ALL_")


def _header(source: str, file: Path) -> dict[str, Any]:
    from transformers.integrations.gguf import read_gguf_metadata

    try:
        header: dict[str, Any] = read_gguf_metadata(str(file))[0]
    except Exception as error:
        # Catch every error, because struct, numpy and the reader each raise errors of their own.
        detail = (str(error).splitlines() or [type(error).__name__])[0]
        shown = detail.replace(str(file), "it")[:120]
        raise InputError(f"model {source!r} is not a GGUF file that can be read: {shown}") from None
    return header
