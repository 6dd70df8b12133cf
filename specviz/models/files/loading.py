"""Load a model from a folder, a GGUF file or the Hub, so that it is ready to run.

This module knows nothing about pairs or drafting. It reads only safetensors and GGUF weights, and
never runs code that comes with a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open

from specviz.environment import Environment
from specviz.errors import InputError, first_line, short
from specviz.models.accelerator import is_accelerator, prepare
from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.files.context import context_of
from specviz.models.files.file_check import check_files
from specviz.models.files.gguf_file import dequantised
from specviz.models.files.gguf_source import quantisation
from specviz.models.files.hub import find_model_folder
from specviz.models.files.survey import (
    Survey,
    has_draft_vocabulary,
    survey_model,
)
from specviz.models.files.tree_check import checked_model
from specviz.models.files.weight_files import check_weights
from specviz.models.files.weight_fit import unfit_tensors, unfit_weights
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import LibraryModel, SpreadModel, attention_of
from specviz.models.llama.llama_config import is_supported
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.memory import Placement, is_shortage, place
from specviz.models.memory_estimate import ModelSize
from specviz.models.text.text_codec import TextCodec
from specviz.records import ModelInfo

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
DEVICES = ("auto", "cpu", "cuda")
# The name of the tensor that defines a draft vocabulary. For each row of the draft's output matrix,
# the tensor has the token id minus the row number.
TABLE = "d2t"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model, with its tokenizer, its folder and its size in memory."""

    model: LanguageModel
    codec: TextCodec
    folder: Path | None = None
    size: ModelSize | None = None

    @property
    def info(self) -> ModelInfo:
        return self.model.info


def load_model(
    source: str, device: str = "auto", dtype: str = "float32", name: str | None = None
) -> LoadedModel:
    """Load the model of a folder, a GGUF file or a Hub id. `name` is the model's name on screen.

    Raises InputError for everything that is wrong with the source, if possible before the weights
    are downloaded.
    """
    where, number = resolve_device(device), resolve_dtype(dtype)
    return load_surveyed(survey_model(source, Environment.read()), where, number, name)


def load_surveyed(
    survey: Survey, device: torch.device, dtype: torch.dtype, name: str | None = None
) -> LoadedModel:
    """Load a model whose configuration and tokenizer have already been read.

    `name` is the model's name on screen. Raises InputError for everything that is wrong with the
    weights.
    """
    placement = place(survey.source, survey.weight_bytes(dtype), device, dtype)
    folder = find_model_folder(survey.source, Environment.read())
    check_weights(survey.source, folder)
    # Check the files again, because the weights may have been downloaded since the first check.
    check_files(survey.source, folder)
    module = _read_weights(survey, folder, dtype, placement)
    rows = survey.config.vocab_size if has_draft_vocabulary(survey.config) else None
    info = _describe(name or _name(survey, folder, dtype), module, rows or survey.codec.vocab_size)
    _leave_files(module, folder)
    model = _ready(survey.source, module, info, placement)
    if rows is not None:
        model = _widened(survey, folder, model)
    return LoadedModel(model, survey.codec, folder, survey.size(dtype))


def _widened(survey: Survey, folder: Path, model: LanguageModel) -> LanguageModel:
    """Make a model with a draft vocabulary return logits for the target's whole vocabulary.

    Tokens outside the draft vocabulary get the logit minus infinity. Raises InputError if the table
    of the draft vocabulary is missing or wrong.
    """
    source, size = survey.source, survey.config.draft_vocab_size
    if not isinstance(model, LlamaModel):
        raise InputError(
            f"model {source!r} has a draft vocabulary, which only models of the Llama family may "
            "have: choose another draft model"
        )
    offsets = torch.empty(0)
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            if TABLE in weights.keys():  # noqa: SIM118, safe_open returns no dict
                offsets = weights.get_tensor(TABLE)
    if offsets.dtype not in (torch.uint16, torch.int32, torch.int64) or offsets.shape != (size,):
        raise InputError(
            f"model {source!r} must have the tensor {TABLE} with {size} whole numbers in its "
            "safetensors"
        )
    try:
        drafted = DraftVocabulary.of_offsets(
            offsets.to(model.device, torch.int64), survey.codec.vocab_size
        )
    except ValueError as error:
        raise InputError(f"model {source!r} {error}") from None
    return model.with_vocabulary(drafted)


