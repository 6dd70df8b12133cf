"""A pair loads only the parts that it needs; its draft shares the target's vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.errors import InputError
from specviz.models import memory, pair_loading
from specviz.models.files.loading import load_model, load_surveyed
from specviz.models.files.survey import Survey
from specviz.models.heads import eagle_files
from specviz.models.heads.eagle_head import EagleHead
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.models.llama.self_model import SelfDrafting
from specviz.models.matrix_kernels import settling
from specviz.models.memory_estimate import Demand
from specviz.models.pair_catalog import Pair, custom_pair, pair_named
from specviz.models.pair_check import check_pair_sources
from specviz.models.pair_loading import check_pair, load_pair
from specviz.models.parts import Need
from tests.models.head_files import eagle_parts, medusa_parts, save_head
from tests.models.hub_stub import HubStub

pytestmark = pytest.mark.usefixtures("empty_memory")

Save = Callable[..., Path]
NOTHING = frozenset[Need]()


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the folder name of each loaded model."""
    noted: list[str] = []

    def load(survey: Survey, *options: Any) -> Any:
        noted.append(Path(survey.source).name)
        return load_surveyed(survey, *options)

    monkeypatch.setattr(pair_loading, "load_surveyed", load)
    return noted


def need(*needs: Need) -> frozenset[Need]:
    return frozenset(needs)


def refusal(pair: Pair, *needs: Need) -> str:
    with pytest.raises(InputError) as caught:
        load_pair(pair, "cpu", needs=need(*needs))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_loaded_pair_has_the_target_s_tokenizer(saved_pair: Pair) -> None:
    pair = load_pair(saved_pair, "cpu", needs=need(Need.DRAFT, Need.TEXT))
    assert pair.target.info.name == saved_pair.target
    assert pair.codec.decode(pair.codec.encode("hello")) == "hello"
    assert pair.parts.draft is not None
    assert pair.target.info.vocab_size == pair.parts.draft.info.vocab_size
    assert pair.parts.codec is pair.codec


def test_parts_that_are_not_needed_are_not_loaded(saved_pair: Pair, loads: list[str]) -> None:
    parts = load_pair(saved_pair, "cpu", needs=NOTHING).parts
    assert loads == ["target"]
    assert (parts.draft, parts.foreign, parts.codec, parts.self_drafting) == (None,) * 4
    load_pair(saved_pair, "cpu", needs=need(Need.LAYERS))
    assert loads == ["target"]
    load_pair(saved_pair, "cpu", needs=need(Need.DRAFT))
    assert loads == ["target", "draft"]


def test_pairs_share_their_models(save_model: Save, saved_pair: Pair, loads: list[str]) -> None:
    first = load_pair(saved_pair, "cpu", needs=need(Need.DRAFT))
    other = custom_pair(saved_pair.target, str(save_model("llama", "other")))
    assert load_pair(other, "cpu", needs=need(Need.DRAFT)).target is first.target
    assert loads == ["target", "draft", "other"]


def test_the_same_model_in_another_dtype_is_loaded_separately(
    saved_pair: Pair, loads: list[str]
) -> None:
    load_pair(saved_pair, "cpu", "float32", NOTHING)
    load_pair(saved_pair, "cpu", "bfloat16", NOTHING)
    assert loads == ["target", "target"]


