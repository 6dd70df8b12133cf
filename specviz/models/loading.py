"""From a folder or a Hub id to a model that is ready to run, or one sentence that says why not.

Knows nothing of pairs or drafting. Reads safetensors weights only and never runs code that comes
with a model.
"""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from specviz.errors import InputError
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import LibraryModel
from specviz.models.llama_model import FAMILY, LlamaModel, is_supported
from specviz.models.model_folder import find_model_folder, local_folder
from specviz.models.support import check_config, checked_model
from specviz.models.tokenizer import TextCodec
from specviz.records import ModelInfo
from specviz.settings import Settings

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
DEVICES = ("auto", "cpu", "cuda")
DEFAULT_CONTEXT = 2048  # where the configuration names none


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model, the tokenizer that came with it, and the folder that both are from."""

    model: LanguageModel
    codec: TextCodec
    folder: Path | None = None

    @property
    def info(self) -> ModelInfo:
        return self.model.info


def load_model(
    source: str, device: str = "auto", dtype: str = "float32", name: str | None = None
) -> LoadedModel:
    """Load the model of a folder or a Hub id; `name` is what it is called on screen.

    Raises InputError for everything that can be wrong with the source.
    """
    where, number = resolve_device(device), resolve_dtype(dtype)
    settings = Settings.from_environment()
    _silence_libraries()
    config = _read_config(source, find_model_folder(source, settings, weights=False))
    check_config(source, config)
    folder = find_model_folder(source, settings)
    _check_weights(source, folder)
    tokenizer = _read_tokenizer(source, folder)
    module = _read_weights(source, folder, config, number)
    _check_vocabulary(source, module.config, tokenizer)
    info = _describe(name or source, module, tokenizer)
    codec = TextCodec(tokenizer, info.vocab_size, _eos_ids(source, module, tokenizer))
    return LoadedModel(_place(source, module, info, where), codec, folder)


def known_to_run_by_layers(source: str, model_type: str = "") -> bool | None:
    """Whether the own layer loop takes the model; None where only a download could tell.

    Reads the configuration where it lies on this machine; `model_type` is what is known otherwise.
    """
    folder = local_folder(source)
    if folder is None:
        return model_type in FAMILY if model_type else None
    try:
        return is_supported(_read_config(source, folder))
    except InputError:  # loading will say what is wrong
        return None


def resolve_device(device: str) -> torch.device:
    """`auto` is CUDA where there is one."""
    if device not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}, got {device!r}")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device must be cpu or auto: this machine has no CUDA device, got 'cuda'")
    return torch.device(device)


def resolve_dtype(dtype: str) -> torch.dtype:
    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return DTYPES[dtype]


def _silence_libraries() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def _read_config(source: str, folder: Path) -> Any:
    file = folder / "config.json"
    if not file.is_file():
        raise InputError(f"model {source!r} has no config.json: it is no model folder")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        kind = content.get("model_type")
    except (ValueError, AttributeError, OSError, RecursionError):
        raise InputError(
            f"model {source!r} has a broken config.json: it is no JSON object"
        ) from None
    is_known = isinstance(kind, str) and kind in CONFIG_MAPPING_NAMES
    if not is_known and "auto_map" in content:
        raise InputError(f"model {source!r} needs code of its own, which specviz never runs")
    if not is_known:
        raise InputError(
            f"model {source!r} has model_type {reprlib.repr(kind)}, which transformers "
            f"{transformers.__version__} does not know"
        )
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a configuration class may raise anything for odd values
        raise InputError(f"model {source!r} has a bad config.json: {_line(error)}") from None


def _check_weights(source: str, folder: Path) -> None:
    if any(folder.glob("*.safetensors")):
        return
    pickles = [
        file.name for end in ("bin", "pt", "pth", "ckpt") for file in folder.glob(f"*.{end}")
    ]
    found = f"only {pickles[0]}, which can run code" if pickles else "none"
    raise InputError(f"model {source!r} must have its weights as *.safetensors, found {found}")


def _read_tokenizer(source: str, folder: Path) -> Any:
    missing = InputError(f"model {source!r} has no tokenizer that can be read (tokenizer.json)")
    if not any(
        (folder / file).is_file() for file in ("tokenizer.json", "tokenizer.model", "vocab.json")
    ):
        raise missing
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception:  # parsers of several libraries, each with errors of its own
        raise missing from None
    if not getattr(tokenizer, "is_fast", False) or not tokenizer.get_vocab():
        raise missing
    return tokenizer


def _read_weights(source: str, folder: Path, config: Any, dtype: torch.dtype) -> Any:
    try:
        module, report = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation="sdpa",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # safetensors, torch and transformers each raise their own
        if "scaled_dot_product_attention" in str(error):
            raise InputError(
                f"model {source!r} ({config.model_type}) takes no mask of a draft tree (no sdpa "
                "attention): choose another model"
            ) from None
        raise InputError(
            f"model {source!r} has weights that cannot be read: {_line(error)}"
        ) from None
    wrong = sorted(report["missing_keys"]) or sorted(str(key) for key in report["mismatched_keys"])
    if wrong:
        raise InputError(
            f"model {source!r} has weights that do not fit its config.json: {len(wrong)} tensors "
            f"are missing or of another shape, the first is {wrong[0]}"
        )
    return module


def _check_vocabulary(source: str, config: Any, tokenizer: Any) -> None:
    """Padding behind the tokenizer's ids is cut off; ids without a row of weights have no use."""
    count = _token_count(tokenizer)
    if count > config.vocab_size:
        raise InputError(
            f"model {source!r} must have vocab_size >= {count}, the ids of its tokenizer, "
            f"got {config.vocab_size}"
        )


def _token_count(tokenizer: Any) -> int:
    """One more than the largest id."""
    return 1 + max(int(token_id) for token_id in tokenizer.get_vocab().values())


def _describe(name: str, module: Any, tokenizer: Any) -> ModelInfo:
    config, weights = module.config, list(module.parameters())
    return ModelInfo(
        name=name,
        architecture=str(config.architectures[0] if config.architectures else config.model_type),
        parameters=sum(weight.numel() for weight in weights),
        bytes=sum(weight.nbytes for weight in weights),
        layers=int(config.num_hidden_layers),
        hidden_size=int(config.hidden_size),
        vocab_size=_token_count(tokenizer),
        context_length=int(getattr(config, "max_position_embeddings", None) or DEFAULT_CONTEXT),
    )


def _eos_ids(source: str, module: Any, tokenizer: Any) -> list[int]:
    generation = getattr(module, "generation_config", None)
    listed = getattr(generation, "eos_token_id", None)
    ids = listed if isinstance(listed, list) else [listed]
    known = [token_id for token_id in (*ids, tokenizer.eos_token_id) if token_id is not None]
    if any(type(token_id) is not int for token_id in known):
        shown = reprlib.repr(listed)
        raise InputError(f"model {source!r} must have token ids as eos_token_id, got {shown}")
    return known


def _place(source: str, module: Any, info: ModelInfo, device: torch.device) -> LanguageModel:
    try:
        module.to(device)
        reference = LibraryModel(module, info)
        is_own = is_supported(module.config)
        return checked_model(reference, lambda: LlamaModel(module, info) if is_own else reference)
    except torch.OutOfMemoryError:
        raise InputError(f"model {source!r} does not fit into the memory of {device}") from None


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
