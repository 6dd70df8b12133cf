"""Our own layer loop equals the forward pass of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from specviz.environment import Environment
from specviz.models.files.loading import load_surveyed
from specviz.models.files.survey import survey_model
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_config import is_supported, tied_copy_bytes
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.matrix_kernels.choice import Choice
from specviz.models.matrix_kernels.projection import Projection

ROTARY_FAMILIES = ("llama", "llama-grouped", "llama-biased", "mistral", "qwen2", "qwen3")


@pytest.fixture(params=ROTARY_FAMILIES)
def both(request: pytest.FixtureRequest, tiny_module: Any, tiny_info: Any) -> Any:
    modules = [tiny_module(request.param) for _ in range(2)]
    return (
        LibraryModel(modules[0], tiny_info(modules[0])),
        LlamaModel(modules[1], tiny_info(modules[1])),
    )


def test_prompt_token_chain_and_tree_equal_transformers(both: Any) -> None:
    star = torch.eye(4, dtype=torch.bool)
    star[:, 0] = True
    steps = (
        (list(range(20)), None, None),
        ([5], None, None),
        ([6, 7, 8], None, None),
        ([9, 1, 2, 3], [24, 25, 25, 25], star),
        ([4], None, None),
    )
    caches = [model.new_cache(64) for model in both]
    for ids, positions, mask in steps:
        start = caches[0].length
        places = torch.tensor([positions or list(range(start, start + len(ids)))])
        logits = [
            model.forward(torch.tensor([ids]), places, cache, mask).logits
            for model, cache in zip(both, caches, strict=True)
        ]
        torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)


def test_features_and_embeddings_equal_transformers(both: Any) -> None:
    ids = torch.arange(20)
    features = [
        model.forward(
            ids[None], ids[None], model.new_cache(64), feature_layers=(model.info.layers,)
        ).features
        for model in both
    ]
    torch.testing.assert_close(*features, rtol=1e-4, atol=1e-4)
    assert torch.equal(*(model.embed(ids) for model in both))
    torch.testing.assert_close(*(model.output(features[0][0]) for model in both))


@pytest.mark.parametrize("kind", ["linear", "llama3", "yarn"])
def test_scaled_rotary_positions_equal_transformers(
    kind: str, tiny_module: Any, tiny_info: Any
) -> None:
    from transformers import LlamaConfig

    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0}
    if kind == "llama3":
        rope |= {
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    if kind == "yarn":
        rope |= {"original_max_position_embeddings": 32}
    config = LlamaConfig(
        vocab_size=61,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        rope_parameters=rope,
    )
    assert is_supported(config)
    modules = [tiny_module("llama", config) for _ in range(2)]
    models = (
        LibraryModel(modules[0], tiny_info(modules[0])),
        LlamaModel(modules[1], tiny_info(modules[1])),
    )
    ids = torch.arange(50)[None]
    logits = [model.forward(ids, ids, model.new_cache(64)).logits for model in models]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_with_empty_matrices_runs_in_transformers(
    dtype: torch.dtype, save_model: Any
) -> None:
    survey = survey_model(str(save_model("llama", intermediate_size=0)), Environment())
    model = load_surveyed(survey, torch.device("cpu"), dtype).model
    assert not isinstance(model, LlamaModel)
    ids, places = torch.tensor([[3, 1, 4]]), torch.arange(3)[None]
    assert model.forward(ids, places, model.new_cache(3)).logits.isfinite().all()


@pytest.mark.parametrize("is_small", [True, False])
def test_a_tied_output_matrix_is_packed_up_to_a_size_and_its_copy_is_counted(
    is_small: bool, save_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 300 * 32 * 4
    limit = size if is_small else size - 1
    monkeypatch.setattr("specviz.models.llama.llama_config.TIED_COPY_BYTES", limit)
    survey = survey_model(str(save_model("llama")), Environment())
    model = load_surveyed(survey, torch.device("cpu"), torch.float32).model
    assert isinstance(model, LlamaModel) and isinstance(model.head, Projection)
    model.settle()
    assert (model.head.second_bytes > 0) is is_small
    assert model.info.bytes == survey.size(torch.float32).held(is_on_cpu=True)
    assert model.info.bytes == 4 * model.info.parameters + is_small * size


def test_the_memory_of_second_layouts_is_predicted_correctly(
    save_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Choice(("mm-transposed", *["linear"] * 4), {})
    monkeypatch.setattr("specviz.models.matrix_kernels.settling.by_rule", lambda *_: two)
    survey = survey_model(str(save_model("llama")), Environment())
    model = load_surveyed(survey, torch.device("cpu"), torch.float32).model
    assert isinstance(model, LlamaModel)
    model.settle()
    layers = [each for layer in model.layers for each in layer.projections]
    assert all(each.bytes == 2 * each.shape.bytes for each in layers)
    assert model.info.bytes == survey.size(torch.float32).held(is_on_cpu=True)


def test_the_output_matrix_of_a_chat_model_with_135_million_parameters_is_packed() -> None:
    shape = {"vocab_size": 49_152, "hidden_size": 576}
    cpu, full = torch.device("cpu"), torch.float32
    assert tied_copy_bytes(LlamaConfig(**shape, tie_word_embeddings=True), cpu, full) == 113_246_208
    assert tied_copy_bytes(LlamaConfig(**shape, tie_word_embeddings=False), cpu, full) == 0
    cuda = torch.device("cuda")
    assert tied_copy_bytes(LlamaConfig(**shape, tie_word_embeddings=True), cuda, full) == 0
