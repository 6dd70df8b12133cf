"""A model whose layers are on several devices gives the same logits as on one device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.models.library_model import LibraryModel, SpreadModel

FAMILIES = ["llama", "mixtral", "gpt2"]


def steps(model: LibraryModel) -> list[Tensor]:
    """Run a prompt, a tree and the next token; return the logits of all three forwards.

    Two slots of the tree stay in the cache.
    """
    cache = model.new_cache(16)
    prompt = torch.arange(4, device=model.device)[None]
    found = [model.forward(prompt, prompt, cache).logits]
    star = torch.eye(3, dtype=torch.bool, device=model.device)
    star[:, 0] = True
    tree, positions = prompt[:, :3] + 7, torch.tensor([[4, 5, 5]], device=model.device)
    found.append(model.forward(tree, positions, cache, star).logits)
    cache.keep(4, [4, 6])
    last = torch.tensor([[6]], device=model.device)
    output = model.forward(last, last, cache, last_only=True, feature_layers=(model.info.layers,))
    assert output.features is not None
    assert output.features.device == model.device
    return [*found, output.logits, output.features, model.output(output.features)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_separate_cache_per_layer_changes_nothing(
    tiny_module: Any, tiny_info: Any, family: str
) -> None:
    module = tiny_module(family)
    info = tiny_info(module)
    for one, other in zip(
        steps(LibraryModel(module, info)), steps(SpreadModel(module, info)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_the_memory_is_that_of_all_layers(tiny_module: Any, tiny_info: Any) -> None:
    module = tiny_module("llama")
    info = tiny_info(module)
    sizes = set()
    for model in (LibraryModel(module, info), SpreadModel(module, info)):
        cache = model.new_cache(16)
        model.forward(torch.arange(4)[None], torch.arange(4)[None], cache)
        sizes.add(cache.bytes)
        assert cache.length == 4
    assert len(sizes) == 1


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_layers_on_two_devices_give_the_same_logits(tiny_module: Any, tiny_info: Any) -> None:
    """The first layer is on the CPU and the others on the GPU, as with a device map."""
    expected = steps(LibraryModel(tiny_module("llama"), tiny_info(tiny_module("llama"))))
    module = tiny_module("llama")
    body = module.model

    def to(device: str) -> Any:
        def move(layer: Any, inputs: Any, named: Any) -> Any:
            return tuple(_moved(each, device) for each in inputs), {
                key: _moved(each, device) for key, each in named.items()
            }

        return move

    for part in (*body.layers[1:], body.norm, module.lm_head):
        part.to("cuda")
        part.register_forward_pre_hook(to("cuda"), with_kwargs=True)
    for one, other in zip(expected, steps(SpreadModel(module, tiny_info(module))), strict=True):
        torch.testing.assert_close(one, other.cpu(), rtol=1e-4, atol=1e-4)


def _moved(value: Any, device: str) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    return tuple(_moved(each, device) for each in value) if isinstance(value, tuple) else value
