"""A folder with no head, a broken head, or a head for another target is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.errors import InputError
from specviz.models.heads.eagle_files import open_eagle_head
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.models.language_model import LanguageModel
from tests.models.head_files import eagle_parts, medusa_parts, save_head

HEADS = (
    (MedusaHeads.open, "Medusa heads", medusa_parts, "heads.1.output.weight"),
    (open_eagle_head, "EAGLE head", eagle_parts, "fc.weight"),
)


@pytest.fixture(params=HEADS, ids=lambda head: head[1])
def head(request: pytest.FixtureRequest) -> Any:
    return request.param


def refusal(open_head: Any, folder: Path, target: LanguageModel) -> str:
    with pytest.raises(InputError) as caught:
        open_head(folder, target)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_folder_is_refused(head: Any, tmp_path: Path, target: LanguageModel) -> None:
    open_head, title, _, _ = head
    folder = tmp_path / "none"
    expected = f"{title} in {str(folder)!r} has no config.json that can be read"
    assert refusal(open_head, folder, target) == expected


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff" * 3, "[" * 100_000])
def test_a_broken_config_is_refused(
    head: Any, tmp_path: Path, target: LanguageModel, text: str
) -> None:
    open_head, _, parts, _ = head
    folder = save_head(tmp_path, *parts())
    (folder / "config.json").write_text(text, encoding="latin-1")
    assert "has a broken config.json: it is not a JSON object" in refusal(open_head, folder, target)


def test_missing_weights_are_refused(head: Any, tmp_path: Path, target: LanguageModel) -> None:
    open_head, _, parts, _ = head
    folder = save_head(tmp_path, *parts())
    (folder / "model.safetensors").unlink()
    assert "must have its weights as *.safetensors" in refusal(open_head, folder, target)


def test_broken_weights_are_refused(head: Any, tmp_path: Path, target: LanguageModel) -> None:
    open_head, _, parts, _ = head
    folder = save_head(tmp_path, *parts())
    (folder / "model.safetensors").write_bytes(b"none")
    assert "has weights that cannot be read" in refusal(open_head, folder, target)


def test_a_missing_tensor_is_refused(head: Any, tmp_path: Path, target: LanguageModel) -> None:
    open_head, _, parts, name = head
    config, tensors = parts()
    del tensors[name]
    assert f"has no tensor {name}" in refusal(
        open_head, save_head(tmp_path, config, tensors), target
    )


def test_an_additional_tensor_is_refused(head: Any, tmp_path: Path, target: LanguageModel) -> None:
    open_head, _, parts, _ = head
    config, tensors = parts()
    tensors["layers.0.input_layernorm.weight"] = torch.ones(32)
    folder = save_head(tmp_path, config, tensors)
    expected = "has the tensor layers.0.input_layernorm.weight, which heads of this kind lack"
    assert expected in refusal(open_head, folder, target)


def test_a_tensor_with_another_shape_is_refused(
    head: Any, tmp_path: Path, target: LanguageModel
) -> None:
    open_head, _, parts, name = head
    config, tensors = parts()
    shape = tuple(tensors[name].shape)
    tensors[name] = tensors[name].t().contiguous()
    folder = save_head(tmp_path, config, tensors)
    expected = f"must have {name} of shape {shape}, got {shape[::-1]}"
    assert expected in refusal(open_head, folder, target)


def test_weights_with_nan_or_infinity_are_refused(
    head: Any, tmp_path: Path, target: LanguageModel
) -> None:
    open_head, _, parts, name = head
    config, tensors = parts()
    tensors[name][0, 0] = torch.nan
    folder = save_head(tmp_path, config, tensors)
    assert f"got NaN or infinity in {name}" in refusal(open_head, folder, target)


def test_a_head_for_another_target_is_refused(
    head: Any, tmp_path: Path, target: LanguageModel
) -> None:
    open_head, _, parts, _ = head
    config, tensors = parts()
    folder = save_head(tmp_path, {**config, "hidden_size": 64}, tensors)
    assert "must have hidden_size 32 like tiny, got 64" in refusal(open_head, folder, target)
    folder = save_head(tmp_path, {**config, "vocab_size": 60}, tensors)
    assert "must have vocab_size >= 61, got 60" in refusal(open_head, folder, target)


@pytest.mark.parametrize("value", [None, 0, -1, 2.5, "3", True])
def test_invalid_counts_are_refused(tmp_path: Path, target: LanguageModel, value: Any) -> None:
    config, tensors = medusa_parts()
    folder = save_head(tmp_path / "medusa", {**config, "heads": value}, tensors)
    assert f"must have heads >= 1, got {value!r}" in refusal(MedusaHeads.open, folder, target)
    config, tensors = eagle_parts()
    folder = save_head(tmp_path / "eagle", {**config, "num_attention_heads": value}, tensors)
    expected = f"must have num_attention_heads >= 1, got {value!r}"
    assert expected in refusal(open_eagle_head, folder, target)


def test_a_folder_with_another_kind_of_head_is_refused_with_that_reason(
    tmp_path: Path, target: LanguageModel
) -> None:
    folder = save_head(tmp_path, *eagle_parts())
    expected = "must have heads in its config.json, got none: is it another kind of head?"
    assert expected in refusal(MedusaHeads.open, folder, target)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hidden_act": "gelu"}, "must be a layer of the Llama family: silu"),
        ({"num_key_value_heads": 3}, "num_attention_heads a multiple of num_key_value_heads"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "fixed rotary angles"),
        ({"num_attention_heads": 3}, "has a bad config.json: Class validation error"),
        ({"head_dim": 7}, "has a bad config.json: Class validation error"),
        ({"rms_norm_eps": "small"}, "has a bad config.json: "),
    ],
)
def test_a_head_whose_layer_belongs_to_another_family_is_refused(
    tmp_path: Path, target: LanguageModel, changes: dict[str, Any], problem: str
) -> None:
    config, tensors = eagle_parts()
    folder = save_head(tmp_path, {**config, **changes}, tensors)
    assert problem in refusal(open_eagle_head, folder, target)
