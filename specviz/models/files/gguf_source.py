"""A model in one GGUF file: configuration, tokenizer and quantised weights together.

transformers reads it, and makes plain weights of the quantised ones; how they were quantised is
shown beside the precision that they run in. The libraries are imported where a file is opened: who
only asks what a source is should not wait for them.
"""

from __future__ import annotations

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
    """What the library's `from_pretrained` is told: a folder, and of what file in it."""

    place: str
    options: dict[str, Any]

    @classmethod
    def of(cls, source: str | Path) -> LibrarySource:
        """Of a folder, a Hub id or a GGUF file."""
        file = gguf_path(str(source))
        if file is None:
            return cls(str(source), {})
        return cls(str(file.parent), {"gguf_file": file.name})

    def reading(self) -> AbstractContextManager[None]:
        """For the time that the library reads it."""
        if not self.options:
            return nullcontext()
        from specviz.models.files.gguf_reader import quick_headers

        return quick_headers()


def gguf_path(source: str) -> Path | None:
    """The GGUF file that `source` names; InputError where it is not there."""
    path = Path(os.path.expanduser(source))
    if path.suffix.lower() != END or path.is_dir():
        return None
    if not path.is_file():
        raise InputError(f"model must be a model folder, a GGUF file or a Hub id, got {source!r}")
    return path


def read_gguf_config(source: str, file: Path) -> Any:
    """The model's configuration; InputError for a file that transformers cannot read."""
    import transformers
    from transformers import AutoConfig

    header = _header(source, file)
    kind = str(header["general.architecture"])
    check_numbers(source, {name: each for name, each in header.items() if type(each) is int})
    where = LibrarySource.of(file)
    try:
        with where.reading():
            return AutoConfig.from_pretrained(where.place, local_files_only=True, **where.options)
    except Exception as error:  # of a table without that architecture, and of what it asks for
        detail = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise InputError(
            f"model {source!r} is a GGUF file of architecture {kind!r} that transformers "
            f"{transformers.__version__} cannot read: {detail}"
        ) from None


def quantisation(source: str, file: Path) -> str:
    """How its weights were quantised, in the words of the format, such as Q4_K_M."""
    from gguf import LlamaFileType

    number = _header(source, file).get("general.file_type")
    named = next((kind.name for kind in LlamaFileType if kind.value == number), "unknown")
    return named.removeprefix("MOSTLY_").removeprefix("ALL_")


def _header(source: str, file: Path) -> dict[str, Any]:
    from transformers.integrations.gguf import read_gguf_metadata

    try:
        header: dict[str, Any] = read_gguf_metadata(str(file))[0]
    except Exception as error:  # struct, numpy and the reader each raise their own
        detail = (str(error).splitlines() or [type(error).__name__])[0]
        shown = detail.replace(str(file), "it")[:120]
        raise InputError(f"model {source!r} is no GGUF file that can be read: {shown}") from None
    return header
