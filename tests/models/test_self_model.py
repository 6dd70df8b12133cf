"""Draft models made from the target's own weights have the promised results and memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from specviz.errors import InputError
from specviz.folders import ASSETS
from specviz.models.files.loading import load_model
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import LibraryModel
from specviz.models.llama import self_model
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.llama.self_model import layer_skipping, quantised, usual_bits
from specviz.models.matrix_kernels.panel_form import GROUP, MIDDLE

FAMILIES = ("llama", "llama-grouped", "llama-biased", "qwen3")


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(family: str, tiny_module: Any, tiny_info: Any) -> LlamaModel:
    module = tiny_module(family)
    return LlamaModel(module, tiny_info(module))


def logits_of(model: LanguageModel) -> Tensor:
    """Return the logits of a prompt and of a small tree after it."""
    cache = model.new_cache(32)
    ids = torch.arange(20)[None]
    first = model.forward(ids, ids, cache).logits
    star = torch.eye(4, dtype=torch.bool)
    star[:, 0] = True
    rest = model.forward(ids[:, :4], torch.tensor([[20, 21, 21, 21]]), cache, star).logits
    return torch.cat((first, rest), dim=1)


@pytest.mark.parametrize("skipped", [(1,), (0, 2), ()])
def test_skipping_layers_equals_transformers_without_those_layers(
    family: str, model: LlamaModel, skipped: tuple[int, ...], tiny_module: Any, tiny_info: Any
) -> None:
    module = tiny_module(family)
    kept = [layer for i, layer in enumerate(module.model.layers) if i not in skipped]
    module.model.layers = nn.ModuleList(kept)
    module.config.num_hidden_layers = len(kept)
    for index, layer in enumerate(kept):
        layer.self_attn.layer_idx = index
    smaller = layer_skipping(model, skipped)
    expected = LibraryModel(module, tiny_info(module))
    torch.testing.assert_close(logits_of(smaller), logits_of(expected), rtol=1e-4, atol=1e-4)
    assert smaller.info.layers == len(kept)
    assert smaller.info.parameters == expected.info.parameters


def test_skipping_layers_takes_no_memory_and_does_not_change_the_target(
    model: LlamaModel,
) -> None:
    before = logits_of(model)
    smaller = layer_skipping(model, (1,))
    assert smaller.info.bytes == 0
    assert smaller.info.name == "tiny, 2 of 3 layers"
    assert [id(layer) for layer in smaller.layers] == [id(model.layers[i]) for i in (0, 2)]
    assert torch.equal(logits_of(model), before)


@pytest.mark.parametrize("skipped", [(0, 1, 2), (3,), (-1,), (1, 1)])
def test_layers_that_cannot_be_left_out_are_refused(
    model: LlamaModel, skipped: tuple[int, ...]
) -> None:
    rule = "must be different layer numbers from 0 to 2 and leave at least one layer, got"
    with pytest.raises(InputError, match=f"skipped_layers {rule}"):
        layer_skipping(model, skipped)


def test_int8_is_close_to_the_target_and_does_not_change_it(model: LlamaModel) -> None:
    before = logits_of(model)
    difference = logits_of(quantised(model)) - before
    assert difference.norm() < 0.1 * before.norm()
    assert torch.equal(logits_of(model), before)


def test_int8_takes_one_byte_per_weight_of_a_matrix(model: LlamaModel) -> None:
    copy = quantised(model)
    projections = [
        projection
        for layer in model.layers
        for projection in (layer.qkv, layer.out, layer.gate_up, layer.down)
    ] + [model.head]
    sizes = [each.weight.shape for each in projections]
    least = [outputs * (inputs + 2) for outputs, inputs in sizes]
    # An upper limit: no layout of the matrices in memory needs more than this.
    padded = [(outputs + 64) * (inputs + 64) for outputs, inputs in sizes]
    assert sum(least) <= copy.info.bytes == sum(m.bytes for m in copy.projections) < sum(padded)
    assert (copy.info.layers, copy.info.name) == (3, "tiny in int8")


def test_a_model_is_quantised_once(model: LlamaModel) -> None:
    assert quantised(model) is quantised(model)
    assert quantised(model, 4) is quantised(model, 4) is not quantised(model)


def test_int4_takes_half_a_byte_per_weight_and_keeps_the_output_matrix_in_int8(
    tiny_module: Any, tiny_info: Any
) -> None:
    module = tiny_module("llama")
    model = LlamaModel(module, tiny_info(module))
    before = logits_of(model)
    copy = quantised(model, 4)
    difference = logits_of(copy) - before
    assert difference.norm() < 0.6 * before.norm()
    assert torch.equal(logits_of(model), before)
    assert copy.info.bytes < quantised(model).info.bytes and copy.info.name == "tiny in int4"
    assert torch.equal(copy.head.weight, quantised(model).head.weight)


def on_groups(shape: torch.Size) -> Tensor:
    outputs, inputs = shape
    steps = torch.randint(0, 16, (outputs, inputs // GROUP, GROUP)).float()
    steps[..., :2] = torch.tensor([0.0, 15.0])
    scale = torch.rand(outputs, inputs // GROUP, 1) * 0.01 + 0.002
    return ((steps - MIDDLE) * scale).flatten(1)


def test_four_bits_are_the_default_if_the_layers_were_rounded_to_4_bit_groups(
    tiny_module: Any, tiny_info: Any
) -> None:
    module = tiny_module("llama")
    assert usual_bits(LlamaModel(module, tiny_info(module))) == 8
    module = tiny_module("llama")
    for layer in module.model.layers:
        weight = layer.mlp.down_proj.weight
        weight.data = on_groups(weight.shape)
    assert usual_bits(LlamaModel(module, tiny_info(module))) == 4


def test_four_bits_are_refused_without_a_kernel_for_them(
    model: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_model, "has_int4", lambda device: False)
    with pytest.raises(InputError, match="^bits must be 8 on cpu, .* got 4$"):
        quantised(model, 4)
    assert usual_bits(model) == 8


def test_with_int8_weights_the_bundled_target_chooses_the_same_tokens() -> None:
    loaded = load_model(str(ASSETS / "models" / "target"), device="cpu")
    assert isinstance(loaded.model, LlamaModel)
    small = quantised(loaded.model)
    prompts = json.loads((ASSETS / "prompts.json").read_text(encoding="utf-8"))
    same = []
    for task in prompts.values():
        for text in task[:3]:
            ids = torch.tensor([loaded.codec.encode(text)[-256:]])
            positions = torch.arange(ids.shape[1])[None]
            choices = [
                model.forward(ids, positions, model.new_cache(256)).logits.argmax(-1)
                for model in (loaded.model, small)
            ]
            same.append((choices[0] == choices[1]).float().flatten())
    assert torch.cat(same).mean() >= 0.95
    assert small.info.bytes < 0.3 * 4 * small.info.parameters