def test_the_bundled_pair_comes_from_the_models_folder(
    save_model: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, _ = save_model("llama", "target"), save_model("llama", "draft")
    save_model("llama", "foreign-draft")
    monkeypatch.setenv("SPECVIZ_MODELS", str(target.parent))
    pair = load_pair(pair_named("bundled"), "cpu", needs=need(Need.DRAFT, Need.FOREIGN_DRAFT))
    parts = pair.parts
    assert parts.draft is not None
    assert parts.foreign is not None
    names = (pair.target.info.name, parts.draft.info.name, parts.foreign.info.name)
    assert names == ("bundled target", "bundled draft", "bundled foreign draft")


def test_heads_are_opened_once_for_their_target(saved_pair: Pair, tmp_path: Path) -> None:
    medusa = save_head(tmp_path / "medusa", *medusa_parts(vocabulary=259))
    eagle = save_head(tmp_path / "eagle", *eagle_parts(vocab_size=259))
    pair = replace(saved_pair, medusa=str(medusa), eagle=str(eagle))
    needs = need(Need.MEDUSA, Need.EAGLE)
    first, second = (load_pair(pair, "cpu", needs=needs).parts for _ in range(2))
    assert isinstance(first.medusa, MedusaHeads)
    assert isinstance(first.eagle, EagleHead)
    assert (first.medusa, first.eagle) == (second.medusa, second.eagle)


def test_heads_choose_kernels_for_the_threads_that_they_run_on(
    saved_pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def settle(projections: Any) -> None:
        seen.append(torch.get_num_threads())
        settling.settle(projections)

    monkeypatch.setattr(eagle_files, "settle", settle)
    eagle = save_head(tmp_path / "eagle", *eagle_parts(vocab_size=259))
    pair = replace(saved_pair, eagle=str(eagle))
    before = torch.get_num_threads()
    torch.set_num_threads(3)  # as if a larger pair, loaded before, had set three threads
    try:
        load_pair(pair, "cpu", needs=need(Need.EAGLE))
        assert set(seen) == {torch.get_num_threads()} != {3}
    finally:
        torch.set_num_threads(before)


def test_memory_that_only_loading_needed_is_returned_once(
    saved_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[bool] = []
    monkeypatch.setattr(pair_loading, "return_freed_memory", lambda: returned.append(True))
    for _ in range(2):
        load_pair(saved_pair, "cpu")
    assert returned == [True]


def test_a_head_with_another_hidden_size_is_refused(saved_pair: Pair, tmp_path: Path) -> None:
    config, tensors = medusa_parts(vocabulary=259)
    folder = save_head(tmp_path / "medusa", {**config, "hidden_size": 64}, tensors)
    assert "hidden_size" in refusal(replace(saved_pair, medusa=str(folder)), Need.MEDUSA)


def test_a_target_s_folder_says_which_layers_draft(saved_pair: Pair, save_model: Save) -> None:
    parts = load_pair(saved_pair, "cpu", needs=need(Need.LAYERS)).parts
    assert parts.self_drafting == SelfDrafting(1, (0, 2))
    file = Path(saved_pair.target) / "self_drafting.json"
    file.write_text('{"exit_layer": 2, "skipped_layers": [1]}')
    parts = load_pair(saved_pair, "cpu", needs=need(Need.LAYERS)).parts
    assert parts.self_drafting == SelfDrafting(2, (1,))


def test_a_missing_part_is_refused_with_a_list_of_pairs_that_have_it(
    saved_pair: Pair, loads: list[str]
) -> None:
    message = refusal(saved_pair, Need.MEDUSA)
    assert message.startswith("pair 'custom' has no Medusa heads: choose a method that needs none")
    message = refusal(custom_pair(saved_pair.draft, saved_pair.target), Need.LAYERS)
    assert "has no target whose layers can be run one by one: choose a method that" in message
    assert "or one of the pairs smollm2, bundled, " in message
    assert loads == []


def test_a_draft_for_cross_vocabulary_may_have_other_tokens(
    saved_pair: Pair, tiny_tokenizer: Any
) -> None:
    tiny_tokenizer(extra=("ab",)).save_pretrained(saved_pair.draft)
    assert "must share the vocabulary" in refusal(saved_pair, Need.DRAFT)
    foreign = load_pair(saved_pair, "cpu", needs=need(Need.FOREIGN_DRAFT)).parts.foreign
    assert foreign is not None
    assert foreign.info.vocab_size == 260


def test_nothing_is_downloaded_for_a_pair_that_cannot_run(
    saved_pair: Pair, hub: HubStub, tiny_tokenizer: Any
) -> None:
    hub.folders = {"owner/a": Path(saved_pair.target), "owner/b": Path(saved_pair.draft)}
    hub_pair = custom_pair("owner/a", "owner/b")
    hub.files = [("model.safetensors", 30 * 10**9)]
    assert "must be at most 20 GB" in refusal(hub_pair, Need.DRAFT)
    tiny_tokenizer(extra=("ab",)).save_pretrained(saved_pair.draft)
    assert "must share the vocabulary of target 'owner/a'" in refusal(hub_pair, Need.DRAFT)
    assert not hub.fetched_weights


def test_a_pair_that_does_not_fit_is_refused_before_it_is_loaded(
    saved_pair: Pair, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10**6)
    message = refusal(saved_pair, Need.DRAFT)
    assert message.startswith(
        "pair 'custom' needs about 0.00 GB in float32, but 0.00 GB are free (cpu)"
    )
    assert loads == []


class Room:
    """A machine with `size` bytes of memory; loaded models use some of it."""

    def __init__(self, size: int) -> None:
        self._size = size

    def free_bytes(self, device: Any) -> int:
        held = pair_loading._store.idle(())
        return self._size - sum(thing.info.bytes for key, thing in held if key[0] == "model")


def test_unused_models_are_dropped_to_load_a_new_one(
    saved_pair: Pair, save_model: Save, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_pair(saved_pair, "cpu", needs=need(Need.DRAFT))
    other = str(save_model("llama", "other"))
    pair, demand = custom_pair(saved_pair.target, other), Demand("a", max_new_tokens=5)
    loaded = {Path(key[1]).name: thing.info.bytes for key, thing in pair_loading._store.idle(())}
    report = check_pair_sources(pair, "cpu", demand=demand)
    needed = report.bytes_needed - loaded["target"]
    room = Room(sum(loaded.values()) + needed - 1)
    monkeypatch.setattr(memory, "free_bytes", room.free_bytes)
    load_pair(pair, "cpu", needs=need(Need.DRAFT), demand=demand)
    kept = {Path(key[1]).name for key, _ in pair_loading._store.idle(())}
    assert kept == {"target", "other"}


def test_a_run_that_does_not_fit_is_refused_even_if_its_models_are_loaded(
    saved_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caches of the run and the logits of its tree do not fit."""
    load_pair(saved_pair, "cpu", needs=need(Need.DRAFT))
    held = sum(thing.info.bytes for _, thing in pair_loading._store.idle(()))
    monkeypatch.setattr(memory, "free_bytes", Room(held + 800_000).free_bytes)
    small, wide = Demand("a", max_new_tokens=5, rows=1), Demand("a", max_new_tokens=5, rows=65)
    load_pair(saved_pair, "cpu", needs=need(Need.DRAFT), demand=small)
    with pytest.raises(InputError, match="needs about"):
        load_pair(saved_pair, "cpu", needs=need(Need.DRAFT), demand=wide)


def test_nothing_is_dropped_if_the_model_would_still_not_fit(
    saved_pair: Pair, save_model: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_pair(saved_pair, "cpu", needs=need(Need.DRAFT))
    held = sum(thing.info.bytes for _, thing in pair_loading._store.idle(()))
    monkeypatch.setattr(memory, "free_bytes", Room(held + 10_000).free_bytes)
    large = save_model("llama", "large", num_hidden_layers=12)
    assert "needs about" in refusal(custom_pair(str(large), str(large)), Need.DRAFT)
    assert len(pair_loading._store.idle(())) == 2


def test_a_draft_with_different_tokens_is_refused(save_model: Save, tiny_tokenizer: Any) -> None:
    target, draft = save_model("llama", "target"), save_model("llama", "draft")
    tiny_tokenizer(extra=("ab",)).save_pretrained(target)
    tiny_tokenizer(extra=("cd",)).save_pretrained(draft)
    loaded = load_model(str(target), "cpu"), load_model(str(draft), "cpu")
    with pytest.raises(
        InputError,
        match="token 259 is 'ab' and 'cd'; choose a draft of the same "
        "family, or a method that takes drafts of another vocabulary",
    ):
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
