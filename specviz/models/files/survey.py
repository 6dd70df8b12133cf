"""What is known of a model without its weights, or one sentence that says why it cannot run.

Knows nothing of pairs or devices. Reads configuration and tokenizer only and never runs code that
comes with a model (a chat template runs in the library's sandbox).
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.config_bounds import read_config_file
from specviz.models.files.gguf_source import LibrarySource, read_gguf_config
from specviz.models.files.hub import (
    Listing,
    is_on_the_hub,
    local_folder,
    locate,
)
from specviz.models.files.tree_check import check_config
from specviz.models.llama.llama_model import FAMILY, is_supported, tied_copy_bytes
from specviz.models.memory import is_shortage
from specviz.models.memory_estimate import ModelSize
from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import fingerprint

DEFAULT_CONTEXT = 2048  # where the configuration names none


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """A model before its weights are read; `parameters` is None where they cannot be counted."""

    source: str
    folder: Path  # or a GGUF file
    config: Any
    codec: TextCodec
    parameters: int | None
    listing: Listing | None  # None: a folder, or a Hub that does not answer

    def weight_bytes(self, dtype: torch.dtype) -> int:
        """What the weights take in memory; where they cannot be counted, what their files take."""
        if self.parameters is not None:
            return self.parameters * dtype.itemsize
        if self.listing is not None:
            return self.listing.weight_bytes
        return sum(file.stat().st_size for file in self.folder.glob("*.safetensors"))

    def size(self, dtype: torch.dtype) -> ModelSize:
        """What decides how much memory the model takes."""
        layers, width, heads = map(
            self._number, ("num_hidden_layers", "hidden_size", "num_attention_heads")
        )
        groups = self._number("num_key_value_heads") or heads
        head = self._number("head_dim") or (width and heads and width // heads)
        inner = self._number("intermediate_size") or (width and 4 * width)
        cached = 2 * layers * groups * head if layers and groups and head else None
        active = 6 * width + 3 * inner if width and inner else None
        return ModelSize(
            source=self.source,
            weights=self.weight_bytes(dtype),
            is_counted=self.parameters is not None,
            parameters=self.parameters,
            cache_per_token=None if cached is None else cached * dtype.itemsize,
            activations_per_token=None if active is None else active * dtype.itemsize,
            vocab_size=self.codec.vocab_size,
            context_length=self._number("max_position_embeddings") or DEFAULT_CONTEXT,
            packed=tied_copy_bytes(self.config, torch.device("cpu"), dtype),
        )

    def _number(self, name: str) -> int | None:
        """A number of the configuration; None where it has none of that name."""
        value = getattr(self.config, name, None)
        return value if isinstance(value, int) else None


def survey_pair_of(target: str, draft: str, environment: Environment) -> tuple[Survey, Survey]:
    """Both models, the draft as one for that target."""
    found = survey_model(target, environment)
    return found, survey_model(draft, environment, found.codec)


def survey_model(source: str, environment: Environment, target: TextCodec | None = None) -> Survey:
    """Fetch and read the small files. Raises InputError for everything that they show to be wrong.

    The tokenizer is read in full, the parameters are counted on a model without storage. A draft
    with a draft vocabulary has no tokenizer of its own: it is for a `target` whose tokenizer is the
    one that it was trained with.
    """
    silence_libraries()
    folder, listing = locate(source, environment, weights=False)
    config = read_config(source, folder)
    check_config(source, config)
    if not is_on_the_hub(source):
        check_weights(source, folder)
    if has_draft_vocabulary(config):
        codec = _codec_of_target(source, config, target)
    else:
        codec = _own_codec(source, folder, config)
    return Survey(source, folder, config, codec, _count_parameters(config), listing)


def has_draft_vocabulary(config: Any) -> bool:
    """Whether the model has rows for a part of its target's vocabulary alone."""
    return getattr(config, "draft_vocab_size", None) is not None


def _codec_of_target(source: str, config: Any, target: TextCodec | None) -> TextCodec:
    size = config.draft_vocab_size
    if type(size) is not int or not 0 < size < config.vocab_size:
        shown = reprlib.repr(size)
        raise InputError(
            f"model {source!r} must have a draft_vocab_size from 1 to {config.vocab_size - 1}, "
            f"got {shown}"
        )
    made_for = getattr(config, "tokenizer_fingerprint", None)
    if target is None or fingerprint(target) != made_for:
        raise InputError(
            f"model {source!r} has no tokenizer of its own: it can only be the draft of a target "
            "with the tokenizer that it was trained with"
        )
    return target


