"""A draft model with only a part of its target's vocabulary loads and drafts with its target."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.errors import InputError
from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.files.loading import load_model
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.pair_catalog import custom_pair
from specviz.models.pair_check import check_pair_sources
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import Relation, fingerprint
from tests.models.conftest import build_tokenizer

Save = Callable[..., Path]
IDS = [7, 3, 200, 40]  # the draft's vocabulary: four of the tokenizer's 259 tokens
DRAFT = frozenset({Need.DRAFT})


@pytest.fixture
def save_draft(save_model: Save) -> Save:
    """Return a function that saves a draft with few tokens for the tests' tokenizer."""

    def save(offsets: torch.Tensor | None = None, **config: Any) -> Path:
        folder = save_model("llama", "draft", vocab_size=len(IDS) + 1)
        for file in folder.glob("*token*"):
            file.unlink()
        content = json.loads((folder / "config.json").read_text("utf-8"))
        made_for = fingerprint(TextCodec(build_tokenizer(), 259, ()))
        content |= {"draft_vocab_size": len(IDS), "tokenizer_fingerprint": made_for} | config
        (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
        table = torch.tensor(IDS) - torch.arange(len(IDS)) if offsets is None else offsets
        weights = load_file(folder / "model.safetensors") | {"d2t": table}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return save


def test_a_draft_names_its_tokens_and_treats_all_others_alike(
    tiny_module: Any, tiny_info: Any
) -> None:
    module = tiny_module("llama")
    narrow = LlamaModel(module, tiny_info(module))
    # The draft has rows for 60 tokens, and one more row for all other tokens.
    ids = torch.randperm(200)[:60]
    wide = narrow.with_vocabulary(DraftVocabulary(ids, 200))
    others = [token for token in range(200) if token not in ids]
    tokens = [int(ids[4]), others[0], int(ids[9])]
    twin = [int(ids[4]), others[1], int(ids[9])]

    def logits(model: LlamaModel, token_ids: list[int]) -> torch.Tensor:
        positions = torch.arange(len(token_ids))[None]
        given = torch.tensor([token_ids])
        return model.forward(given, positions, model.new_cache(8)).logits[0]

    found, expected = logits(wide, tokens), logits(narrow, [4, 60, 9])
    assert wide.info.vocab_size == found.shape[1] == 200
    assert torch.equal(found[:, ids], expected[:, :60])
    assert (found[:, others] == -torch.inf).all()
    assert torch.equal(found, logits(wide, twin))
    assert logits(narrow, [1]).shape == (1, 61)


@pytest.mark.usefixtures("empty_memory")
def test_a_draft_works_with_the_tokenizer_that_it_was_trained_for(
    save_model: Save, save_draft: Save
) -> None:
    pair = custom_pair(str(save_model("llama", "target")), str(save_draft()))
    report = check_pair_sources(pair, "cpu", needs=DRAFT)
    assert report.problems == () and report.vocabulary is Relation.EQUAL
    loaded = load_pair(pair, "cpu", needs=DRAFT)
    draft = loaded.parts.draft
    assert draft is not None
    assert draft.info.vocab_size == loaded.target.info.vocab_size == 259
    zero = torch.zeros(1, 1, dtype=torch.int64)
    logits = draft.forward(zero, zero, draft.new_cache(4)).logits
    assert logits.isfinite().nonzero()[:, -1].tolist() == sorted(IDS)


def test_a_draft_is_refused_as_a_target_and_for_another_tokenizer(
    save_model: Save, save_draft: Save
) -> None:
    folder, target = str(save_draft()), save_model("llama", "target")
    expected = "it can only be the draft of a target with the tokenizer that it was trained with"
    with pytest.raises(InputError, match=expected):
        load_model(folder, "cpu")
    build_tokenizer(("ab",)).save_pretrained(target)
    with pytest.raises(InputError, match=expected):
        check_pair_sources(custom_pair(str(target), folder), "cpu", needs=DRAFT)


@pytest.mark.parametrize(
    ("offsets", "config", "problem"),
    [
        (torch.zeros(3, dtype=torch.int64), {}, "must have the tensor d2t with 4 whole numbers"),
        (torch.zeros(4), {}, "must have the tensor d2t with 4 whole numbers"),
        (torch.tensor([5, 4, 0, 0]), {}, "must have 4 different token ids below 259 in d2t"),
        (None, {"draft_vocab_size": 5}, "must have a draft_vocab_size from 1 to 4, got 5"),
        (None, {"draft_vocab_size": "4"}, "must have a draft_vocab_size from 1 to 4, got '4'"),
    ],
)
@pytest.mark.usefixtures("empty_memory")
def test_a_folder_whose_files_contradict_each_other_is_refused_in_one_line(
    save_model: Save,
    save_draft: Save,
    offsets: torch.Tensor | None,
    config: dict[str, Any],
    problem: str,
) -> None:
    pair = custom_pair(str(save_model("llama", "target")), str(save_draft(offsets, **config)))
    with pytest.raises(InputError, match=problem) as caught:
        load_pair(pair, "cpu", needs=DRAFT)
    assert "\n" not in str(caught.value)
