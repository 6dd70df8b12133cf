"""Suitable models stay exact when they are inflated; others are refused without leaving files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specviz.errors import InputError
from specviz.inflation.inflate import inflate, read_shape
from specviz.inflation.larger_shape import LlamaShape
from specviz.models.files.hub import local_folder
from specviz.models.files.loading import load_model
from specviz.models.pair_catalog import pair_named
from tests.models.config_file import edit_config

DRAFT = local_folder(pair_named("bundled").draft)
WEIGHTS = "model.safetensors"
KEYS = "model.layers.1.self_attn.k_proj.weight"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a copy of the bundled draft: hidden size 192, 3 heads, an MLP of 512, 2 layers."""
    assert DRAFT is not None
    return Path(shutil.copytree(DRAFT, tmp_path / "model"))


def change_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS, {"format": "pt"})


def drop(folder: Path, *names: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    kept = {name: value for name, value in config.items() if name not in names}
    (folder / "config.json").write_text(json.dumps(kept))


def logits(folder: Path) -> Tensor:
    model = load_model(str(folder), "cpu").model
    ids = torch.arange(5, 45)[None]
    return model.forward(ids, torch.arange(40)[None], model.new_cache(40)).logits


def differs(folder: Path, **sizes: int) -> float:
    """Inflate a model; return the largest error of its logits as a share of the largest logit."""
    target = folder.parent / "large"
    inflate(folder, target, read_shape(folder).with_sizes(sizes))
    ours, theirs = logits(folder), logits(target)
    return float((ours - theirs).abs().max() / ours.abs().max())


def test_weights_finer_than_bfloat16_are_kept(model: Path) -> None:
    torch.manual_seed(0)

    def refine(weights: dict[str, Tensor]) -> None:
        weights.update(
            {
                name: each.float() * (1 + 0.003 * torch.rand(each.shape))
                for name, each in weights.items()
            }
        )

    change_weights(model, refine)
    edit_config(model, dtype="float32")
    assert differs(model, hidden_size=768) < 1e-5


@pytest.mark.parametrize("dropped", ["key", "null"])
def test_missing_configuration_values_have_the_defaults_of_transformers(
    model: Path, dropped: str
) -> None:
    names = ("head_dim", "num_key_value_heads", "rms_norm_eps")
    if dropped == "key":
        drop(model, *names)
    else:
        edit_config(model, head_dim=None, num_key_value_heads=None)
    assert read_shape(model) == LlamaShape(192, 512, 2, 3, 3, 64)
    assert differs(model, hidden_size=768) < 1e-5


def test_layers_beyond_the_configured_number_are_left_out(model: Path) -> None:
    edit_config(model, num_hidden_layers=1)
    assert differs(model, num_hidden_layers=2) < 1e-5


@pytest.mark.parametrize("rope", ["linear", "llama3"])
def test_scaled_rotary_positions_are_kept_in_larger_heads(model: Path, rope: str) -> None:
    scaled = {"rope_type": rope, "rope_theta": 10000.0, "factor": 4.0}
    if rope == "llama3":
        scaled |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
        scaled |= {"original_max_position_embeddings": 256}
    edit_config(model, rope_parameters=scaled)
    assert differs(model, head_dim=256) < 1e-4


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "a word": ({"hidden_size": "192"}, "hidden_size in config.json must be a whole number"),
    "a float": ({"hidden_size": 192.0}, "hidden_size in config.json must be a whole number"),
    "null": ({"hidden_size": None}, "hidden_size in config.json must be a whole number"),
    "zero heads": ({"num_attention_heads": 0}, "num_attention_heads in config.json must be"),
    "an odd head": ({"head_dim": 63}, "head_dim in config.json must be even, got 63"),
    "an eps that is none": ({"rms_norm_eps": "1e-5"}, "rms_norm_eps in config.json must be"),
    # A missing value means the default of transformers, which does not fit the weights.
    "no vocabulary": ({"vocab_size": None}, "model "),
    "another width": ({"hidden_size": 384, "head_dim": 64}, "model "),
    "more layers than there are": ({"num_hidden_layers": 3}, "model "),
    "a million layers": ({"num_hidden_layers": 1 << 20}, "model "),
    "yarn": ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "model "),
    "dynamic": ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "model "),
    "part of a head": (
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}},
        "model ",
    ),
}


def refusal(model: Path) -> str:
    """Return the message that refuses to inflate the model; check that no file is left."""
    target = model.parent / "large"
    with pytest.raises(InputError) as error:
        inflate(model, target, LlamaShape(768, 2048, 4, 12, 3, 64))
    assert not target.exists() and "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("changes", "message"), CONFIGS.values(), ids=CONFIGS.keys())
def test_an_impossible_configuration_is_refused(
    model: Path, changes: dict[str, Any], message: str
) -> None:
    edit_config(model, **changes)
    assert refusal(model).startswith(message)


@pytest.mark.parametrize("text", ["[1]", "null", "{", "[" * 100_000])
def test_a_configuration_that_is_no_object_is_refused(model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    assert refusal(model).endswith("has no config.json that can be read")


def test_weights_that_are_broken_missing_or_of_another_size_are_refused(model: Path) -> None:
    whole = (model / WEIGHTS).read_bytes()
    change_weights(model, lambda weights: weights.pop(KEYS))
    assert f"must have {KEYS} of (192, 192)" in refusal(model)
    change_weights(model, lambda weights: weights.update({KEYS: torch.zeros(192, 64)}))
    assert refusal(model).endswith("got F32 (192, 64)")
    change_weights(model, lambda weights: weights.update({KEYS: torch.zeros(192, 192).byte()}))
    assert refusal(model).endswith("got U8 (192, 192)")
    for broken in (whole[:-1000], b"", b"\xff" * 100):
        (model / WEIGHTS).write_bytes(broken)
        assert refusal(model).endswith("the file is broken")
    (model / WEIGHTS).unlink()
    assert refusal(model).endswith("got nothing")


def test_an_invalid_choice_of_layers_is_refused(model: Path) -> None:
    (model / "self_drafting.json").write_text("[]")
    assert "self_drafting.json must have exit_layer" in refusal(model)


UNREADABLE = Path("/proc/self/mem")  # a file whose first byte cannot be read


@pytest.mark.skipif(not UNREADABLE.is_file(), reason="has no such file")
def test_a_folder_that_cannot_be_completed_is_removed(model: Path) -> None:
    (model / "tokenizer.json").unlink()  # tokenizer.json is the file that is copied last
    (model / "tokenizer.json").symlink_to(UNREADABLE)
    assert "cannot be written" in refusal(model)
