"""Each quantisation in a GGUF file gives the right weights, or is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from transformers import LlamaConfig
from transformers.integrations.gguf.dequant import dequantize
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from specviz.cli import main
from specviz.errors import InputError
from specviz.models.files.gguf_file import dequantised
from specviz.models.files.gguf_source import read_gguf_config
from specviz.models.files.loading import load_model
from tests.models.conftest import build_module, build_tokenizer, family_config
from tests.models.test_gguf_source import EXTRA, IDS, write

pytestmark = pytest.mark.usefixtures("empty_memory")

WIDTH = 256  # the largest number of weights in a block, over all quantisations
UNREADABLE = ("Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64", "Q1_0")
READABLE = [kind.name for kind in GGMLQuantizationType if kind.name not in UNREADABLE]
UP = "blk.1.ffn_up"


def blocks(kind: int) -> np.ndarray:
    """Return the bytes of a matrix [WIDTH, WIDTH] of the GGUF type `kind`, with small scales."""
    values, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    shape = WIDTH, WIDTH // values * size
    return np.random.default_rng(0).integers(0, 0x24, shape, dtype=np.uint8)


@pytest.fixture(scope="module")
def module() -> Any:
    config = family_config("qwen3")
    config.head_dim, config.hidden_size, config.intermediate_size = 128, WIDTH, WIDTH
    config.num_hidden_layers, config.num_attention_heads = 2, 2
    config.layer_types = ["full_attention"] * 2
    config.vocab_size = len(build_tokenizer(EXTRA).get_vocab())
    return build_module("qwen3", config)


def logits(model: Any) -> torch.Tensor:
    positions = torch.arange(IDS.shape[1])[None]
    found: torch.Tensor = model.forward(IDS, positions, model.new_cache(16)).logits
    return found


def refusal(file: Path, capsys: Any, code: int = 2) -> str:
    """Return the error message of loading, and check that `models --check` prints it as well."""
    with pytest.raises(InputError) as caught:
        load_model(str(file), "cpu")
    assert main(["models", "--check", str(file)]) == code
    printed = capsys.readouterr()
    assert str(caught.value) in printed.err + printed.out
    return str(caught.value)


def values(kind: GGMLQuantizationType, content: np.ndarray) -> torch.Tensor:
    """Return the weights that the blocks `content` encode.

    For most types the result comes from code that specviz does not use.
    """
    found = torch.from_numpy(content)
    plain = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    if kind.name in plain:
        return found.view(plain[kind.name]).float()
    try:
        return dequantize(found, kind).reshape(WIDTH, WIDTH)
    except ValueError:  # transformers has no code for this type
        return torch.from_numpy(gguf.dequantize(content, kind))


@pytest.mark.parametrize("name", READABLE)
def test_a_readable_type_gives_the_values_in_the_file(
    name: str, module: Any, tmp_path: Path
) -> None:
    kind = GGMLQuantizationType[name]
    content = blocks(kind)
    file = write(tmp_path / "tiny.gguf", module, raw={UP: (kind, content)})
    weights = dequantised(file, read_gguf_config(str(file), file)).state_dict()
    expected = values(kind, content)
    assert expected.abs().max() > 0
    torch.testing.assert_close(weights["model.layers.1.mlp.up_proj.weight"], expected)
    assert logits(load_model(str(file), "cpu").model).isfinite().all()


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_type_without_values_is_refused_by_its_name(
    name: str, module: Any, tmp_path: Path, capsys: Any
) -> None:
    kind = GGMLQuantizationType[name]
    file = write(tmp_path / "tiny.gguf", module, raw={UP: (kind, blocks(kind))})
    message = f"whose tensor '{UP}.weight' has the type {name}, which the package gguf cannot read"
    assert message in refusal(file, capsys)


@pytest.mark.parametrize("number", [4, 31, 99])
def test_a_type_that_no_longer_exists_is_refused_by_its_number(
    number: int, module: Any, tmp_path: Path, capsys: Any
) -> None:
    kind = GGMLQuantizationType.Q4_0
    file = write(tmp_path / "tiny.gguf", module, raw={UP: (kind, blocks(kind))})
    whole = file.read_bytes()
    # In the file, the tensor's name is followed by the number of dimensions, both dimensions, and
    # the type.
    at = whole.index(f"{UP}.weight".encode()) + len(f"{UP}.weight") + 4 + 2 * 8
    assert whole[at] == kind
    file.write_bytes(whole[:at] + bytes([number]) + whole[at + 1 :])
    assert f"'{UP}.weight' has the type number {number}, which the" in refusal(file, capsys)


@pytest.mark.parametrize("name", ["Q4_K", "IQ2_XXS", "MXFP4", "BF16"])
def test_a_file_that_ends_within_a_quantised_tensor_is_refused(
    name: str, module: Any, tmp_path: Path, capsys: Any
) -> None:
    kind = GGMLQuantizationType[name]
    file = write(tmp_path / "tiny.gguf", module, raw={"blk.1.ffn_down": (kind, blocks(kind))})
    file.write_bytes(file.read_bytes()[:-40])
    assert "cut short: tensor 'blk.1.ffn_down.weight' ends at byte" in refusal(file, capsys)


@pytest.mark.parametrize("name", ["blk.0.attn_q.bias", "blk.0.ffn_up.scale"])
def test_a_tensor_that_transformers_would_ignore_is_refused(
    name: str, module: Any, tmp_path: Path, capsys: Any
) -> None:
    more = {name: np.ones(WIDTH, np.float32)}
    file = write(tmp_path / "tiny.gguf", module, more=more)
    end = f"has weights that do not fit its header: {name} is unknown to transformers"
    assert refusal(file, capsys, 1).endswith(end)


def test_missing_and_misshaped_tensors_are_named(module: Any, tmp_path: Path, capsys: Any) -> None:
    half = np.ones((WIDTH, WIDTH // 2), np.float32)
    raw = {UP: (GGMLQuantizationType.F32, half)}
    file = write(tmp_path / "tiny.gguf", module, raw=raw, left_out=("output_norm",))
    assert refusal(file, capsys, 1).endswith(
        "has weights that do not fit its header: blk.1.ffn_up.weight has 32,768 values instead of "
        "65,536, output_norm.weight is missing"
    )


def llama3(base: float, factor: float) -> tuple[dict[str, Any], np.ndarray]:
    """Return Llama 3.1's rotary parameters, and the factors that llama.cpp stores for them."""
    rope = {
        **{"rope_type": "llama3", "rope_theta": base, "factor": factor, "low_freq_factor": 1.0},
        **{"high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    }
    config = LlamaConfig(head_dim=128, rope_parameters=rope)
    scaled = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))[0]
    plain = base ** -(torch.arange(64) / 64)
    return rope, (plain / scaled).numpy().astype(np.float32)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_the_rotary_factors_of_llama_3_are_used(factor: float, module: Any, tmp_path: Path) -> None:
    base = module.config.rope_parameters["rope_theta"]
    rope, factors = llama3(base, factor)
    more = {"rope_freqs.weight": factors}
    loaded = load_model(str(write(tmp_path / "tiny.gguf", module, more=more)), "cpu")
    config = type(module.config).from_dict(module.config.to_dict() | {"rope_parameters": rope})
    expected = build_module("qwen3", config)(IDS).logits
    torch.testing.assert_close(logits(loaded.model), expected, rtol=1e-4, atol=1e-4)