def _name(survey: Survey, folder: Path, dtype: torch.dtype) -> str:
    """Return the model's name on screen: its source.

    For a GGUF file, add its quantisation and the dtype in which it runs.
    """
    if not folder.is_file():
        return survey.source
    held, runs_in = quantisation(survey.source, folder), str(dtype).removeprefix("torch.")
    return f"{survey.source} ({held} as {runs_in})"


def resolve_device(device: str) -> torch.device:
    """Return the torch device.

    The name `auto` means CUDA if the machine has CUDA, otherwise the CPU.
    """
    if device not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}, got {short(device)}")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device must be cpu or auto: this machine has no CUDA device, got 'cuda'")
    return torch.device(device)


def resolve_dtype(dtype: str) -> torch.dtype:
    if dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got {short(dtype)}")
    return DTYPES[dtype]


def _read_weights(survey: Survey, folder: Path, dtype: torch.dtype, placement: Placement) -> Any:
    source, config = survey.source, survey.config
    try:
        if folder.is_file():
            return _read_gguf(survey, folder, dtype, placement)
        module, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            # an empty configuration, because transformers refuses odd values in
            # generation_config.json
            generation_config=transformers.GenerationConfig(),
            dtype=dtype,
            attn_implementation=attention_of(config),
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **placement.options,
        )
    except InputError:
        raise
    except Exception as error:
        # Catch every error: safetensors, torch and transformers each raise errors of their own.
        if is_shortage(error):
            raise _too_large(source, placement) from None
        fault = _header_fault(folder, config)
        fault = fault or f"has weights that cannot be read: {first_line(error)}"
        raise InputError(f"model {source!r} {fault}") from None
    if fault := unfit_tensors(report):
        raise InputError(f"model {source!r} {fault}")
    return module


def _header_fault(folder: Path, config: Any) -> str | None:
    """Return why the headers of the weights do not fit config.json, or None if they fit."""
    if folder.is_file():
        return None
    try:
        return unfit_weights(folder, config)
    except Exception:
        # Report nothing about this error: the caller reports the error of loading, which says more.
        return None


def _read_gguf(survey: Survey, file: Path, dtype: torch.dtype, placement: Placement) -> Any:
    if placement.is_spread:
        raise InputError(
            f"model {survey.source!r} must fit on one GPU, because it is a GGUF file: "
            "choose a smaller quantisation"
        )
    return dequantised(file, survey.config, dtype, attention_of(survey.config))


def _leave_files(module: Any, folder: Path) -> None:
    """Copy weights into memory if transformers only mapped them from a file.

    transformers maps weights that need no conversion. If another program then overwrote the file,
    this process would crash.
    """
    maps = Path("/proc/self/maps")
    files = [folder] if folder.is_file() else folder.glob("*.safetensors")
    if maps.exists():
        mapped = maps.read_text("utf-8", "replace")
        if not any(str(file.resolve()) in mapped for file in files):
            return
    for weight in (*module.parameters(), *module.buffers()):
        if weight.device.type == "cpu":
            weight.data = weight.detach().clone()


def _describe(name: str, module: Any, vocab_size: int) -> ModelInfo:
    config, weights = module.config, list(module.parameters())
    context = context_of(name, config)
    return ModelInfo(
        name=name,
        architecture=str(config.architectures[0] if config.architectures else config.model_type),
        parameters=sum(weight.numel() for weight in weights),
        bytes=sum(weight.nbytes for weight in weights),
        layers=int(config.num_hidden_layers),
        hidden_size=int(config.hidden_size),
        vocab_size=vocab_size,
        context_length=context.length,
        context_reason=context.reason,
    )


def _ready(source: str, module: Any, info: ModelInfo, placement: Placement) -> LanguageModel:
    try:
        if placement.is_spread:
            prepare(placement.device)
            spread = SpreadModel(module, info)
            return checked_model(spread, lambda: spread)
        module.to(placement.device)
        prepare(placement.device)
        reference = LibraryModel(module, info)
        own = _own_kind(placement.device) if is_supported(module.config) else None
        return checked_model(reference, lambda: own(module, info) if own else reference)
    except InputError:
        raise
    except Exception as error:
        if is_shortage(error):
            raise _too_large(source, placement) from None
        raise


def _own_kind(device: torch.device) -> type[LlamaModel]:
    is_captured = is_accelerator(device) and Environment.read().cuda_graphs
    return CapturedModel if is_captured else LlamaModel


def _too_large(source: str, placement: Placement) -> InputError:
    return InputError(
        f"model {source!r} does not fit into the memory of {placement.device}: "
        "choose a smaller model"
    )
