"""Loading gives a model that runs, or one sentence that says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from specviz.errors import InputError
from specviz.models.library_model import LibraryModel
from specviz.models.llama_model import LlamaModel
from specviz.models.loading import load_model

Save = Callable[..., Path]


def logits(model: Any, count: int = 8) -> torch.Tensor:
    ids = torch.arange(count)[None]
    result: torch.Tensor = model.forward(ids, ids, model.new_cache(count)).logits
    return result


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def refusal(source: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_model(str(source), options.pop("device", "cpu"), **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("family", "path"),
    [("llama", LlamaModel), ("qwen3", LlamaModel), ("gpt2", LibraryModel), ("opt", LibraryModel)],
)
def test_a_saved_model_loads_and_runs(save_model: Save, family: str, path: type) -> None:
    folder = save_model(family)
    loaded = load_model(str(folder), "cpu")
    assert isinstance(loaded.model, path)
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder)
    expected = reference(torch.arange(8)[None]).logits[..., :259]
    torch.testing.assert_close(logits(loaded.model), expected.detach(), rtol=1e-4, atol=1e-4)


def test_padding_of_the_vocabulary_is_cut_off(save_model: Save) -> None:
    loaded = load_model(str(save_model()), "cpu")
    assert loaded.info.vocab_size == loaded.codec.vocab_size == 259
    assert logits(loaded.model).shape == (1, 8, 259)


def test_the_description_counts_what_was_loaded(save_model: Save) -> None:
    info = load_model(str(save_model("llama")), "cpu", name="small one").info
    assert (info.name, info.architecture, info.layers) == ("small one", "LlamaForCausalLM", 3)
    assert info.parameters == 300 * 32 + 3 * (4 * 32 * 32 + 3 * 32 * 48 + 2 * 32) + 32
    assert info.bytes == 4 * info.parameters
    assert info.context_length == 128


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_half_precision_loads_and_stays_close(save_model: Save, family: str, dtype: str) -> None:
    folder = save_model(family)
    exact = logits(load_model(str(folder), "cpu").model)
    loaded = load_model(str(folder), "cpu", dtype)
    assert loaded.model.dtype is getattr(torch, dtype)
    close = logits(loaded.model).float()
    assert (close - exact).abs().max() < 0.1 * exact.abs().max()


def test_the_end_tokens_come_from_generation_config_and_tokenizer(save_model: Save) -> None:
    folder = save_model()
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5]}))
    assert load_model(str(folder), "cpu").codec.eos_ids == {0, 2, 5}


def test_loading_prints_nothing(save_model: Save, capfd: pytest.CaptureFixture[str]) -> None:
    load_model(str(save_model()), "cpu")
    assert capfd.readouterr() == ("", "")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    source = str(tmp_path / "nothing")
    assert refusal(source) == f"model folder {source!r} does not exist; check the path"


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    assert "has no config.json: it is no model folder" in refusal(tmp_path)


def test_a_file_is_refused(save_model: Save) -> None:
    assert "must be a folder or a Hub id" in refusal(save_model() / "model.safetensors")


@pytest.mark.parametrize("content", ["{", "[]", "\udcff", "", '{"a":' * 100_000], ids=range(5))
def test_a_broken_config_is_refused(save_model: Save, content: str) -> None:
    folder = save_model()
    (folder / "config.json").write_text(content, errors="surrogateescape")
    assert "has a broken config.json" in refusal(folder)


@pytest.mark.parametrize(
    "change", [{"hidden_size": "many"}, {"num_attention_heads": 5}, {"rope_parameters": 3}]
)
def test_odd_config_values_are_refused(save_model: Save, change: dict[str, Any]) -> None:
    folder = save_model()
    edit_config(folder, **change)
    refusal(folder)


@pytest.mark.parametrize("length", [-5, 0, True, 1.5, "long", [128]])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_context_that_is_no_positive_integer_is_refused(
    save_model: Save, family: str, length: Any
) -> None:
    folder = save_model(family)
    name = "n_positions" if family == "gpt2" else "max_position_embeddings"
    edit_config(folder, **{name: length})
    message = refusal(folder)
    assert "must have max_position_embeddings >= 1" in message or "bad config.json" in message


@pytest.mark.parametrize("end", ["abc", ["abc"], {}, 1.5, [[2]], True])
def test_an_end_token_that_is_no_id_is_refused(save_model: Save, end: Any) -> None:
    folder = save_model()
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    assert "must have token ids as eos_token_id, got" in refusal(folder)


def test_a_tokenizer_with_ids_beyond_the_embedding_is_refused(save_model: Save) -> None:
    message = refusal(save_model(vocab_size=258))
    assert "must have vocab_size >= 259, the ids of its tokenizer, got 258" in message


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty"])
def test_broken_weights_are_refused(save_model: Save, damage: str) -> None:
    folder = save_model()
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(
        {"truncated": whole[: len(whole) // 2], "garbage": b"\xff" * 999}.get(damage, b"")
    )
    assert "has weights that cannot be read" in refusal(folder)


def test_weights_of_another_shape_are_refused(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, intermediate_size=64)
    assert "weights that" in refusal(folder)


def test_missing_weights_are_refused_instead_of_random(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, num_hidden_layers=4)
    message = refusal(folder)
    assert "weights that do not fit its config.json: 9 tensors are missing" in message


def test_pickled_weights_are_refused(save_model: Save) -> None:
    folder = save_model()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    message = refusal(folder)
    assert "must have its weights as *.safetensors, found only pytorch_model.bin" in message


def test_a_folder_without_weights_is_refused(save_model: Save) -> None:
    folder = save_model()
    (folder / "model.safetensors").unlink()
    assert "must have its weights as *.safetensors, found none" in refusal(folder)


def test_a_model_with_code_of_its_own_is_refused_and_not_run(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, model_type="own", auto_map={"AutoConfig": "own.Config"})
    (folder / "own.py").write_text("raise SystemExit('ran')")
    assert "needs code of its own, which specviz never runs" in refusal(folder)


def test_an_unknown_model_type_is_refused(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, model_type="unheard-of")
    assert "has model_type 'unheard-of', which transformers" in refusal(folder)


@pytest.mark.parametrize("kind", [["llama"], {}, 3, None, [[[["llama"]]]]])
def test_a_model_type_that_is_no_name_is_refused(save_model: Save, kind: Any) -> None:
    folder = save_model()
    edit_config(folder, model_type=kind)
    assert f"has model_type {kind!r}, which transformers" in refusal(folder)


@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_a_tokenizer_that_cannot_be_read_is_refused(save_model: Save, damage: str) -> None:
    folder = save_model()
    if damage == "missing":
        (folder / "tokenizer.json").unlink()
    else:
        (folder / "tokenizer.json").write_text("{}")
    assert "has no tokenizer that can be read" in refusal(folder)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "t5"}, "is an encoder-decoder (t5)"),
        ({"model_type": "vit"}, "is no causal language model (vit)"),
        ({"model_type": "mamba"}, "is recurrent (mamba)"),
        ({"model_type": "rwkv"}, "is recurrent (rwkv)"),
        ({"model_type": "recurrent_gemma"}, "cannot take back rejected tokens"),
        ({"model_type": "mistral", "sliding_window": 64}, "sliding_attention layers (mistral)"),
        ({"model_type": "gemma2"}, "sliding_attention layers (gemma2)"),
        ({"model_type": "jamba"}, "cannot take back rejected tokens"),
        ({"model_type": "lfm2"}, "cannot take back rejected tokens"),
        ({"model_type": "qwen3_next"}, "cannot take back rejected tokens"),
        ({"model_type": "gpt_neo"}, "local_attention layers (gpt_neo)"),
        (
            {"model_type": "llama", "quantization_config": {"quant_method": "gptq"}},
            "has quantised weights",
        ),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_what_cannot_be_rolled_back_is_refused_before_weights_are_read(
    tmp_path: Path, config: dict[str, Any], reason: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert reason in refusal(tmp_path)


def test_a_model_that_ignores_positions_is_refused(save_model: Save) -> None:
    folder = save_model("llama")
    config = transformers.FalconConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=True
    )
    transformers.FalconForCausalLM(config).save_pretrained(folder)
    assert "does not follow the positions and the mask of a draft tree" in refusal(folder)


def test_a_llama_that_cannot_run_is_refused(save_model: Save) -> None:
    folder = save_model("llama")
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "partial_rotary_factor": 0.5}
    edit_config(folder, rope_parameters=rope)
    assert "does not follow the positions and the mask of a draft tree" in refusal(folder)


def test_an_own_loop_that_differs_from_the_library_is_refused(
    save_model: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.models.llama_layer.rotate", lambda heads, angles, out: None)
    assert "does not follow the positions" in refusal(save_model("llama"))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_weights_that_give_no_numbers_are_refused(save_model: Save, family: str) -> None:
    folder = save_model(family)
    weights = load_file(folder / "model.safetensors")
    broken = {name: torch.full_like(each, torch.nan) for name, each in weights.items()}
    save_file(broken, folder / "model.safetensors", {"format": "pt"})
    assert "must give finite logits, got NaN or infinity" in refusal(folder)


def test_a_model_without_masked_attention_is_refused(save_model: Save) -> None:
    folder = save_model("llama")
    config = transformers.BloomConfig(vocab_size=300, hidden_size=32, n_layer=2, n_head=4)
    transformers.BloomForCausalLM(config).save_pretrained(folder)
    assert "(bloom) takes no mask of a draft tree" in refusal(folder)


def test_a_model_that_looks_ahead_is_refused(save_model: Save) -> None:
    folder = save_model("llama")
    config = transformers.BertConfig(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
    )
    transformers.BertLMHeadModel(config).save_pretrained(folder)
    assert "does not follow the positions and the mask of a draft tree" in refusal(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda, got 'tpu'"),
        ({"dtype": "int8"}, "dtype must be one of float32, bfloat16, float16, got 'int8'"),
    ],
)
def test_unknown_devices_and_dtypes_are_refused(options: dict[str, str], message: str) -> None:
    assert refusal("anything", **options) == message


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_is_refused_where_there_is_none() -> None:
    assert "this machine has no CUDA device" in refusal("anything", device="cuda")
