"""A missing or broken weight file is named before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from specviz.cli import main
from specviz.errors import InputError
from specviz.models.files.loading import load_model
from specviz.models.files.weight_files import INDEX

pytestmark = pytest.mark.usefixtures("empty_memory")

Save = Callable[..., Path]


@pytest.fixture
def sharded(save_model: Save) -> Path:
    """Save a model whose weights are in two files with an index; return its folder."""
    folder = save_model()
    whole = folder / "model.safetensors"
    weights = load_file(whole)
    names = sorted(weights)
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    placed = {}
    for number, half in enumerate(halves, start=1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: weights[name] for name in half}, folder / file, {"format": "pt"})
        placed |= dict.fromkeys(half, file)
    whole.unlink()
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    return folder


def refusals(folder: Path, capsys: Any) -> tuple[str, str]:
    """Return the error text of loading the folder and that of `models --check`; both must fail."""
    with pytest.raises(InputError) as caught:
        load_model(str(folder), "cpu")
    assert main(["models", "--check", str(folder)]) == 2
    return str(caught.value), capsys.readouterr().err


def test_a_model_in_two_files_can_be_loaded(sharded: Path) -> None:
    assert load_model(str(sharded), "cpu").info.layers == 3


def test_a_missing_weight_file_is_named(sharded: Path, capsys: Any) -> None:
    (sharded / "model-00002-of-00002.safetensors").unlink()
    for message in refusals(sharded, capsys):
        assert f"lacks the weights model-00002-of-00002.safetensors, which {INDEX} names" in message


def test_if_all_weight_files_are_missing_the_first_is_named(sharded: Path, capsys: Any) -> None:
    for file in sharded.glob("*.safetensors"):
        file.unlink()
    for message in refusals(sharded, capsys):
        assert "lacks the weights model-00001-of-00002.safetensors and 1 more" in message


@pytest.mark.parametrize("kept", [0, 5, 100, -8])
def test_a_broken_weight_file_is_named(sharded: Path, kept: int, capsys: Any) -> None:
    file = sharded / "model-00001-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    for message in refusals(sharded, capsys):
        assert "has broken weights in model-00001-of-00002.safetensors (" in message
        assert "download that file again" in message


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 3}', "{}"])
def test_a_broken_index_is_named(sharded: Path, text: str, capsys: Any) -> None:
    (sharded / INDEX).write_text(text)
    for message in refusals(sharded, capsys):
        assert f"has a broken {INDEX}" in message


@pytest.mark.parametrize("name", ["../other.safetensors", "/etc/passwd", 3])
def test_an_index_that_names_a_file_outside_the_folder_is_refused(
    sharded: Path, name: Any, capsys: Any
) -> None:
    (sharded / INDEX).write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
    for message in refusals(sharded, capsys):
        assert f"must name files in {INDEX}" in message