def _own_codec(source: str, folder: Path, config: Any) -> TextCodec:
    tokenizer = _read_tokenizer(source, folder)
    count = 1 + max(int(token_id) for token_id in tokenizer.get_vocab().values())
    _check_vocabulary(source, config, count)
    return TextCodec(tokenizer, count, _eos_ids(source, folder, config, tokenizer))


def known_to_run_by_layers(source: str, model_type: str = "") -> bool | None:
    """Whether the own layer loop takes the model; None where only a download could tell.

    Reads the configuration where it lies on this machine; `model_type` is what is known otherwise.
    """
    folder = local_folder(source)
    if folder is None:
        return model_type in FAMILY if model_type else None
    try:
        return is_supported(read_config(source, folder))
    except InputError:  # loading will say what is wrong
        return None


def check_weights(source: str, folder: Path) -> None:
    """Raise InputError unless there are weights that can be read without running code."""
    if folder.is_file() or any(folder.glob("*.safetensors")):  # a GGUF file holds them itself
        return
    pickles = [
        file.name for end in ("bin", "pt", "pth", "ckpt") for file in folder.glob(f"*.{end}")
    ]
    found = f"only {pickles[0]}, which can run code" if pickles else "none"
    raise InputError(f"model {source!r} must have its weights as *.safetensors, found {found}")


def silence_libraries() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def first_line(error: Exception) -> str:
    """Of what a library says, as much as belongs in one sentence."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def read_config(source: str, folder: Path) -> Any:
    """The library's configuration object; InputError where it is none that the library knows."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if folder.is_file():
        return read_gguf_config(source, folder)
    content = read_config_file(source, folder / "config.json")
    kind = content.get("model_type")
    is_known = isinstance(kind, str) and kind in CONFIG_MAPPING_NAMES
    if not is_known and "auto_map" in content:
        raise InputError(f"model {source!r} needs code of its own, which specviz never runs")
    if not is_known:
        raise InputError(
            f"model {source!r} has model_type {reprlib.repr(kind)}, which transformers "
            f"{transformers.__version__} does not know"
        )
    try:
        return transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # a configuration class may raise anything for odd values
        if is_shortage(error):
            raise
        raise InputError(f"model {source!r} has a bad config.json: {first_line(error)}") from None


def _read_tokenizer(source: str, folder: Path) -> Any:
    missing = InputError(f"model {source!r} has no tokenizer that can be read (tokenizer.json)")
    names = ("tokenizer.json", "tokenizer.model", "vocab.json")
    if not folder.is_file() and not any((folder / name).is_file() for name in names):
        raise missing
    where = LibrarySource.of(folder)
    try:
        with where.reading():
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                where.place, local_files_only=True, trust_remote_code=False, **where.options
            )
    except Exception:  # parsers of several libraries, each with errors of its own
        raise missing from None
    if not getattr(tokenizer, "is_fast", False) or not tokenizer.get_vocab():
        raise missing
    return tokenizer


def _check_vocabulary(source: str, config: Any, count: int) -> None:
    """Padding behind the tokenizer's ids is cut off; ids without a row of weights have no use."""
    if count > config.vocab_size:
        raise InputError(
            f"model {source!r} must have vocab_size >= {count}, the ids of its tokenizer, "
            f"got {config.vocab_size}"
        )


def _eos_ids(source: str, folder: Path, config: Any, tokenizer: Any) -> list[int]:
    """Of the generation configuration (the model's own where there is none) and the tokenizer."""
    chosen = config
    try:
        if folder.is_dir():
            chosen = transformers.GenerationConfig.from_pretrained(folder, local_files_only=True)
    except Exception:  # none there, or one that the library cannot read
        chosen = config
    listed = getattr(chosen, "eos_token_id", None)
    ids = listed if isinstance(listed, list) else [listed]
    known = [token_id for token_id in (*ids, tokenizer.eos_token_id) if token_id is not None]
    if any(type(token_id) is not int for token_id in known):
        shown = reprlib.repr(listed)
        raise InputError(f"model {source!r} must have token ids as eos_token_id, got {shown}")
    return known


def _count_parameters(config: Any) -> int | None:
    try:
        with torch.device("meta"):
            module = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except Exception:  # a configuration class may raise anything; reading the weights will too
        return None
    return sum(int(weight.numel()) for weight in module.parameters())
