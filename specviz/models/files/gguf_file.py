"""The weights of a GGUF file, dequantised: as a model, or written out as safetensors for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from specviz.errors import InputError
from specviz.models.files.gguf_reader import quick_headers
from specviz.models.files.gguf_source import LibrarySource
from specviz.models.files.survey import first_line, silence_libraries


def unpack_gguf(file: Path, folder: Path) -> None:
    """Float32 weights, configuration, tokenizer and chat template of `file`, into `folder`.

    Raises InputError for a file that cannot be read.
    """
    silence_libraries()
    where = LibrarySource.of(file)
    try:
        with where.reading():
            model = dequantised(
                file, transformers.AutoConfig.from_pretrained(where.place, **where.options)
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(where.place, **where.options)
    except Exception as error:  # gguf, torch and transformers each raise their own
        raise InputError(f"file {file.name!r} cannot be read: {first_line(error)}") from None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors writes for its owner alone


def dequantised(
    file: Path, config: Any, dtype: torch.dtype = torch.float32, attention: str = "sdpa"
) -> Any:
    """The library's module with the file's weights; raises what gguf, torch and it raise.

    The library's own way to load such a file asks for a further package, accelerate.
    """
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=dtype, attn_implementation=attention
    )
    with quick_headers():
        weights = load_gguf_checkpoint(
            str(file), return_tensors=True, model_to_load=model, torch_dtype=dtype
        )["tensors"]
    report = model.load_state_dict(weights, strict=False)
    model.tie_weights()
    lacking = set(report.missing_keys) - set(model.all_tied_weights_keys)
    if lacking or report.unexpected_keys:
        raise ValueError(f"{len(lacking) + len(report.unexpected_keys)} tensors do not fit")
    return model
