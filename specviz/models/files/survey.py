"""Survey a model: find out everything about the model that can be known without its weights.

If the model cannot run, one sentence says why. This module knows nothing about pairs or devices. It
reads only the configuration and the tokenizer, and never runs code that comes with a model. (A chat
template runs in the sandbox of transformers.)
"""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from specviz.environment import Environment
from specviz.errors import InputError, first_line, is_fault
from specviz.models.files.config_bounds import read_config_file
from specviz.models.files.context import context_of
from specviz.models.files.file_check import check_files
from specviz.models.files.gguf_source import LibrarySource, read_gguf_config
from specviz.models.files.hub import (
    Listing,
    is_on_the_hub,
    local_folder,
    locate,
)
from specviz.models.files.small_twin import check_architecture
from specviz.models.files.tree_check import check_config
from specviz.models.files.weight_files import check_weights
from specviz.models.llama.llama_config import FAMILY, is_supported, second_layout_bytes
from specviz.models.memory import is_shortage
from specviz.models.memory_estimate import ModelSize
from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import fingerprint


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """The facts about a model before its weights are read.

    `parameters` is None if the parameters cannot be counted.
    """

    source: str
    folder: Path  # the model's folder, or a GGUF file
    config: Any
    codec: TextCodec
    parameters: int | None
    # the list of files on the Hub; None for a local folder, or if the Hub does not answer
    listing: Listing | None

    def weight_bytes(self, dtype: torch.dtype) -> int:
        """Return the memory of the weights in bytes.

        If the parameters cannot be counted, return the size of the weight files.
        """
        if self.parameters is not None:
            return self.parameters * dtype.itemsize
        if self.listing is not None:
            return self.listing.weight_bytes
        return sum(file.stat().st_size for file in self.folder.glob("*.safetensors"))

    def size(self, dtype: torch.dtype) -> ModelSize:
        """Return the numbers from which the memory of a run is computed."""
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
            context_length=context_of(self.source, self.config).length,
            packed=second_layout_bytes(self.config, torch.device("cpu"), dtype),
        )

    def _number(self, name: str) -> int | None:
        try:
            value = getattr(self.config, name, None)
        except Exception:
            # transformers raises an error if the layers have different values for the field `name`
            return None
        return value if isinstance(value, int) else None


def survey_pair_of(target: str, draft: str, environment: Environment) -> tuple[Survey, Survey]:
    """Survey a target model, and a draft model that is to draft for it."""
    found = survey_model(target, environment)
    return found, survey_model(draft, environment, found.codec)


def survey_model(source: str, environment: Environment, target: TextCodec | None = None) -> Survey:
    """Read a model's configuration and tokenizer, and download them if needed.

    The parameters are counted on a model whose tensors have no storage. A draft with a draft
    vocabulary has no tokenizer of its own: it needs a `target` with the tokenizer it was trained
    with. Raises InputError for everything that is wrong with the model.
    """
    silence_libraries()
    folder, listing = locate(source, environment, weights=False)
    check_files(source, folder)
    if folder.is_file():
        check_weights(source, folder)
    config = read_config(source, folder)
    check_config(source, config)
    # The small twin is needed only for a model that specviz's own layer code cannot run.
    if not is_supported(config):
        check_architecture(source, config)
    if not is_on_the_hub(source):
        check_weights(source, folder)
    if has_draft_vocabulary(config):
        codec = _codec_of_target(source, config, target)
    else:
        codec = _own_codec(source, folder, config)
    return Survey(source, folder, config, codec, _count_parameters(config), listing)


def has_draft_vocabulary(config: Any) -> bool:
    """Return whether the model's output covers only a part of its target's vocabulary."""
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
    """Return whether specviz's own layer code can run the model, or None if that is not known yet.

    The answer comes from the configuration if that is on this machine, and otherwise from
    `model_type` if it is given.
    """
    folder = local_folder(source)
    if folder is None:
        return model_type in FAMILY if model_type else None
    try:
        return is_supported(read_config(source, folder))
    except InputError:  # Loading the model reports later what is wrong.
        return None


def silence_libraries() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def read_config(source: str, folder: Path) -> Any:
    """Return the transformers configuration of a model.

    Raises InputError if transformers does not know the model.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if folder.is_file():
        return read_gguf_config(source, folder)
    content = read_config_file(source, folder / "config.json")
    kind = content.get("model_type")
    is_known = isinstance(kind, str) and kind in CONFIG_MAPPING_NAMES
    if not is_known and "auto_map" in content:
        raise InputError(
            f"model {source!r} needs Python code from its own files, which specviz never runs: "
            "choose a model that transformers knows"
        )
    if not is_known:
        raise InputError(
            f"model {source!r} has model_type {reprlib.repr(kind)}, which transformers "
            f"{transformers.__version__} does not know: choose another model"
        )
    try:
        return transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        # Catch every error, because a configuration class may raise any error for odd values. Only
        # a failed import and a lack of memory are not the fault of the configuration.
        if is_shortage(error) or isinstance(error, ImportError):
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
    except BaseException as error:
        # Catch every error: several libraries parse a tokenizer, and each raises errors of its own.
        if not is_fault(error):
            raise
        raise missing from None
    if not getattr(tokenizer, "is_fast", False) or not tokenizer.get_vocab():
        raise missing
    return tokenizer


def _check_vocabulary(source: str, config: Any, count: int) -> None:
    """Raise InputError if the tokenizer has more ids than the model has embedding rows.

    More rows than ids are allowed: the extra rows are padding, and later code ignores them.
    """
    if count > config.vocab_size:
        raise InputError(
            f"model {source!r} must have vocab_size >= {count}, the ids of its tokenizer, "
            f"got {config.vocab_size}"
        )


def generation_ids(folder: Path, config: Any) -> dict[str, Any]:
    """Return the special tokens in generation_config.json: name of the field -> token ids or None.

    If the file is missing or broken, config.json replaces it. Other fields are not even checked,
    because specviz does not apply them.
    """
    try:
        found = json.loads((folder / "generation_config.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return {name: found.get(name) for name in _SPECIAL_IDS}
    return {name: getattr(config, name, None) for name in _SPECIAL_IDS}


_SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


def _eos_ids(source: str, folder: Path, config: Any, tokenizer: Any) -> list[int]:
    """Return the end-of-sequence tokens of the tokenizer and of the generation configuration."""
    listed = generation_ids(folder, config)["eos_token_id"]
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
    except Exception:
        # A configuration class may raise any error. Loading the weights will raise it again.
        return None
    return sum(int(weight.numel()) for weight in module.parameters())
