"""Medusa heads compute what their folder describes; test_head_weights.py tests broken folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from specviz.errors import InputError
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.models.language_model import LanguageModel
from specviz.models.matrix_kernels.choice import FIRST_ROWS, Choice
from specviz.models.matrix_kernels.projection import compact_dtype
from tests.models.head_files import VOCAB, WIDTH, medusa_parts, save_head


@pytest.mark.parametrize("vocabulary", [VOCAB, VOCAB + 3], ids=["exact", "padded"])
def test_each_head_is_its_residual_block_followed_by_its_matrix(
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


@pytest.mark.parametrize("drafted", [None, [3, 0, 60]], ids=["whole", "drafted"])
@pytest.mark.parametrize("inner", [0, 20], ids=["residual", "down and up"])
def test_heads_without_their_own_matrices_use_the_target_s(
    tmp_path: Path, target: LanguageModel, drafted: list[int] | None, inner: int
) -> None:
    config, tensors = medusa_parts(heads=3, is_shared=True, inner=inner, drafted=drafted)
    heads = MedusaHeads.open(save_head(tmp_path, config, tensors), target)
    feature = torch.randn(WIDTH)
    logits = heads.logits(feature, 2)
    named = torch.tensor(drafted or range(VOCAB))
    assert heads.count == 3 and logits.shape == (2, len(named))
    assert drafted is None if heads.drafted is None else heads.drafted.ids.tolist() == drafted
    for i, row in enumerate(logits):
        block = f"heads.{i}.{'down' if inner else 'residual'}"
        weight, bias = (tensors[f"{block}.{part}"].float() for part in ("weight", "bias"))
        added = F.silu(F.linear(feature, weight, bias))
        moved = feature + (tensors[f"heads.{i}.up.weight"].float() @ added if inner else added)
        expected = target.output(moved[None])[0, named]
        torch.testing.assert_close(row, expected, rtol=3e-2, atol=1e-1)


def test_the_size_counts_second_layouts(
    tmp_path: Path, target: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_head(tmp_path, *medusa_parts(heads=3))
    once = MedusaHeads.open(folder, target).bytes
    two = Choice(("mm-transposed", *["linear"] * (len(FIRST_ROWS) - 1)), {})
    monkeypatch.setattr("specviz.models.matrix_kernels.settling.by_rule", lambda *_: two)
    # bytes of the biases, which have no second layout
    biases = 3 * WIDTH * compact_dtype(target.device).itemsize
    assert MedusaHeads.open(folder, target).bytes == 2 * once - biases


def test_a_draft_vocabulary_must_name_tokens_of_the_target(
    tmp_path: Path, target: LanguageModel
) -> None:
    folder = save_head(tmp_path, *medusa_parts(is_shared=True, drafted=[3, 3]))
    with pytest.raises(InputError, match="must have 2 different token ids below 61 in d2t"):
        MedusaHeads.open(folder, target)


def test_accuracies_and_memory_come_from_the_folder(tmp_path: Path, target: LanguageModel) -> None:
    config, tensors = medusa_parts(heads=2)
    heads = MedusaHeads.open(save_head(tmp_path, config, tensors), target)
    assert heads.accuracies == ((0.6, 0.1, 0.05), (0.5, 0.1, 0.05))
    stored = sum(tensor.nbytes for tensor in tensors.values())
    # If this processor is slow with bfloat16, the heads are stored in float32, which needs twice
    # the bytes.
    assert heads.bytes in (stored, 2 * stored)


@pytest.mark.parametrize(
    "accuracies", [None, [], [[0.5]], [[0.5], []], [[0.5], [1.5]], [["a"], [0.5]], 7, [0.5, 0.5]]
)
def test_accuracies_must_be_one_list_of_shares_per_head(
    tmp_path: Path, target: LanguageModel, accuracies: Any
) -> None:
    config, tensors = medusa_parts(heads=2)
    folder = save_head(tmp_path, {**config, "accuracies": accuracies}, tensors)
    with pytest.raises(InputError, match="must have accuracies in its config.json: for each"):
        MedusaHeads.open(folder, target)


def published(blocks: int, is_shared: bool = False) -> dict[str, torch.Tensor]:
    """Return random heads with the tensor names of FasterDecoding's `medusa_lm_head.pt`."""
    made: dict[str, torch.Tensor] = {}
    for i in range(3):
        for block in range(blocks):
            made[f"{i}.{block}.linear.weight"] = 0.2 * torch.randn(WIDTH, WIDTH)
            made[f"{i}.{block}.linear.bias"] = 0.2 * torch.randn(WIDTH)
        if not is_shared:
            made[f"{i}.{blocks}.weight"] = torch.randn(VOCAB, WIDTH)
    return {name: tensor.bfloat16() for name, tensor in made.items()}


