"""Medusa heads compute what their folder says; the tests of bad folders are test_head_folder's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from specviz.errors import InputError
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.models.language_model import LanguageModel
from specviz.models.llama.llama_model import LlamaModel
from tests.models.head_files import VOCAB, WIDTH, medusa_parts, save_head


@pytest.fixture
def target(tiny_module: Any, tiny_info: Any) -> LanguageModel:
    module = tiny_module("llama")
    return LlamaModel(module, tiny_info(module))


@pytest.mark.parametrize("vocabulary", [VOCAB, VOCAB + 3], ids=["exact", "padded"])
def test_each_head_is_its_residual_block_and_its_matrix(
    tmp_path: Path, target: LanguageModel, vocabulary: int
) -> None:
    config, tensors = medusa_parts(heads=3, vocabulary=vocabulary)
    heads = MedusaHeads.open(save_head(tmp_path, config, tensors), target)
    feature = torch.randn(WIDTH)
    logits = heads.logits(feature)
    assert logits.shape == (heads.count, VOCAB) and logits.dtype is feature.dtype
    for i, row in enumerate(logits):
        parts = ("residual.weight", "residual.bias", "output.weight")
        weight, bias, output = (tensors[f"heads.{i}.{part}"].float() for part in parts)
        expected = (feature + F.silu(F.linear(feature, weight, bias))) @ output.t()
        torch.testing.assert_close(row, expected[:VOCAB], rtol=3e-2, atol=1e-1)


def test_accuracies_and_memory_are_the_folders(tmp_path: Path, target: LanguageModel) -> None:
    config, tensors = medusa_parts(heads=2)
    heads = MedusaHeads.open(save_head(tmp_path, config, tensors), target)
    assert heads.accuracies == ((0.6, 0.1, 0.05), (0.5, 0.1, 0.05))
    stored = sum(tensor.nbytes for tensor in tensors.values())
    assert heads.bytes in (stored, 2 * stored)  # float32 where bfloat16 is slow


@pytest.mark.parametrize(
    "accuracies", [None, [], [[0.5]], [[0.5], []], [[0.5], [1.5]], [["a"], [0.5]], 7, [0.5, 0.5]]
)
def test_accuracies_that_are_not_one_list_of_shares_per_head_are_refused(
    tmp_path: Path, target: LanguageModel, accuracies: Any
) -> None:
    config, tensors = medusa_parts(heads=2)
    folder = save_head(tmp_path, {**config, "accuracies": accuracies}, tensors)
    with pytest.raises(InputError, match="must have accuracies: for each of 2 heads shares from 0"):
        MedusaHeads.open(folder, target)
