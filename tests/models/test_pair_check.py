"""A pair is checked before its weights are downloaded: vocabularies, memory, licences, dtype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import errors
from transformers import AutoTokenizer

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models import memory, pair_check
from specviz.models.files.survey import survey_pair_of
from specviz.models.memory_estimate import Demand
from specviz.models.pair_catalog import custom_pair, pair_named
from specviz.models.pair_check import PairReport, check_pair_sources, draft_bytes
from specviz.models.parts import Need
from specviz.models.text.vocabulary import Relation
from tests.models.hub_stub import HubStub, answer

Save = Callable[..., Path]
CHAT = "{% for turn in messages %}{{ turn.content }}<|endoftext|>{% endfor %}"


def give_tokens(folder: Path, *pieces: str, tiny_tokenizer: Any) -> None:
    tiny_tokenizer(extra=pieces).save_pretrained(folder)


def give_chat(folder: Path, template: str = CHAT) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)


@pytest.fixture
def folders(save_model: Save) -> tuple[Path, Path]:
    return save_model("llama", "target"), save_model("gpt2", "draft", num_hidden_layers=1)


def report(folders: tuple[Path, Path], *needs: Need, dtype: str = "float32") -> PairReport:
    pair = custom_pair(*map(str, folders))
    return check_pair_sources(pair, "cpu", dtype, frozenset(needs or {Need.DRAFT}))


def test_a_plain_pair_has_no_problem(folders: tuple[Path, Path]) -> None:
    found = report(folders)
    assert (found.problems, found.warnings) == ((), ())
    assert (found.vocabulary, found.shared_tokens) == (Relation.EQUAL, 1)
    assert (found.device, found.dtype, found.instruct, found.gated) == (
        "cpu",
        "float32",
        False,
        False,
    )
    assert found.download_bytes == 0


def test_the_memory_is_that_of_the_needed_weights_and_caches(folders: tuple[Path, Path]) -> None:
    target, both = report(folders, Need.LAYERS), report(folders)
    assert target.vocabulary is None
    assert target.shared_tokens is None
    assert both.memory.weights > target.memory.weights
    assert both.memory.caches > target.memory.caches
    # Weights in float16 have no packed copies.
    half = report(folders, dtype="float16").memory
    assert 2 * half.caches == both.memory.caches and 2 * half.weights <= both.memory.weights


def test_the_prompt_the_output_and_the_tree_are_counted(folders: tuple[Path, Path]) -> None:
    """The page makes this check with the request of a run, before it loads any model."""

    def needed(**changes: Any) -> PairReport:
        demand = Demand(**({"prompt": "ab", "max_new_tokens": 20} | changes))
        return check_pair_sources(custom_pair(*map(str, folders)), "cpu", demand=demand)

    short = needed()
    longer, wider = needed(prompt="ab" * 40), needed(rows=65, max_new_tokens=20)
    # Both lanes have a cache of the target, and one lane has a cache of the draft.
    per_token = 4 * (2 * (2 * 3 * 32) + 2 * 1 * 32)
    assert longer.memory.caches - short.memory.caches == 78 * per_token
    assert needed(max_new_tokens=30).memory.caches - short.memory.caches == 10 * per_token
    assert wider.memory.work > short.memory.work
    assert wider.bytes_needed - short.bytes_needed == wider.memory.work - short.memory.work
    assert short.memory.unknown == ()


def test_an_unknown_prompt_counts_as_the_longest_possible_one(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:

    def checked() -> PairReport:
        demand = Demand(max_new_tokens=5)
        return check_pair_sources(custom_pair(*map(str, folders)), "cpu", demand=demand)

    found = checked()
    (unknown,) = found.memory.unknown
    assert unknown.startswith("the prompt's length (counted:")
    monkeypatch.setattr(memory, "free_bytes", lambda device: found.bytes_needed - 1)
    # With one byte less than needed, only a prompt that fills the context does not fit. So the
    # check warns but refuses nothing.
    tight = checked()
    assert tight.problems == ()
    assert tight.warnings[0].startswith("a prompt that fills the context does not fit")


def test_padding_is_distinguished_from_different_tokens(save_model: Save) -> None:
    padded = save_model("llama", "target"), save_model("llama", "draft", vocab_size=270)
    found = report(padded)
    assert (found.vocabulary, found.problems) == (Relation.PADDED, ())


def test_different_tokens_are_a_problem_for_a_draft_model_and_a_solution_is_named(
    folders: tuple[Path, Path], tiny_tokenizer: Any
) -> None:
    give_tokens(folders[0], "ab", "xy", tiny_tokenizer=tiny_tokenizer)
    give_tokens(folders[1], "cd", tiny_tokenizer=tiny_tokenizer)
    found = report(folders)
    assert found.vocabulary is Relation.DIFFERENT
    assert found.shared_tokens == 256 / 261
    (problem,) = found.problems
    assert "token 259 is 'ab' and 'cd'" in problem
    assert "a method that takes drafts of another vocabulary" in problem


def test_for_a_draft_with_its_own_vocabulary_different_tokens_are_no_problem(
    folders: tuple[Path, Path], tiny_tokenizer: Any
) -> None:
    give_tokens(folders[1], "cd", tiny_tokenizer=tiny_tokenizer)
    found = report(folders, Need.FOREIGN_DRAFT)
    assert (found.vocabulary, found.problems) == (Relation.DIFFERENT, ())


def test_for_a_pair_that_does_not_fit_both_sizes_are_named(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10**6)
    found = report(folders)
    assert found.bytes_free == 10**6
    (problem,) = found.problems
    assert problem.startswith("pair 'custom' needs about 0.00 GB in float32, but 0.00 GB are free")


def test_a_need_that_the_pair_lacks_is_a_problem(folders: tuple[Path, Path]) -> None:
    assert "has no Medusa heads" in report(folders, Need.MEDUSA).problems[0]


def test_a_head_that_is_missing_or_made_for_another_target_is_a_problem(
    folders: tuple[Path, Path],
) -> None:
    pair = replace(custom_pair(*map(str, folders)), eagle=pair_named("bundled").eagle)
    needs = frozenset({Need.EAGLE})
    (problem,) = check_pair_sources(pair, "cpu", needs=needs).problems
    assert "EAGLE head in " in problem and "must have hidden_size 32 like" in problem
    assert "got 256" in problem
    (problem,) = check_pair_sources(replace(pair, eagle="/nowhere"), "cpu", needs=needs).problems
    assert problem.endswith("must be a model folder, a GGUF file or a Hub id, got '/nowhere'")
    good = check_pair_sources(pair_named("bundled"), "cpu", needs=needs | {Need.MEDUSA})
    assert good.problems == ()


def test_a_machine_that_reports_no_memory_is_assumed_to_have_enough(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    found = report(folders)
    assert (found.bytes_free, found.problems) == (None, ())


def test_instruct_models_are_named_and_mixing_them_with_base_models_gives_a_warning(
    folders: tuple[Path, Path],
) -> None:
    give_chat(folders[0])
    mixed = report(folders)
    assert mixed.instruct
    assert mixed.warnings == (
        "the target is an instruct model and the draft a base model: expect fewer accepted tokens",
    )
    give_chat(folders[1])
    assert report(folders).warnings == ()


def test_a_chat_template_that_fails_gives_a_warning(folders: tuple[Path, Path]) -> None:
    give_chat(folders[0], "{% if %}")
    found = report(folders)
    assert not found.instruct
    assert found.problems == ()
    assert found.warnings == (
        f"the chat template of model {str(folders[0])!r} fails (Expected an expression, got 'end "
        "of statement block'), so the model runs as a base model and a prompt is plain text",
    )


def test_only_the_target_s_chat_template_matters_for_the_warning(
    folders: tuple[Path, Path],
) -> None:
    """The draft reads the tokens that the target's tokenizer made."""
    give_chat(folders[1], "{% if %}")
    assert report(folders).warnings == ()


