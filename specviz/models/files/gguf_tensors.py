"""Compare the tensors in a GGUF file with the tensors that the model's class needs.

transformers ignores tensors that it does not know. A model with such a tensor would run with wrong
numbers, so this module refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from specviz.models.files.gguf_reader import tensor_headers
from specviz.models.files.gguf_rotary import FACTORS
from specviz.models.files.weight_fit import fault_sentence

# Tensors with one of these parts in their names are not compared. Two parts name experts, whose
# tensors transformers joins. "nextn" names layers that predict further tokens; a plain model has no
# such layers.
_OTHER_RULES = ("_exps", "_shexp", "nextn")


def unfit_gguf(file: Path, kind: str, config: Any) -> str | None:
    """Return which tensors are missing, superfluous or of another size, or None if all fit.

    `kind` is the name of the file's architecture. The result is the end of a sentence that begins
    with the model's name. Raises any error of transformers.
    """
    return fault_sentence([*_faults(file, kind, config)], "header")


def _faults(file: Path, kind: str, config: Any) -> Iterator[str]:
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
    )

    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    processor = TENSOR_PROCESSORS.get(kind, TensorProcessor)(config=config.to_dict())
    names: Mapping[str, str] = get_gguf_hf_weights_map(model, processor)
    needed = model.state_dict()
    tied = set(model.all_tied_weights_keys)
    found = {each.name: each.values for each in tensor_headers(file)}
    for name, own in names.items():
        if own not in needed or any(part in name for part in _OTHER_RULES):
            continue
        if name not in found:
            if own not in tied:
                yield f"{name} is missing"
        elif found[name] != needed[own].numel():
            yield f"{name} has {found[name]:,} values instead of {needed[own].numel():,}"
    for name in found.keys() - names.keys() - {FACTORS}:
        if not any(part in name for part in _OTHER_RULES):
            yield f"{name} is unknown to transformers"
