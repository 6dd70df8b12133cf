"""The models in assets/models, as they are shipped."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from specviz.training.corpus import TASKS
from specviz.training.prompts import PROMPTS_PER_TASK
from specviz.training.tokenizer import tag

ASSETS = Path(__file__).parents[2] / "assets"
ROLES = ("target", "draft")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(ASSETS / "models" / "target")


@pytest.mark.parametrize("role", ROLES)
def test_the_library_opens_it_in_bfloat16(role: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(ASSETS / "models" / role, dtype="auto")
    assert model.dtype == torch.bfloat16
    assert model.config.model_type == "llama" and model.config.tie_word_embeddings
    assert model.config.head_dim == 64 and model.config.max_position_embeddings == 1024


@pytest.mark.parametrize("role", ROLES)
def test_every_file_is_under_10_megabytes(role: str) -> None:
    for path in (ASSETS / "models" / role).iterdir():
        assert path.stat().st_size < 10_000_000, path.name


def test_the_target_is_under_34_megabytes() -> None:
    assert sum(path.stat().st_size for path in (ASSETS / "models" / "target").iterdir()) < 34e6


def test_both_models_have_one_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    draft = AutoTokenizer.from_pretrained(ASSETS / "models" / "draft")
    assert draft.get_vocab() == tokenizer.get_vocab() and len(tokenizer) == 4096
    assert tokenizer.convert_ids_to_tokens(list(range(6))) == ["<|endoftext|>", *map(tag, TASKS)]


@pytest.mark.parametrize("role", ROLES)
def test_a_card_names_a_loss_for_every_task(role: str) -> None:
    card = (ASSETS / "models" / role / "README.md").read_text("utf-8")
    assert all(f"| {task} | " in card for task in TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_prompts_are_tidy(tokenizer: PreTrainedTokenizerFast, task: str) -> None:
    prompts = json.loads((ASSETS / "prompts.json").read_text("utf-8"))[task]
    assert len(prompts) == len(set(prompts)) == PROMPTS_PER_TASK
    for prompt in prompts:
        assert prompt == prompt.strip() and not prompt.startswith("<|")
        assert 20 <= len(tokenizer(prompt)["input_ids"]) <= 150


@torch.no_grad()
def test_the_target_is_no_stranger_to_a_story(tokenizer: PreTrainedTokenizerFast) -> None:
    model = AutoModelForCausalLM.from_pretrained(ASSETS / "models" / "target", dtype=torch.float32)
    text = (
        "<|story|>The old man looked at the children, and then he said that it was time to go home."
    )
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    assert model(ids, labels=ids).loss < 4.5
