"""`models --check` and loading name the same missing or misshaped tensors of a model."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.cli import main
from specviz.errors import InputError
from specviz.models.files.loading import load_model
from specviz.models.files.survey import read_config
from specviz.models.files.weight_fit import unfit_weights
from tests.models.config_file import edit_config

pytestmark = pytest.mark.usefixtures("empty_memory")

Save = Callable[..., Path]
Weights = dict[str, torch.Tensor]
UP = "model.layers.1.mlp.up_proj.weight"


def change(folder: Path, edit: Callable[[Weights], object]) -> None:
    file = folder / "model.safetensors"
    weights = load_file(file)
    edit(weights)
    save_file(weights, file, {"format": "pt"})


def faults(folder: Path, capsys: Any) -> str:
    """Return the error message of loading, and check that `models --check` prints the same one."""
    with pytest.raises(InputError) as caught:
        load_model(str(folder), "cpu")
    assert main(["models", "--check", str(folder)]) == 1
    printed = capsys.readouterr()
    assert f"problem: {caught.value}" in printed.out
    assert printed.err.endswith("this pair cannot run: 1 problem\n")
    return str(caught.value).partition("config.json: ")[2]


@pytest.mark.parametrize("family", ["llama", "qwen3-sliding", "gpt2", "gpt-neox", "mixtral"])
def test_the_weights_of_a_saved_model_fit(save_model: Save, family: str) -> None:
    folder = save_model(family)
    assert unfit_weights(folder, read_config("it", folder)) is None


@pytest.mark.parametrize(
    ("family", "name"),
    [("llama", UP), ("qwen3", "lm_head.weight"), ("gpt2", "transformer.h.1.mlp.c_fc.weight")],
)
def test_a_missing_tensor_is_named(save_model: Save, family: str, name: str, capsys: Any) -> None:
    folder = save_model(family)
    change(folder, lambda weights: weights.pop(name))
    assert faults(folder, capsys) == f"{name} is missing"


def test_a_tensor_of_another_shape_is_named_with_both_shapes(save_model: Save, capsys: Any) -> None:
    folder = save_model()
    change(folder, lambda weights: weights.update({UP: torch.zeros(3, 4)}))
    assert faults(folder, capsys) == f"{UP} has shape [3, 4] instead of [48, 32]"


def test_experts_of_different_shapes_are_named_by_the_matrix_they_belong_to(
    save_model: Save, capsys: Any
) -> None:
    folder = save_model("mixtral")
    name = "model.layers.0.block_sparse_moe.experts.2.w1.weight"
    change(folder, lambda weights: weights.update({name: torch.zeros(3, 4)}))
    joined = "model.layers.0.mlp.experts.gate_up_proj"
    assert faults(folder, capsys) == f"{joined} cannot be joined from its parts"


def test_a_missing_expert_is_named_by_the_matrix_it_belongs_to(
    save_model: Save, capsys: Any
) -> None:
    folder = save_model("mixtral")
    name = "model.layers.0.block_sparse_moe.experts.3.w2.weight"
    change(folder, lambda weights: weights.pop(name))
    assert faults(folder, capsys).startswith("model.layers.0.mlp.experts.down_proj has shape [3, ")


def test_the_check_gives_no_memory_to_missing_tensors(save_model: Save) -> None:
    """The nine missing matrices need 19 GB."""
    folder = save_model()
    edit_config(folder, intermediate_size=2**24)
    change(folder, lambda weights: [weights.pop(name) for name in list(weights) if "mlp" in name])
    config = read_config("it", folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "up_proj.weight is missing and 6 more" in str(unfit_weights(folder, config))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 100_000  # in kilobytes


def test_tensors_in_a_file_that_is_never_loaded_do_not_count(save_model: Save, capsys: Any) -> None:
    folder = save_model()
    save_file({UP: torch.zeros(48, 32)}, folder / "consolidated.safetensors")
    change(folder, lambda weights: weights.pop(UP))
    assert faults(folder, capsys) == f"{UP} is missing"


def test_weights_under_another_name_than_model_are_refused(save_model: Save, capsys: Any) -> None:
    folder = save_model()
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    with pytest.raises(InputError, match="found only weights.safetensors"):
        load_model(str(folder), "cpu")
    assert main(["models", "--check", str(folder)]) == 2
    assert "must have its weights in model.safetensors or in files that" in capsys.readouterr().err
