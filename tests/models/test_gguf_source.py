"""A GGUF file runs as the model that it was written from, and says how it was quantised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
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

EXTRA = ("ab",)  # what the one merge makes
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


def write(file: Path, module: Any, architecture: str = "qwen3") -> Path:
    """A module of Qwen3 as a GGUF file in float32, with the tests' own tokenizer."""
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
    for to, name in names.items():
        writer.add_tensor(f"{to}.weight", weights[f"{name}.weight"].float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture
def module() -> Any:
    config = family_config("qwen3")
    config.head_dim = 128  # what transformers takes every Qwen3 in this format to have
    config.vocab_size = len(build_tokenizer(EXTRA).get_vocab())
    return build_module("qwen3", config)


@pytest.fixture
def file(tmp_path: Path, module: Any) -> Path:
    return write(tmp_path / "tiny.gguf", module)


def test_logits_are_those_of_the_model_it_was_written_from(file: Path, module: Any) -> None:
    loaded = load_model(str(file), "cpu")
    assert isinstance(loaded.model, LlamaModel)
    positions = torch.arange(IDS.shape[1])[None]
    found = loaded.model.forward(IDS, positions, loaded.model.new_cache(16)).logits
    torch.testing.assert_close(found, module(IDS).logits, rtol=1e-4, atol=1e-4)
    peer = load_library_model(str(file), torch.device("cpu"), "float32")
    torch.testing.assert_close(peer(IDS).logits, module(IDS).logits, rtol=1e-4, atol=1e-4)


def test_a_header_is_read_quickly_as_the_package_itself_reads_it(
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


def test_other_readers_of_such_files_are_left_alone(file: Path) -> None:
    usual = gguf.GGUFReader
    load_model(str(file), "cpu")
    assert gguf.GGUFReader is usual


def test_the_name_says_how_it_was_quantised_and_what_it_runs_in(file: Path) -> None:
    assert load_model(str(file), "cpu").info.name == f"{file} (F32 as float32)"
    assert load_model(str(file), "cpu", "bfloat16").info.name == f"{file} (F32 as bfloat16)"


def test_its_tokenizer_and_end_of_text_are_in_the_file(file: Path) -> None:
    codec = load_model(str(file), "cpu").codec
    assert codec.eos_ids == {0}
    assert list(codec.encode("Hi")) == build_tokenizer()("Hi").input_ids


def test_two_of_them_are_a_pair_and_one_alone_is_a_target(file: Path) -> None:
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
    assert "is no GGUF file that can be read" in refusal(file)


def test_a_file_cut_short_is_refused(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4096])
    assert "is a GGUF file of architecture 'qwen3' that transformers" in refusal(file)
