"""Pairs share one vocabulary and are loaded once, however many ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.models import pairs
from specviz.models.catalog import Pair, custom_pair, models_folder, pair_named
from specviz.models.catalog import pairs as all_pairs
from specviz.models.loading import load_model
from specviz.models.pairs import check_pair, load_pair
from specviz.records import ModelInfo

Save = Callable[..., Path]
INFO = ModelInfo("any", "Any", 1, 1, 1, 1, 1, 1)


@pytest.fixture(autouse=True)
def empty_memory() -> Iterator[None]:
    pairs._loads.clear()
    yield
    pairs._loads.clear()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace loading by a slow stub that notes which pairs were loaded."""
    loaded: list[str] = []

    def load(pair: Pair, device: str, dtype: str) -> Any:
        loaded.append(pair.target)
        time.sleep(0.05)
        if pair.target == "bad":
            raise InputError("bad pair")
        return SimpleNamespace(pair=pair, target=SimpleNamespace(info=INFO))

    monkeypatch.setattr(pairs, "_load", load)
    return loaded


def test_a_pair_loads_and_shares_the_target_s_tokenizer(save_model: Save) -> None:
    target, draft = save_model("llama", "target"), save_model("gpt2", "draft")
    pair = load_pair(custom_pair(str(target), str(draft)), "cpu")
    assert pair.target.info.name == str(target)
    assert pair.codec.decode(pair.codec.encode("hello")) == "hello"
    assert pair.target.info.vocab_size == pair.draft.info.vocab_size


def test_the_bundled_pair_comes_from_the_models_folder(
    save_model: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _ = save_model("llama", "target"), save_model("llama", "draft")
    monkeypatch.setenv("SPECVIZ_MODELS", str(target.parent))
    pair = load_pair(pair_named("bundled"), "cpu")
    assert (pair.target.info.name, pair.draft.info.name) == ("bundled target", "bundled draft")


def test_without_a_setting_the_bundled_models_are_the_repository_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPECVIZ_MODELS", raising=False)
    assert models_folder() == Path(__file__).parents[2] / "assets" / "models"


def test_other_tokens_are_refused(save_model: Save, tiny_tokenizer: Any) -> None:
    target, draft = save_model("llama", "target"), save_model("llama", "draft")
    tiny_tokenizer(extra=("ab",)).save_pretrained(target)
    tiny_tokenizer(extra=("cd",)).save_pretrained(draft)
    loaded = load_model(str(target), "cpu"), load_model(str(draft), "cpu")
    with pytest.raises(InputError, match="token 259 is 'ab' and 'cd'; choose a draft of the"):
        check_pair(*loaded)


def test_a_longer_vocabulary_is_refused(save_model: Save, tiny_tokenizer: Any) -> None:
    target, draft = save_model("llama", "target"), save_model("llama", "draft")
    tiny_tokenizer(extra=("ab",)).save_pretrained(draft)
    loaded = load_model(str(target), "cpu"), load_model(str(draft), "cpu")
    with pytest.raises(InputError, match="they have 259 and 260 tokens"):
        check_pair(*loaded)


def test_padding_makes_no_difference(save_model: Save) -> None:
    target, draft = save_model("llama", "target"), save_model("llama", "draft", vocab_size=270)
    check_pair(load_model(str(target), "cpu"), load_model(str(draft), "cpu"))


def test_sessions_that_ask_at_once_load_once(counted: list[str]) -> None:
    pair, results = custom_pair("a", "b"), []
    threads = [
        threading.Thread(target=lambda: results.append(load_pair(pair, "cpu"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == ["a"]
    assert len(results) == 8


def test_two_pairs_stay_in_memory_and_the_oldest_goes(counted: list[str]) -> None:
    for name in ("a", "b", "a", "c", "a", "b"):
        load_pair(custom_pair(name, "draft"), "cpu")
    assert counted == ["a", "b", "c", "b"]


def test_a_failed_load_is_tried_again(counted: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="bad pair"):
            load_pair(custom_pair("bad", "draft"), "cpu")
    assert counted == ["bad", "bad"]


def test_another_dtype_is_another_pair(counted: list[str]) -> None:
    load_pair(custom_pair("a", "b"), "cpu", "float32")
    load_pair(custom_pair("a", "b"), "cpu", "bfloat16")
    assert counted == ["a", "a"]


def test_names_are_unique_and_the_bundled_pair_is_first() -> None:
    names = [pair.name for pair in all_pairs()]
    assert names[0] == "bundled"
    assert len(set(names)) == len(names)
    assert all(pair_named(name).name == name for name in names)


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InputError, match="pair must be one of bundled, .*, got 'nothing'"):
        pair_named("nothing")


@pytest.mark.parametrize(("target", "draft", "role"), [(" ", "x", "target"), ("x", "", "draft")])
def test_an_empty_source_is_refused(target: str, draft: str, role: str) -> None:
    with pytest.raises(InputError, match=f"{role} must be a model folder or a Hub id"):
        custom_pair(target, draft)