def test_a_draft_as_large_as_its_target_gives_a_warning(save_model: Save) -> None:
    same = save_model("llama", "target"), save_model("llama", "draft")
    assert report(same).warnings == (
        "the draft is not smaller than the target, so it cannot speed it up",
    )


def test_float16_on_a_cpu_gives_a_warning(folders: tuple[Path, Path]) -> None:
    assert report(folders, dtype="float16").warnings[0].startswith("float16 is slow on a CPU")


def test_models_on_the_hub_are_checked_without_their_weights(
    folders: tuple[Path, Path], hub: HubStub
) -> None:
    hub.folders, hub.is_gated = {"owner/target": folders[0], "owner/draft": folders[1]}, True
    for folder in folders:
        (folder / "model.safetensors").unlink()
    found = check_pair_sources(custom_pair("owner/target", "owner/draft"), "cpu")
    assert (found.problems, found.gated, found.download_bytes) == ((), True, 2 * 10**9)
    assert not hub.fetched_weights


def test_a_download_above_the_limit_is_a_problem(folders: tuple[Path, Path], hub: HubStub) -> None:
    hub.folders = {"owner/target": folders[0], "owner/draft": folders[1]}
    hub.files = [("model.safetensors", 30 * 10**9)]
    found = check_pair_sources(custom_pair("owner/target", "owner/draft"), "cpu")
    assert "model 'owner/target' must be at most 20 GB" in found.problems[0]


def test_a_source_that_cannot_be_read_is_refused(hub: HubStub) -> None:
    hub.failure = errors.GatedRepoError("gated", response=answer(403))
    with pytest.raises(InputError, match="model 'owner/target' is gated: accept its terms"):
        check_pair_sources(custom_pair("owner/target", "owner/draft"), "cpu")


def test_a_model_in_two_roles_is_examined_once(
    save_model: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    look = pair_check.survey_model
    monkeypatch.setattr(
        pair_check, "survey_model", lambda source, *rest: seen.append(source) or look(source, *rest)
    )
    folder = str(save_model())
    found = report((Path(folder), Path(folder)), Need.DRAFT, Need.FOREIGN_DRAFT)
    assert seen == [folder]
    alone = report((Path(folder), Path(folder)), Need.TEXT)
    assert found.bytes_needed == alone.bytes_needed


def test_headers_give_the_same_memory_of_a_draft_as_the_model_itself() -> None:
    pair = pair_named("bundled")
    _, surveyed = survey_pair_of(pair.target, pair.draft, Environment.read())
    for dtype in (torch.float32, torch.bfloat16):
        assert draft_bytes(pair, dtype) == surveyed.size(dtype).held(is_on_cpu=True) > 0
    assert draft_bytes(replace(pair, draft="/nowhere"), torch.float32) is None
