"""Every pair can be found by its name, and the bundled pair matches its folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from specviz.errors import InputError
from specviz.folders import ASSETS
from specviz.models.files.hub import HUB_ID
from specviz.models.pair_catalog import PRESETS, Pair, custom_pair, models_folder, pair_named, pairs


def test_without_a_setting_the_bundled_models_come_from_the_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPECVIZ_MODELS", raising=False)
    assert models_folder() == ASSETS / "models"


def test_the_bundled_pair_has_the_parts_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_MODELS", str(tmp_path))
    (tmp_path / "eagle").mkdir()
    pair = pair_named("bundled")
    parts = (pair.target, pair.medusa, pair.eagle, pair.foreign_draft)
    assert parts == (str(tmp_path / "target"), "", str(tmp_path / "eagle"), "")


def test_names_are_unique_and_the_first_pair_can_be_the_default() -> None:
    names = [pair.name for pair in pairs()]
    assert names[:2] == ["smollm2", "bundled"]
    assert len(set(names)) == len(names)
    assert all(pair_named(name).name == name for name in names)


def test_an_unknown_name_is_refused_with_the_list_of_known_names() -> None:
    with pytest.raises(InputError, match="pair must be one of smollm2, bundled, .*, got 'nothing'"):
        pair_named("nothing")


CLAIMED = {"gpt2-xl": "1.5x", "llama3-70b": "2-3x", "mixtral": "1.5-2x", "qwen2.5-72b": "2-2.5x"}


@pytest.mark.parametrize("name", CLAIMED)
def test_a_preset_names_a_published_speedup_and_says_that_it_was_not_measured_here(
    name: str,
) -> None:
    claim = pair_named(name).claim
    assert CLAIMED[name] in claim
    assert "not measured here" in claim


@pytest.mark.parametrize("pair", PRESETS, ids=lambda pair: pair.name)
def test_a_preset_has_its_size_and_its_kind(pair: Pair) -> None:
    assert re.search(r"\d GB in (float32|bfloat16)", pair.note)
    assert pair.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    assert HUB_ID.fullmatch(pair.target)
    assert HUB_ID.fullmatch(pair.draft)
    assert pair.instruct == ("instruct" in pair.title)


def test_the_draft_of_a_custom_pair_may_have_another_vocabulary() -> None:
    assert custom_pair("a", "b").foreign_draft == "b"


def test_an_empty_target_is_refused() -> None:
    with pytest.raises(InputError, match="target must be a model folder, a GGUF file"):
        custom_pair(" ", "x")


def test_a_target_without_a_draft_is_a_pair() -> None:
    pair = custom_pair("a", " ")
    assert (pair.target, pair.draft, pair.foreign_draft, pair.title) == ("a", "", "", "a")


def test_on_a_public_server_only_offered_models_can_be_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setenv("SPECVIZ_MODELS_ALLOWED", "owner/model")
    assert custom_pair("owner/model", PRESETS[0].draft).target == "owner/model"
    sentences = set()
    for source in ("/etc/passwd", "/etc/nothing", str(tmp_path), "other/model", "x.gguf"):
        for role in ("target", "draft", "eagle", "medusa"):
            with pytest.raises(InputError) as caught:
                custom_pair(**{"target": "owner/model", role: source})
            assert str(caught.value).startswith(
                f"{role} must be a model of the menu or one of owner/"
            )
            sentences.add(str(caught.value).partition(", got")[0].removeprefix(role))
    assert len(sentences) == 1  # all messages are the same, so none reveals which files exist


def test_on_a_public_server_presets_above_the_size_limit_are_not_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = {pair.name for pair in pairs()}
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setenv("SPECVIZ_MAX_MODEL_GB", "4")
    found = {pair.name for pair in pairs()}
    assert everything - found == {pair.name for pair in PRESETS if pair.gigabytes > 4}
    assert "smollm2-1.7b" in found and "mixtral" not in found
