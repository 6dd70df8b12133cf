"""Faults in a model's configuration, tokenizer and file names are found before weights are read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.hub import Listing
from specviz.models.files.survey import Survey, known_to_run_by_layers, survey_model
from tests.models.config_file import edit_config
from tests.models.hub_stub import HubStub

Save = Callable[..., Path]
KINDS = "a model folder, a GGUF file or a Hub id"


def survey(source: Any) -> Survey:
    return survey_model(str(source), Environment())


def refusal(source: Any) -> str:
    with pytest.raises(InputError) as caught:
        survey(source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("family", ["llama", "llama3", "mixtral", "qwen3", "gpt2", "gpt-neox"])
def test_the_parameters_are_counted_without_the_weights(save_model: Save, family: str) -> None:
    folder = save_model(family)
    module = AutoModelForCausalLM.from_pretrained(folder)
    expected = sum(weight.numel() for weight in module.parameters())
    # The survey counts parameters without tensors, so an empty weight file is enough.
    save_file({}, folder / "model.safetensors", {"format": "pt"})
    found = survey(folder)
    assert found.parameters == expected
    assert found.weight_bytes(torch.bfloat16) == 2 * expected


@pytest.mark.parametrize(("family", "width"), [("llama", 32), ("llama3", 32), ("gpt2", 32)])
def test_the_size_of_the_cache_follows_from_the_configuration(
    save_model: Save, family: str, width: int
) -> None:
    """The cache has keys and values in each of 3 layers.

    Both tensors are as wide as all key-value heads together.
    """
    found = survey(save_model(family))
    assert found.size(torch.float32).cache_per_token == 2 * 3 * width * 4


def test_a_folder_has_no_file_list_and_a_repository_has_one(save_model: Save, hub: HubStub) -> None:
    hub.folder, hub.is_gated = save_model(), True
    assert survey(hub.folder).listing is None
    found = survey("owner/model")
    assert found.listing == Listing((("model.safetensors", 10**9),), True)
    assert not hub.fetched_weights


def test_without_an_answer_of_the_hub_there_is_no_file_list(save_model: Save, hub: HubStub) -> None:
    hub.folder, hub.is_unreachable = save_model(), True
    assert survey("owner/model").listing is None


def test_a_repository_of_pickles_is_refused(save_model: Save, hub: HubStub) -> None:
    hub.folder, hub.files = save_model(), [("pytorch_model.bin", 10**9)]
    assert "must have its weights as *.safetensors, found none" in refusal("owner/model")


def test_the_configuration_says_whether_our_own_layer_loop_is_used(save_model: Save) -> None:
    assert known_to_run_by_layers(str(save_model("qwen3", "one"))) is True
    assert known_to_run_by_layers(str(save_model("gpt2", "two"))) is False
    assert known_to_run_by_layers("owner/model") is None
    assert known_to_run_by_layers("owner/model", "llama") is True
    assert known_to_run_by_layers("owner/model", "mixtral") is False


def test_for_a_broken_folder_this_is_unknown(tmp_path: Path) -> None:
    assert known_to_run_by_layers(str(tmp_path)) is None
    assert known_to_run_by_layers("./nothing") is None


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    source = str(tmp_path / "nothing")
    assert refusal(source) == f"model must be {KINDS}, got {source!r}"


def test_a_refusal_does_not_reveal_whether_a_file_exists(tmp_path: Path) -> None:
    there, missing = tmp_path / "secret", tmp_path / "nothing"
    there.write_text("x")
    assert refusal(there).replace("secret", "nothing") == refusal(missing)


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    assert "has no config.json: it is not a model folder" in refusal(tmp_path)


def test_a_file_instead_of_a_folder_is_refused(save_model: Save) -> None:
    found = refusal(save_model() / "model.safetensors")
    assert f"must be {KINDS}" in found


@pytest.mark.parametrize("content", ["{", "[]", "\udcff", "", '{"a":' * 100_000], ids=range(5))
def test_a_broken_config_is_refused(save_model: Save, content: str) -> None:
    folder = save_model()
    (folder / "config.json").write_text(content, errors="surrogateescape")
    assert "has a broken config.json" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_hidden_layers", 10**9),
        ("num_attention_heads", 10**6),
        ("hidden_size", 2**40),
        ("vocab_size", 2**40),
        ("num_local_experts", 10**7),
        ("max_position_embeddings", 10**15),
        ("rope_parameters", {"deep": [{"n_layer": 10**9}]}),
    ],
)
def test_an_impossible_number_is_refused_before_anything_is_built(
    save_model: Save, name: str, value: Any
) -> None:
    folder = save_model()
    edit_config(folder, **{name: value})
    began = time.thread_time()
    assert " of at most " in refusal(folder)
    assert time.thread_time() - began < 0.5


def test_layers_times_experts_is_limited(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, num_hidden_layers=500, num_local_experts=500)
    assert "must have at most 65536 experts in all layers, got 250000" in refusal(folder)


def test_a_huge_configuration_file_is_not_read(save_model: Save) -> None:
    folder = save_model()
    (folder / "config.json").write_bytes(b" " * 10_000_001)
    assert "must have a config.json of at most 10000000 bytes" in refusal(folder)


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
def test_an_end_token_that_is_no_token_id_is_refused(save_model: Save, end: Any) -> None:
    folder = save_model()
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    assert "must have token ids as eos_token_id, got" in refusal(folder)


def test_a_tokenizer_with_ids_beyond_the_embedding_is_refused(save_model: Save) -> None:
    message = refusal(save_model(vocab_size=258))
    assert "must have vocab_size >= 259, the ids of its tokenizer, got 258" in message


def test_pickled_weights_are_refused(save_model: Save) -> None:
    folder = save_model()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    message = refusal(folder)
    assert "must have its weights as *.safetensors, found only pytorch_model.bin" in message


def test_a_folder_without_weights_is_refused(save_model: Save) -> None:
    folder = save_model()
    (folder / "model.safetensors").unlink()
    assert "must have its weights as *.safetensors, found none" in refusal(folder)


def test_a_model_with_its_own_code_is_refused_and_the_code_is_not_run(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, model_type="own", auto_map={"AutoConfig": "own.Config"})
    (folder / "own.py").write_text("raise SystemExit('ran')")
    assert "needs Python code from its own files, which specviz never runs" in refusal(folder)


def test_an_unknown_model_type_is_refused(save_model: Save) -> None:
    folder = save_model()
    edit_config(folder, model_type="unheard-of")
    assert "has model_type 'unheard-of', which transformers" in refusal(folder)


@pytest.mark.parametrize("kind", [["llama"], {}, 3, None, [[[["llama"]]]]])
def test_a_model_type_that_is_not_a_text_is_refused(save_model: Save, kind: Any) -> None:
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
        ({"model_type": "vit"}, "is not a causal language model (vit)"),
        ({"model_type": "gemma3"}, "reads more than text (gemma3)"),
        ({"model_type": "llama4"}, "reads more than text (llama4)"),
        ({"model_type": "blt"}, "unknown layers (blt)"),
        ({"model_type": "mamba"}, "is recurrent (mamba)"),
        ({"model_type": "rwkv"}, "is recurrent (rwkv)"),
        ({"model_type": "recurrent_gemma"}, "cannot take back rejected tokens"),
        ({"model_type": "mistral", "sliding_window": 0}, "one sliding_window >= 1, got 0"),
        ({"model_type": "gemma2", "sliding_window": None}, "one sliding_window >= 1, got None"),
        ({"model_type": "llama4_text"}, "chunked_attention layers (llama4_text)"),
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
def test_a_model_whose_cache_cannot_be_rolled_back_is_refused_before_weights_are_read(
    tmp_path: Path, config: dict[str, Any], reason: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert reason in refusal(tmp_path)


def test_weights_that_cannot_be_counted_have_the_size_of_their_files(
    save_model: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_model("llama")
    monkeypatch.setattr("specviz.models.files.survey._count_parameters", lambda config: None)
    found = survey(folder)
    assert found.parameters is None
    assert found.weight_bytes(torch.bfloat16) == (folder / "model.safetensors").stat().st_size


def test_a_bad_field_is_named_with_the_reason(save_model: Save) -> None:
    """Transformers gives the reason only in the second line of its message."""
    folder = save_model("llama")
    edit_config(folder, num_hidden_layers="3")
    with pytest.raises(InputError, match=r"bad config.json: .*'num_hidden_layers': \w+"):
        survey(folder)
