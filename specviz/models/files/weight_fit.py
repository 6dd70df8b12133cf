"""Compare the tensors in a model's weight files with the tensors that its config.json needs.

Only the headers of the files are read. transformers itself loads the tensors, without values, so
that its rules for tied, renamed and joined tensors apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from torch import Tensor

from specviz.models.files.weight_files import loaded_files

_SHOWN = 3  # largest number of tensors that one error sentence names


class _HeaderTensor(Tensor):
    """A tensor with a shape but without values. Moving it to a device creates no values."""

    def to(self, *args: Any, **options: Any) -> Tensor:
        return self


def unfit_weights(folder: Path, config: Any) -> str | None:
    """Return which tensors are missing or have another shape, or None if all tensors fit.

    The result is the end of a sentence that begins with the model's name. Raises any error of the
    model's class in transformers, and of safetensors.
    """
    usual: Any = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    unjoined: dict[str, str] = {}

    def finalise(model: Any, load_config: Any, loading_info: Any) -> Any:
        unjoined.update(loading_info.conversion_errors)
        return usual._finalize_model_loading(model, load_config, loading_info)

    changes = {
        # transformers applies its rules for old tensor names only to classes of its own modules
        "__module__": usual.__module__,
        # In transformers, the next two methods allocate the missing tensors and fill them with
        # random values. Here they do nothing.
        "_move_missing_keys_from_meta_to_device": lambda *args, **options: None,
        "_initialize_missing_keys": lambda *args, **options: None,
        "_finalize_model_loading": staticmethod(finalise),
    }
    kind: Any = type(usual.__name__, (usual,), changes)
    try:
        _, report = kind.from_pretrained(
            None,
            config=config,
            state_dict=_headers(folder),
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except RuntimeError:
        if not unjoined:
            raise
        return fault_sentence([f"{name} cannot be joined from its parts" for name in unjoined])
    return unfit_tensors(report)


def unfit_tensors(report: Mapping[str, Any]) -> str | None:
    """Return which tensors are missing or have another shape, or None if all tensors fit.

    `report` is the loading report of transformers. The result is the end of a sentence that begins
    with the model's name.
    """
    missing = [f"{name} is missing" for name in report["missing_keys"]]
    misshaped = [
        f"{name} has shape {list(found)} instead of {list(needed)}"
        for name, found, needed in report["mismatched_keys"]
    ]
    return fault_sentence([*missing, *misshaped])


def fault_sentence(faults: Sequence[str], described: str = "config.json") -> str | None:
    """Return the end of a sentence with the first faults, or None if there are none.

    `described` names the file or header that says which tensors the model needs.
    """
    if not faults:
        return None
    first, left = sorted(faults)[:_SHOWN], len(faults) - _SHOWN
    more = f" and {left} more" if left > 0 else ""
    return f"has weights that do not fit its {described}: {', '.join(first)}{more}"


def _headers(folder: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for file in loaded_files(folder):
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118, safe_open returns no dict
                shape = opened.get_slice(name).get_shape()
                found[name] = _HeaderTensor(torch.empty(shape, device="meta"))
    return found
