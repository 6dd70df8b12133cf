"""A target drafts for itself with the layers that a file in its folder names, or by default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.models.llama.self_model import SelfDrafting, self_drafting, spread_layers


def write(folder: Path, content: Any) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "self_drafting.json").write_text(text)
    return folder


def test_a_file_in_the_target_s_folder_names_the_drafting_layers(tmp_path: Path) -> None:
    write(tmp_path, {"exit_layer": 3, "skipped_layers": [4, 6, 7]})
    assert self_drafting(tmp_path, 12) == SelfDrafting(3, (4, 6, 7))


@pytest.mark.parametrize(
    ("layers", "exit_layer", "skipped"),
    [(2, 1, (0,)), (3, 1, (0, 2)), (12, 3, (3, 5, 7)), (32, 8, tuple(range(8, 24, 2)))],
)
def test_by_default_a_quarter_of_the_layers_drafts_and_half_of_the_middle_is_left_out(
    tmp_path: Path, layers: int, exit_layer: int, skipped: tuple[int, ...]
) -> None:
    assert self_drafting(tmp_path, layers) == SelfDrafting(exit_layer, skipped)
    assert self_drafting(None, layers) == SelfDrafting(exit_layer, skipped)


def test_a_target_with_one_layer_cannot_draft_for_itself() -> None:
    with pytest.raises(InputError, match="needs at least 2 layers, got 1"):
        self_drafting(None, 1)


@pytest.mark.parametrize("content", ["{", "[]", "3", {"exit_layer": 3}, {"skipped_layers": [1]}])
def test_an_invalid_file_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(InputError, match="self_drafting.json must have exit_layer and skipped_l"):
        self_drafting(write(tmp_path, content), 12)


@pytest.mark.parametrize("exit_layer", [0, 12, -1, 1.5, True, "3", None])
def test_an_exit_layer_that_is_not_an_inner_layer_is_refused(
    tmp_path: Path, exit_layer: Any
) -> None:
    folder = write(tmp_path, {"exit_layer": exit_layer, "skipped_layers": [1]})
    with pytest.raises(InputError, match="exit_layer in self_drafting.json must be from 1 to 11"):
        self_drafting(folder, 12)


@pytest.mark.parametrize("skipped", [[12], [-1], [1, 1], ["1"], [[1]], [True], list(range(12))])
def test_skipped_layers_that_do_not_exist_are_refused(tmp_path: Path, skipped: Any) -> None:
    folder = write(tmp_path, {"exit_layer": 3, "skipped_layers": skipped})
    with pytest.raises(InputError, match="skipped_layers in self_drafting.json must be different"):
        self_drafting(folder, 12)


@pytest.mark.parametrize("layers", [3, 4, 12, 30])
def test_any_number_of_inner_layers_can_be_left_out(layers: int) -> None:
    for count in range(1, layers - 1):
        skipped = spread_layers(count, layers)
        assert len(set(skipped)) == count and set(skipped) <= set(range(1, layers - 1))
    for count in (0, layers - 1):
        with pytest.raises(InputError, match=f"skipped must be from 1 to {layers - 2} of the"):
            spread_layers(count, layers)
