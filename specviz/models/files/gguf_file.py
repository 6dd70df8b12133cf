"""Read a GGUF file: dequantise its weights into a module, or write them as safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from specviz.errors import InputError, first_line
from specviz.models.files.gguf_source import LibrarySource, architecture, read_gguf_config
from specviz.models.files.survey import silence_libraries


def unpack_gguf(file: Path, folder: Path) -> None:
    """Write the model in the GGUF file `file` to `folder`, with weights in float32.

    The function writes weights, configuration, tokenizer and chat template. Raises InputError if
    the file cannot be read.
    """
    silence_libraries()
    where = LibrarySource.of(file)
    try:
        with where.reading():
            model = dequantised(file, read_gguf_config(str(file), file))
            tokenizer = transformers.AutoTokenizer.from_pretrained(where.place, **where.options)
    except InputError:
        raise
    except Exception as error:
        # Catch every error, because gguf, torch and transformers each raise errors of their own.
        raise InputError(f"file {file.name!r} cannot be read: {first_line(error)}") from None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        # safetensors makes files that only their owner can read, but other users may need the model
        path.chmod(0o644)


def dequantised(
    file: Path, config: Any, dtype: torch.dtype = torch.float32, attention: str = "sdpa"
) -> Any:
    """Return a transformers module with the weights of a GGUF file.

    Raises any error of gguf, torch or transformers. The function does not call `from_pretrained`,
    which would need one more package (accelerate).
    """
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    from specviz.models.files.gguf_reader import quick_headers
    from specviz.models.files.gguf_tensors import unfit_gguf

    if fault := unfit_gguf(file, architecture(str(file), file), config):
        raise InputError(f"model {str(file)!r} {fault}")
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
        count = len(lacking) + len(report.unexpected_keys)
        raise ValueError(f"{count} tensors do not fit the model's configuration")
    return model
