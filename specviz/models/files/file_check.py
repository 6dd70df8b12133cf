"""Open a model's files in a limited process first, before this process opens them.

Model files may be hostile. A tokenizer's normaliser can turn a word into gigabytes and crash its
process. A header can list hundreds of thousands of tensors. JSON can be nested so deeply that a
parser fails. A pipe with the name of a file never ends. The checking process imports neither torch
nor transformers, so the check of a good model takes only a fraction of a second, once. This module
knows nothing about what models compute.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from specviz.errors import InputError, is_fault
from specviz.folders import ASSETS
from specviz.models.limited_process import Limits, NoAnswer, ask_limited

LIMITS = Limits(seconds=20, memory=2_000_000_000)
TEXTS = (".json", ".txt", ".jinja", ".model")
WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt")
# Largest size in bytes of each file except weights. The largest known tokenizers have 40 MB.
MAX_TEXT_BYTES = 100_000_000
MAX_HEADER_BYTES = 25_000_000
# Limit for the number of tensors in one file. The largest models have a few thousand tensors per
# file.
MAX_TENSORS = 65_536
MAX_FIELDS = 4_096  # largest number of fields that a GGUF header may have
MAX_DEPTH = 64  # largest number of levels to which JSON values may be nested
# The largest factor by which a normaliser may lengthen a text. Unicode normal forms make it up to
# 18 times longer.
MAX_GROWTH = 64
# Texts that the tokenizer must encode. They contain every printable ASCII character, a few
# characters beyond ASCII, and texts on which bad regular expressions never end.
PROBES = (
    "".join(map(chr, range(32, 127))),
    "The quick brown fox jumps over 13 lazy dogs.\n\n\tnaïve café, 日本語, Ελληνικά, 😀 ﷺ",
    "a" * 40 + "!",
    " " * 100 + "x" + "0" * 100,
)
# Each set of files that passed the check: path, size and time of the last change of every file.
_passed: set[tuple[tuple[str, int, int], ...]] = set()
# At most two checks run at once, because several users may choose models and a check may use much
# memory.
_processes = threading.BoundedSemaphore(2)


def check_files(source: str, folder: Path) -> None:
    """Raise InputError if the model's files in `folder` are not safe to open.

    `folder` may also be the path of a GGUF file.
    """
    # The bundled models are part of the program and need no check.
    if folder.resolve().is_relative_to(ASSETS.resolve()):
        return
    files = list(_wanted(folder))
    for file in files:
        if not file.is_file():
            raise InputError(
                f"model {source!r} must consist of regular files, but {file.name} is not one"
            )
        size = file.stat().st_size
        if file.suffix in TEXTS and size > MAX_TEXT_BYTES:
            raise InputError(
                f"model {source!r} must have files of at most {MAX_TEXT_BYTES // 10**6} MB apart "
                f"from its weights, {file.name} has {size / 1e6:.0f} MB"
            )
    found = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    if found in _passed:
        return
    with _processes:
        if found in _passed:  # Another thread has checked the same files while this thread waited.
            return
        if problem := _problem_in_process(folder):
            raise InputError(f"model {source!r} {problem}")
        _passed.add(found)


def _wanted(folder: Path) -> Iterator[Path]:
    """Yield those files of a model that a loader may open; only these are checked."""
    if not folder.is_dir():
        yield folder
        return
    for file in sorted(folder.iterdir()):
        if file.suffix in TEXTS + WEIGHTS and not file.is_dir():
            yield file


def _problem_in_process(folder: Path) -> str | None:
    """Check the files in another process.

    Return their problem as text, or None if there is none.
    """
    try:
        problem = ask_limited("specviz.models.files.file_check:problem_of", str(folder), LIMITS)
    except NoAnswer:
        return f"has files that cannot be opened within {LIMITS}: choose another model"
    return problem if isinstance(problem, str) else None


def problem_of(folder: str) -> str | None:
    """Return what is wrong with the files that a loader may open, or None if nothing is wrong.

    This runs in the checking process.
    """
    try:
        problems = (_problem_of(file) for file in _wanted(Path(folder)))
        return next((each for each in problems if each), None)
    except MemoryError:
        # Do not handle this error: if memory runs out, the checking process must end.
        raise
    except BaseException as error:
        if not is_fault(error):
            raise
        return f"has files that make a library fail ({type(error).__name__})"


def _problem_of(file: Path) -> str | None:
    match file.suffix.lower():
        case ".json":
            return _json_problem(file)
        case ".safetensors":
            return _safetensors_problem(file)
        case ".gguf":
            return _gguf_problem(file)
    return None


def _json_problem(file: Path) -> str | None:
    """Check the nesting of a JSON file. If it is tokenizer.json, also check the tokenizer.

    A file that is not valid JSON passes: the code that loads it reports the error.
    """
    data = file.read_bytes()
    try:
        value = json.loads(data)
    except RecursionError:
        # The JSON is nested too deeply for the parser. For config.json, report nothing here,
        # because `read_config_file` reports this error.
        return None if file.name == "config.json" else _too_deep(file)
    except ValueError:
        return None
    if _depth(value) > MAX_DEPTH:
        return _too_deep(file)
    return _tokenizer_problem(file, value) if file.name == "tokenizer.json" else None


def _too_deep(file: Path) -> str:
    return f"must have JSON of at most {MAX_DEPTH} levels, but {file.name} has more"


def _depth(value: Any) -> int:
    """Return how deeply a JSON value is nested, at most MAX_DEPTH + 1; a number has depth 0.

    The function does not call itself, because a hostile value could then exhaust the stack.
    """
    depth, inner = 0, [value]
    while depth <= MAX_DEPTH:
        level = [each for each in inner if isinstance(each, dict | list)]
        if not level:
            break
        inner = []
        for each in level:
            inner.extend(each.values() if isinstance(each, dict) else each)
        depth += 1
    return depth


def _tokenizer_problem(file: Path, value: Any) -> str | None:
    from tokenizers import Tokenizer

    if not isinstance(value, dict):
        return None
    growth = max(_growth(value.get(part)) for part in ("normalizer", "decoder"))
    if growth > MAX_GROWTH:
        return (
            f"must have a tokenizer that makes no text more than {MAX_GROWTH} times as long, "
            f"got {growth:.4g} times"
        )
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception:  # The tokenizer file is broken. The loader reports this later.
        return None
    known = {*tokenizer.get_vocab().values()}
    for text in PROBES:
        try:
            ids = tokenizer.encode(text).ids
            tokenizer.decode(ids)
        except Exception:
            # The tokenizer has no token for some word of the text. Such a tokenizer is safe to
            # load.
            continue
        if unknown := {*ids} - known:
            return (
                f"must have a tokenizer that returns only ids of its vocabulary, got {max(unknown)}"
            )
    return None


def _growth(part: Any) -> float:
    """Return how many times longer a normaliser or decoder in tokenizer.json may make a text.

    A step `Replace` replaces each match by its content, which may be longer. If each step makes a
    text longer by a factor, all steps together make it longer by the product of the factors.
    """
    growth, left = 1.0, [part]
    while left:
        step = left.pop()
        if not isinstance(step, Mapping):
            continue
        for inner in ("normalizers", "decoders"):
            steps = step.get(inner)
            left.extend(steps if isinstance(steps, list) else ())
        if step.get("type") == "Replace":
            pattern = step.get("pattern")
            found = pattern.get("String") if isinstance(pattern, Mapping) else None
            least = max(1, len(found)) if isinstance(found, str) else 1
            growth *= max(1.0, len(str(step.get("content") or "")) / least)
        elif step.get("type") == "Prepend":
            growth *= max(1.0, len(str(step.get("prepend") or "")))
    return growth


def _safetensors_problem(file: Path) -> str | None:
    """Check the header of a safetensors file, but not its tensors.

    The first bytes of the file are the length of the header.
    """
    with file.open("rb") as opened:
        start = opened.read(8)
        size = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if size > file.stat().st_size:
            return None  # The header is broken. The loader reports this later.
        if size > MAX_HEADER_BYTES:
            most = MAX_HEADER_BYTES
            return f"must have headers of at most {most} bytes, but {file.name} has {size}"
        header = opened.read(size)
    try:
        value = json.loads(header)
    except (ValueError, RecursionError):
        return None  # The header is broken. The loader reports this later.
    return _count_problem(file, "tensors", len(value), MAX_TENSORS)


def _gguf_problem(file: Path) -> str | None:
    """Check the counts at the start of a GGUF file, then read its whole header."""
    with file.open("rb") as opened:
        start = opened.read(24)
    if len(start) < 24 or start[:4] != b"GGUF":
        return None  # The file has no GGUF header. The loader reports this later.
    order = "<" if start[4:8] in (b"\x02\0\0\0", b"\x03\0\0\0") else ">"
    tensors, fields = struct.unpack(f"{order}QQ", start[8:24])
    problem = _count_problem(file, "tensors", tensors, MAX_TENSORS)
    problem = problem or _count_problem(file, "fields", fields, MAX_FIELDS)
    if problem is None:
        from specviz.models.files.gguf_reader import QuickReader

        with suppress(Exception):  # If the header is broken, the loader reports this later.
            QuickReader(str(file))
    return problem


def _count_problem(file: Path, what: str, count: int, most: int) -> str | None:
    if count <= most:
        return None
    return f"must have at most {most} {what} in a file, but {file.name} has {count}"
