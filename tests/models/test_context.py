"""The context ends at the length after which a forward pass would use other rotary angles."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, Phi3Config

from specviz.errors import InputError
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.files.context import context_of
from specviz.models.files.tree_check import checked_model
from specviz.models.library_model import LibraryModel
from specviz.models.pair_catalog import custom_pair
from specviz.models.pair_check import check_pair_sources
from specviz.records import BASELINE, SPECULATIVE, DecodingConfig
from tests.models.conftest import build_module, build_tokenizer, describe, family_config

pytestmark = pytest.mark.usefixtures("empty_memory")

Save = Callable[..., Path]
FIRST_LENGTH = 24
LONG_ROPE: dict[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [1.0, 1.9, 3.1, 5.3],
    "factor": 8.0,
    "original_max_position_embeddings": FIRST_LENGTH,
}
SIZES: dict[str, Any] = dict(
    vocab_size=300,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=96,
    bos_token_id=0,
    eos_token_id=0,
    pad_token_id=0,
)
CLASSES = {"llama": LlamaConfig, "phi3": Phi3Config}


@pytest.fixture(params=CLASSES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind = CLASSES[request.param]
    own = {"original_max_position_embeddings": FIRST_LENGTH} if kind is Phi3Config else {}
    config = kind(**SIZES, **own, rope_parameters=copy.deepcopy(LONG_ROPE))
    build_module("", config).save_pretrained(tmp_path)
    build_tokenizer().save_pretrained(tmp_path)
    return str(tmp_path)


def race(folder: str, tokens: int, prompt: str = "ab ab ab") -> Any:
    config = DecodingConfig(
        method="draft-model", draft_length=4, temperature=0, max_new_tokens=tokens
    )
    return start_race(RaceRequest(custom_pair(folder, folder), prompt, config, device="cpu"))


def test_texts_are_exact_up_to_the_length_at_which_longrope_changes(folder: str) -> None:
    found = race(folder, FIRST_LENGTH - 8)
    for lane in (BASELINE, SPECULATIVE):
        for _ in found.run_lane(lane):
            pass
    assert len(found.header.prompt_ids) == 8
    assert len(found.emitted_ids(BASELINE)) > 8
    assert found.emitted_ids(SPECULATIVE) == found.emitted_ids(BASELINE)


@pytest.mark.parametrize("tokens", [FIRST_LENGTH - 7, 60])
def test_a_text_beyond_that_length_is_refused_with_the_reason(folder: str, tokens: int) -> None:
    with pytest.raises(InputError, match="beyond 24 tokens LongRoPE changes the angles"):
        race(folder, tokens)


def test_the_check_reports_the_limit_before_the_weights_are_downloaded(folder: str) -> None:
    report = check_pair_sources(custom_pair(folder), "cpu", needs=frozenset())
    assert any("beyond 24 tokens LongRoPE" in each for each in report.warnings)


def test_a_model_without_such_positions_keeps_its_context() -> None:
    assert context_of("model", family_config("llama3")).length == 128
    assert context_of("model", family_config("llama3")).reason == ""


@pytest.mark.parametrize("length", ["long", 0.5, -3])
def test_a_length_that_is_no_whole_number_is_refused(length: Any) -> None:
    config = family_config("llama")
    config.rope_parameters = LONG_ROPE | {"original_max_position_embeddings": length}
    with pytest.raises(InputError, match="must have original_max_position_embeddings >= 1"):
        context_of("model", config)


def test_a_model_whose_angles_depend_on_the_longest_position_is_refused() -> None:
    """Trial forwards detect such a model, even if its configuration does not say so."""
    module = build_module("gpt-neox")
    rotary = module.gpt_neox.rotary_emb
    usual = rotary.forward

    def forward(x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        return usual(x, position_ids * (2 if position_ids.max() > 40 else 1))

    rotary.forward = forward
    model = LibraryModel(module, describe(module))
    with pytest.raises(InputError, match="differently when the same forward pass also reads later"):
        checked_model(model, lambda: model)
