"""Loading returns a model that runs, or one sentence that says why it cannot."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from specviz.errors import InputError
from specviz.experiments.benchmark.peers import load_library_model
from specviz.models.files.loading import load_model
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from tests.models.config_file import edit_config

Save = Callable[..., Path]
CHECK = "specviz.models.files.loading"


def logits(model: Any, count: int = 8) -> torch.Tensor:
    ids = torch.arange(count)[None]
    result: torch.Tensor = model.forward(ids, ids, model.new_cache(count)).logits
    return result


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


def test_the_description_counts_the_loaded_parameters_and_bytes(save_model: Save) -> None:
    info = load_model(str(save_model("llama")), "cpu", name="small one").info
    assert (info.name, info.architecture, info.layers) == ("small one", "LlamaForCausalLM", 3)
    assert info.parameters == 300 * 32 + 3 * (4 * 32 * 32 + 3 * 32 * 48 + 2 * 32) + 32
    # The output matrix is stored as a packed copy, in addition to the embedding.
    output_matrix = 300 * 32 * 4
    assert info.bytes == 4 * info.parameters + output_matrix
    assert info.context_length == 128


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_half_precision_loads_and_is_nearly_the_same(
    save_model: Save, family: str, dtype: str
) -> None:
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


@pytest.mark.parametrize(
    "rules",
    [
        '{"repetition_penalty": 1.3, "min_new_tokens": 5, "no_repeat_ngram_size": 2}',
        '{"temperature": NaN, "top_k": -1e400, "num_beams": "many"}',
        '{"cache_implementation": "nonsense"}',
        '{"watermarking_config": {"greenlist_ratio": 9}}',
        '{"compile_config": {"mode": 3}}',
        "[1]",
        "{",
        "\x00",
    ],
)
def test_sampling_rules_in_generation_config_cannot_break_a_model(
    save_model: Save, rules: str
) -> None:
    folder = save_model()
    (folder / "generation_config.json").write_text(rules)
    assert 0 in load_model(str(folder), "cpu").codec.eos_ids
    peer = load_library_model(str(folder), torch.device("cpu"), "float32")
    assert peer.generation_config.repetition_penalty in (None, 1.0)


def test_end_tokens_count_even_if_the_sampling_rules_are_nonsense(save_model: Save) -> None:
    folder = save_model()
    rules = {"cache_implementation": "nonsense", "eos_token_id": [2, 5]}
    (folder / "generation_config.json").write_text(json.dumps(rules))
    assert load_model(str(folder), "cpu").codec.eos_ids == {0, 2, 5}
    peer = load_library_model(str(folder), torch.device("cpu"), "float32")
    assert peer.generation_config.eos_token_id == [2, 5]


def test_loading_prints_nothing(save_model: Save, capfd: pytest.CaptureFixture[str]) -> None:
    load_model(str(save_model()), "cpu")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty"])
def test_broken_weights_are_refused(save_model: Save, damage: str) -> None:
    folder = save_model()
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(
        {"truncated": whole[: len(whole) // 2], "garbage": b"\xff" * 999}.get(damage, b"")
    )
    assert "has broken weights in model.safetensors (" in refusal(folder)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of mapped files here")
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_weight_file_may_be_replaced_while_its_model_runs(save_model: Save, family: str) -> None:
    """If the weights were memory-mapped, truncating the file would crash the process."""
    folder = save_model(family)
    loaded = load_model(str(folder), "cpu")
    before = logits(loaded.model)
    assert str(folder) not in Path("/proc/self/maps").read_text()
    (folder / "model.safetensors").write_bytes(b"")
    assert torch.equal(logits(loaded.model), before)


@pytest.mark.parametrize(
    "shortage",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        SystemError("error return without exception set"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate"
            " memory: you tried to allocate 99999999999 bytes. Error code 12"
        ),
    ],
)
def test_weights_that_do_not_fit_in_memory_are_refused_with_that_reason(
    save_model: Save, monkeypatch: pytest.MonkeyPatch, shortage: Exception
) -> None:
    folder = save_model()

    def fail(*args: Any, **options: Any) -> None:
        raise shortage

    for place in ("transformers.AutoModelForCausalLM.from_pretrained", f"{CHECK}.LibraryModel"):
        with monkeypatch.context() as patch:
            patch.setattr(place, fail)
            assert refusal(folder).endswith(
                "does not fit into the memory of cpu: choose a smaller model"
            )


def test_weights_with_another_shape_are_refused(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, intermediate_size=64)
    assert refusal(folder).endswith(
        "has weights that do not fit its config.json: model.layers.0.mlp.down_proj.weight has "
        "shape [32, 48] instead of [32, 64], model.layers.0.mlp.gate_proj.weight has shape "
        "[48, 32] instead of [64, 32], model.layers.0.mlp.up_proj.weight has shape [48, 32] "
        "instead of [64, 32] and 6 more"
    )


def test_missing_weights_are_refused_and_not_replaced_by_random_ones(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, num_hidden_layers=4)
    assert refusal(folder).endswith(
        "has weights that do not fit its config.json: model.layers.3.input_layernorm.weight is "
        "missing, model.layers.3.mlp.down_proj.weight is missing, "
        "model.layers.3.mlp.gate_proj.weight is missing and 6 more"
    )


def test_a_model_with_alibi_is_refused(save_model: Save) -> None:
    folder = save_model("llama")
    config = transformers.FalconConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=True
    )
    transformers.FalconForCausalLM(config).save_pretrained(folder)
    assert "accepts no mask that says what each token sees" in refusal(folder)


def test_a_llama_model_that_cannot_run_is_refused(save_model: Save) -> None:
    folder = save_model("llama")
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "partial_rotary_factor": 0.5}
    edit_config(folder, rope_parameters=rope)
    assert "cannot be run by transformers" in refusal(folder)


def test_a_layer_loop_that_differs_from_transformers_is_refused(
    save_model: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.models.llama.layer.rotate", lambda heads, angles, out: None)
    assert "does not follow the positions" in refusal(save_model("llama"))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_weights_that_give_nan_are_refused(save_model: Save, family: str) -> None:
    folder = save_model(family)
    weights = load_file(folder / "model.safetensors")
    broken = {name: torch.full_like(each, torch.nan) for name, each in weights.items()}
    save_file(broken, folder / "model.safetensors", {"format": "pt"})
    assert "must give finite logits, got NaN or infinity" in refusal(folder)


def test_a_model_without_masked_attention_is_refused(save_model: Save) -> None:
    folder = save_model("llama")
    config = transformers.BloomConfig(vocab_size=300, hidden_size=32, n_layer=2, n_head=4)
    transformers.BloomForCausalLM(config).save_pretrained(folder)
    assert "accepts no mask that says what each token sees" in refusal(folder)


def test_a_model_that_sees_later_tokens_is_refused(save_model: Save) -> None:
    folder = save_model("llama")
    config = transformers.BertConfig(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
    )
    transformers.BertLMHeadModel(config).save_pretrained(folder)
    assert "lets a token see the tokens after it, as an encoder does" in refusal(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda, got 'tpu'"),
        ({"dtype": "int8"}, "dtype must be one of float32, bfloat16, float16, got 'int8'"),
    ],
)
def test_unknown_devices_and_dtypes_are_refused(options: dict[str, str], message: str) -> None:
    assert refusal("anything", **options) == message


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(("setting", "kind"), [("", CapturedModel), ("0", LlamaModel)])
def test_steps_on_cuda_are_captured_unless_the_setting_forbids_it(
    setting: str, kind: type, save_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_CUDA_GRAPHS", setting)
    assert type(load_model(str(save_model()), device="cuda").model) is kind


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_is_refused_on_a_machine_without_it() -> None:
    assert "this machine has no CUDA device" in refusal("anything", device="cuda")