class PublishedBlock(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.silu(self.linear(x))


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("prefix", ["", "medusa_head."])
def test_published_heads_equal_the_modules_that_they_were_saved_from(
    tmp_path: Path, target: LanguageModel, blocks: int, prefix: str
) -> None:
    """The numbers of heads and blocks come from the tensors: the configuration may be wrong."""
    tensors = published(blocks)
    heads = torch.nn.ModuleList(
        torch.nn.Sequential(
            *(PublishedBlock() for _ in range(blocks)),
            torch.nn.Linear(WIDTH, VOCAB, bias=False),
        )
        for _ in range(3)
    )
    heads.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    (tmp_path / "config.json").write_text('{"medusa_num_heads": 2, "medusa_num_layers": 1}')
    torch.save({prefix + name: each for name, each in tensors.items()}, tmp_path / "heads.pt")
    found = MedusaHeads.open(tmp_path, target)
    feature = torch.randn(WIDTH)
    expected = torch.stack([head(feature) for head in heads])
    torch.testing.assert_close(found.logits(feature), expected, rtol=3e-2, atol=2e-1)
    assert found.count == 3 and len(found.accuracies) == 3
    # Published heads contain no accuracies, so the app uses default values, which fall from head to
    # head.
    assert found.accuracies[1][0] < found.accuracies[0][0]


def test_published_heads_without_matrices_use_the_target_s(
    tmp_path: Path, target: LanguageModel
) -> None:
    tensors = published(1, is_shared=True)
    heads = MedusaHeads.open(save_head(tmp_path, {}, tensors), target)
    feature, moved = torch.randn(WIDTH), []
    for i in range(3):
        block = PublishedBlock()
        names = ("weight", "bias")
        block.linear.load_state_dict({n: tensors[f"{i}.0.linear.{n}"].float() for n in names})
        moved.append(block(feature))
    expected = target.output(torch.stack(moved).detach())
    torch.testing.assert_close(heads.logits(feature), expected, rtol=3e-2, atol=1e-1)


def test_published_heads_with_fewer_tokens_than_the_target_are_refused(
    tmp_path: Path, target: LanguageModel
) -> None:
    tensors = published(1)
    tensors["0.1.weight"] = tensors["0.1.weight"][:50]
    folder = save_head(tmp_path, {}, tensors)
    with pytest.raises(InputError, match="must have at least 61 rows in 0.1.weight, got "):
        MedusaHeads.open(folder, target)


def as_vllm(tensors: dict[str, torch.Tensor], blocks: int) -> dict[str, torch.Tensor]:
    """Return `tensors` under the tensor names of vLLM's `Medusa`."""
    named = {}
    for name, tensor in tensors.items():
        head, place, *rest = name.split(".")
        is_output = int(place) == blocks
        new = f"lm_heads.{head}" if is_output else f"blocks.{head}.layers.{place}"
        named[".".join((new, rest[-1]))] = tensor
    return named


@pytest.mark.parametrize("blocks", [1, 2])
def test_heads_with_vllm_s_names_equal_the_published_ones(
    tmp_path: Path, target: LanguageModel, blocks: int
) -> None:
    tensors, feature = published(blocks), torch.randn(WIDTH)
    expected = MedusaHeads.open(save_head(tmp_path / "a", {}, tensors), target).logits(feature)
    renamed = as_vllm(tensors, blocks)
    found = MedusaHeads.open(save_head(tmp_path / "b", {}, renamed), target).logits(feature)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    for name in [each for each in tensors if each.endswith(".bias")]:
        tensors[name] = torch.zeros_like(tensors[name])
    expected = MedusaHeads.open(save_head(tmp_path / "c", {}, tensors), target).logits(feature)
    unbiased = {name: each for name, each in renamed.items() if not name.endswith(".bias")}
    found = MedusaHeads.open(save_head(tmp_path / "d", {}, unbiased), target).logits(feature)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_with_vllm_s_option_the_target_s_output_is_used_and_a_token_map_is_refused(
    tmp_path: Path, target: LanguageModel
) -> None:
    tensors, feature = published(1, is_shared=True), torch.randn(WIDTH)
    expected = MedusaHeads.open(save_head(tmp_path / "a", {}, tensors), target).logits(feature)
    own = as_vllm(tensors, 1) | {"lm_heads.0.weight": torch.randn(VOCAB, WIDTH)}
    folder = save_head(tmp_path / "b", {"original_lm_head": True}, own)
    found = MedusaHeads.open(folder, target).logits(feature)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    folder = save_head(tmp_path / "c", {}, as_vllm(published(1), 1) | {"token_map": torch.zeros(3)})
    with pytest.raises(InputError, match="has the tensor token_map, which heads of this kind lack"):
        MedusaHeads.open(folder, target)
