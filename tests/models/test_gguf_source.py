"""A GGUF file runs like the model from which it was written, and its name has the quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from specviz.errors import InputError
from specviz.experiments.benchmark.peers import load_library_model
from specviz.models.files.gguf_reader import QuickReader
from specviz.models.files.loading import load_model
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.pair_catalog import custom_pair
from specviz.models.pair_loading import load_pair
from tests.models.conftest import SPECIAL, build_module, build_tokenizer, family_config

pytestmark = pytest.mark.usefixtures("empty_memory")

EXTRA = ("ab",)  # the one token that the tokenizer makes by merging two others
IDS = torch.tensor([[7, 3, 11, 42, 5, 19]])
LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write(
    file: Path,
    module: Any,
    architecture: str = "qwen3",
    raw: Mapping[str, tuple[gguf.GGMLQuantizationType, np.ndarray]] = MappingProxyType({}),
    more: Mapping[str, np.ndarray] = MappingProxyType({}),
    left_out: tuple[str, ...] = (),
    fields: Mapping[str, str | float] = MappingProxyType({}),
) -> Path:
    """Write a Qwen3 model as a GGUF file in float32, with the tests' own tokenizer.

    `raw` has the type and the bytes of tensors that are not written in float32. `more` has further
    tensors, and `left_out` the names of tensors to leave out. `fields` has further fields of the
    header. Their names here do not begin with the name of the architecture.
    """
    config, weights = module.config, module.state_dict()
    writer = gguf.GGUFWriter(str(file), architecture)
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    pieces = sorted(build_tokenizer(EXTRA).get_vocab().items(), key=lambda pair: pair[1])
    kinds = [gguf.TokenType.CONTROL if p in SPECIAL else gguf.TokenType.NORMAL for p, _ in pieces]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece for piece, _ in pieces])
    writer.add_token_types(kinds)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    for i in range(config.num_hidden_layers):
        names |= {f"blk.{i}.{to}": f"model.layers.{i}.{name}" for to, name in LAYER.items()}
    for key, value in fields.items():
        add = writer.add_string if isinstance(value, str) else writer.add_float32
        add(f"{architecture}.{key}", value)
    for to, values in more.items():
        writer.add_tensor(to, values)
    for to, name in names.items():
        if to in left_out:
            continue
        if to in raw:
            kind, content = raw[to]
            writer.add_tensor(f"{to}.weight", content, raw_dtype=kind)
        else:
            writer.add_tensor(f"{to}.weight", weights[f"{name}.weight"].float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture
def module() -> Any:
    config = family_config("qwen3")
    # the head size that transformers assumes for every Qwen3 model in a GGUF file
    config.head_dim = 128
    config.vocab_size = len(build_tokenizer(EXTRA).get_vocab())
    return build_module("qwen3", config)


@pytest.fixture
def file(tmp_path: Path, module: Any) -> Path:
    return write(tmp_path / "tiny.gguf", module)


def test_logits_equal_those_of_the_original_model(file: Path, module: Any) -> None:
    loaded = load_model(str(file), "cpu")
    assert isinstance(loaded.model, LlamaModel)
    positions = torch.arange(IDS.shape[1])[None]
    found = loaded.model.forward(IDS, positions, loaded.model.new_cache(16)).logits
    torch.testing.assert_close(found, module(IDS).logits, rtol=1e-4, atol=1e-4)
    peer = load_library_model(str(file), torch.device("cpu"), "float32")
    torch.testing.assert_close(peer(IDS).logits, module(IDS).logits, rtol=1e-4, atol=1e-4)


def test_a_header_is_read_quickly_and_as_the_gguf_package_reads_it(
    file: Path, tmp_path: Path
) -> None:
    with_arrays = tmp_path / "arrays.gguf"
    writer = gguf.GGUFWriter(str(with_arrays), "llama", endianess=gguf.GGUFEndian.BIG)
    writer.add_array("texts", ["a", "", "ä£"])
    writer.add_array("numbers", [1, 2, 3])
    writer.add_array("shares", [0.5, 0.25])
    writer.add_array("flags", [True, False])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for each in (file, with_arrays):
        quick, usual = QuickReader(each), gguf.GGUFReader(each)
        assert list(quick.fields) == list(usual.fields)
        for name, field in usual.fields.items():
            other = quick.fields[name]
            assert (other.offset, other.data, other.types) == (
                field.offset,
                field.data,
                field.types,
            )
            assert [part.tolist() for part in other.parts] == [
                part.tolist() for part in field.parts
            ]
        assert [each.name for each in quick.tensors] == [each.name for each in usual.tensors]
        assert quick.data_offset == usual.data_offset


def test_the_change_to_the_reader_of_transformers_is_undone(file: Path) -> None:
    usual = gguf.GGUFReader
    load_model(str(file), "cpu")
    assert gguf.GGUFReader is usual


def test_the_name_has_the_quantisation_and_the_dtype_of_the_run(file: Path) -> None:
    assert load_model(str(file), "cpu").info.name == f"{file} (F32 as float32)"
    assert load_model(str(file), "cpu", "bfloat16").info.name == f"{file} (F32 as bfloat16)"


def test_the_file_contains_its_tokenizer_and_end_token(file: Path) -> None:
    codec = load_model(str(file), "cpu").codec
    assert codec.eos_ids == {0}
    assert list(codec.encode("Hi")) == build_tokenizer()("Hi").input_ids


def test_two_files_make_a_pair_and_a_single_file_is_a_target(file: Path) -> None:
    assert load_pair(custom_pair(str(file), str(file)), "cpu").parts.draft is not None
    alone = load_pair(custom_pair(str(file)), "cpu", needs=frozenset())
    assert alone.target.info.name.startswith(str(file))


def refusal(source: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_model(str(source), "cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_architecture_that_transformers_cannot_read_is_refused_by_name(
    tmp_path: Path, module: Any
) -> None:
    file = write(tmp_path / "odd.gguf", module, "chameleon")
    assert "is a GGUF file of architecture 'chameleon' that transformers" in refusal(file)


def test_a_file_that_is_missing_or_no_gguf_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "none.gguf"
    assert refusal(file) == (
        f"model must be a model folder, a GGUF file or a Hub id, got {str(file)!r}"
    )
    file.write_bytes(b"not a model")
    assert "is a GGUF file with a broken or unfinished header" in refusal(file)


@pytest.mark.parametrize("lost", [1, 4096, 200_000])
def test_a_truncated_file_is_refused_with_the_name_of_the_cut_tensor(file: Path, lost: int) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-lost])
    message = refusal(file)
    assert "is a GGUF file cut short: tensor '" in message
    assert f"the file at {len(whole) - lost:,}: download it again" in message


@pytest.mark.parametrize("kept", [0, 4, 40, 2000])
def test_a_file_truncated_in_its_header_is_refused(file: Path, kept: int) -> None:
    file.write_bytes(file.read_bytes()[:kept])
    assert "is a GGUF file with a broken or unfinished header: download it again" in refusal(file)


def test_one_of_several_parts_of_a_file_is_refused_as_a_part(file: Path) -> None:
    part = file.rename(file.with_name("tiny-00001-of-00003.gguf"))
    assert "is one of 3 parts of a GGUF file: join them" in refusal(part)