def test_rotary_factors_of_one_change_nothing(module: Any, tmp_path: Path) -> None:
    more = {"rope_freqs.weight": np.ones(64, np.float32)}
    loaded = load_model(str(write(tmp_path / "tiny.gguf", module, more=more)), "cpu")
    torch.testing.assert_close(logits(loaded.model), module(IDS).logits, rtol=1e-4, atol=1e-4)


def test_other_rotary_factors_are_refused(module: Any, tmp_path: Path, capsys: Any) -> None:
    more = {"rope_freqs.weight": np.linspace(1, 7, 64, dtype=np.float32)}
    file = write(tmp_path / "tiny.gguf", module, more=more)
    assert "whose rope_freqs.weight are not those of Llama 3.1" in refusal(file, capsys)


@pytest.mark.parametrize("kind", ["yarn", "linear"])
def test_scaled_rotary_positions_are_refused_by_their_type(
    kind: str, module: Any, tmp_path: Path, capsys: Any
) -> None:
    fields: Mapping[str, Any] = {"rope.scaling.type": kind, "rope.scaling.factor": 4.0}
    file = write(tmp_path / "tiny.gguf", module, fields=fields)
    message = f"with rotary positions of type '{kind}' and factor 4, which specviz does not read"
    assert message in refusal(file, capsys)
