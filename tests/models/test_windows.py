"""Layers with a sliding window see only the last tokens of each path, in texts and in trees."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.files.tree_check import checked_model
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_config import is_supported
from specviz.models.windows import FULL, SLIDING, Windows
from tests.models.conftest import VOCAB, WINDOW
from tests.models.test_tree_forward import SLIDING_FAMILIES

LENGTH = 10 * WINDOW


@pytest.fixture(params=SLIDING_FAMILIES)
def model(request: pytest.FixtureRequest, tiny_module: Any, tiny_info: Any) -> LibraryModel:
    module = tiny_module(request.param)
    return LibraryModel(module, tiny_info(module))


def text() -> Tensor:
    return torch.randint(VOCAB, (1, LENGTH), generator=torch.Generator().manual_seed(1))


def test_a_text_longer_than_the_window_gets_the_logits_of_transformers(model: LibraryModel) -> None:
    """The text runs in three parts: as a prompt, token by token, and as a chain."""
    ids, positions, cache = text(), torch.arange(LENGTH)[None], model.new_cache(LENGTH)
    steps = [(0, 25), *((at, at + 1) for at in range(25, 32)), (32, LENGTH)]
    found = [
        model.forward(ids[:, start:end], positions[:, start:end], cache).logits
        for start, end in steps
    ]
    torch.testing.assert_close(torch.cat(found, 1), model.plain_logits(ids), rtol=1e-4, atol=1e-4)


def test_a_chain_of_drafts_longer_than_the_window_can_be_removed_completely(
    model: LibraryModel,
) -> None:
    """The test drafts a chain level by level, as a tree, removes it, and overwrites its slots."""
    ids, start = text(), 12
    cache = model.new_cache(LENGTH)
    positions = torch.arange(LENGTH)[None]
    model.forward(ids[:, :start], positions[:, :start], cache)
    for depth in range(3 * WINDOW):
        mask = torch.ones(1, depth + 1, dtype=torch.bool)
        at = torch.tensor([[start + depth]])
        model.forward(torch.tensor([[depth]]), at, cache, mask)
    cache.keep(start, [])
    found = model.forward(ids[:, start:], positions[:, start:], cache).logits
    expected = model.plain_logits(ids)[:, start:]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_our_own_layer_loop_does_not_run_models_with_sliding_windows(tiny_module: Any) -> None:
    assert is_supported(tiny_module("mistral").config)
    assert not is_supported(tiny_module("mistral-sliding").config)
    assert not is_supported(tiny_module("qwen3-sliding").config)


def test_the_check_accepts_models_with_sliding_windows(model: LibraryModel) -> None:
    assert checked_model(model, lambda: model) is model
    assert model.window == WINDOW


class SeesEverything(LibraryModel):
    """A model that gives every layer the mask of full attention."""

    def _masks(self, position_ids: Any, slots: Any, tree_mask: Any) -> Any:
        visible = self._additive(slots.visible(tree_mask, position_ids.device)[None, None])
        return {FULL: visible, SLIDING: visible} if self._windows.by_kind else visible


@pytest.mark.parametrize("family", SLIDING_FAMILIES)
def test_a_model_that_ignores_its_window_is_refused(
    family: str, tiny_module: Any, tiny_info: Any
) -> None:
    """The check must refuse the model, although the check's tree is shorter than the window."""
    module = tiny_module(family)
    model = SeesEverything(module, tiny_info(module))
    with pytest.raises(InputError, match="does not follow the mask of its sliding window"):
        checked_model(model, lambda: model)
    assert model.window == WINDOW


def test_kinds_and_windows_are_read_from_the_configuration(tiny_module: Any) -> None:
    mixed = Windows.of(tiny_module("gemma3").config)
    assert mixed.kinds == {"full_attention", "sliding_attention"}
    assert mixed.size == WINDOW and mixed.by_kind
    alike = Windows.of(tiny_module("mistral-sliding").config)
    assert alike.kinds == {"sliding_attention"} and not alike.by_kind
    assert Windows.of(tiny_module("llama").config).size is None
