"""Loading gives a model that runs, or one sentence that says why not."""

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


def test_the_description_counts_what_was_loaded(save_model: Save) -> None:
    info = load_model(str(save_model("llama")), "cpu", name="small one").info
    assert (info.name, info.architecture, info.layers) == ("small one", "LlamaForCausalLM", 3)
    assert info.parameters == 300 * 32 + 3 * (4 * 32 * 32 + 3 * 32 * 48 + 2 * 32) + 32
    output_matrix = 300 * 32 * 4  # packed beside the embedding that it is tied to
    assert info.bytes == 4 * info.parameters + output_matrix
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


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty"])
def test_broken_weights_are_refused(save_model: Save, damage: str) -> None:
    folder = save_model()
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(
        {"truncated": whole[: len(whole) // 2], "garbage": b"\xff" * 999}.get(damage, b"")
    )
    assert "has weights that cannot be read" in refusal(folder)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of mapped files here")
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_weight_file_may_be_replaced_while_its_model_runs(save_model: Save, family: str) -> None:
    """A mapped file that is cut short would end the process at the next look at a weight."""
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
def test_weights_without_room_are_called_so(
    save_model: Save, monkeypatch: pytest.MonkeyPatch, shortage: Exception
) -> None:
    folder = save_model()

    def fail(*args: Any, **options: Any) -> None:
        raise shortage

    for place in ("transformers.AutoModelForCausalLM.from_pretrained", f"{CHECK}.LibraryModel"):
        with monkeypatch.context() as patch:
            patch.setattr(place, fail)
            assert refusal(folder).endswith("does not fit into the memory of cpu")


def test_weights_of_another_shape_are_refused(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, intermediate_size=64)
    assert "weights that" in refusal(folder)


def test_missing_weights_are_refused_instead_of_random(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, num_hidden_layers=4)
    message = refusal(folder)
    assert "weights that do not fit its config.json: 9 tensors are missing" in message


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
    monkeypatch.setattr("specviz.models.llama.llama_model.rotate", lambda heads, angles, out: None)
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
    assert "does not follow the positions and the mask of a draft tree" in refusal(folder)


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


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(("setting", "kind"), [("", CapturedModel), ("0", LlamaModel)])
def test_steps_on_cuda_are_recorded_unless_the_setting_says_no(
    setting: str, kind: type, save_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_CUDA_GRAPHS", setting)
    assert type(load_model(str(save_model()), device="cuda").model) is kind


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_is_refused_where_there_is_none() -> None:
    assert "this machine has no CUDA device" in refusal("anything", device="cuda")
