"""Every named pair can be found, and the bundled one has what its folder has."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.errors import InputError
from specviz.models.catalog import custom_pair, models_folder, pair_named, pairs


def test_without_a_setting_the_bundled_models_are_the_repository_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPECVIZ_MODELS", raising=False)
    assert models_folder() == Path(__file__).parents[2] / "assets" / "models"


def test_the_bundled_pair_has_the_parts_that_lie_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_MODELS", str(tmp_path))
    (tmp_path / "eagle").mkdir()
    pair = pair_named("bundled")
    parts = (pair.target, pair.medusa, pair.eagle, pair.foreign_draft)
    assert parts == (str(tmp_path / "target"), "", str(tmp_path / "eagle"), "")


def test_names_are_unique_and_the_bundled_pair_is_first() -> None:
    names = [pair.name for pair in pairs()]
    assert names[0] == "bundled"
    assert len(set(names)) == len(names)
    assert all(pair_named(name).name == name for name in names)


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InputError, match="pair must be one of bundled, .*, got 'nothing'"):
        pair_named("nothing")


def test_the_draft_of_a_custom_pair_may_have_another_vocabulary() -> None:
    assert custom_pair("a", "b").foreign_draft == "b"


@pytest.mark.parametrize(("target", "draft", "role"), [(" ", "x", "target"), ("x", "", "draft")])
def test_an_empty_source_is_refused(target: str, draft: str, role: str) -> None:
    with pytest.raises(InputError, match=f"{role} must be a model folder or a Hub id"):
        custom_pair(target, draft)
