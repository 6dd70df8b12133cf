"""The models in assets/models work as they are shipped."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from specviz.folders import ASSETS
from specviz.training.chat_draft import load_chat_draft
from specviz.training.chat_head import load_chat_eagle
from specviz.training.corpus import PROMPTS_PER_TASK, TASKS
from specviz.training.foreign_training import meeting
from specviz.training.head_training import load_eagle, load_medusa
from specviz.training.token_files import FOREIGN_VOCABULARY, tag

ROLES = ("target", "draft", "foreign-draft")
MEMBERS = (*ROLES, "eagle", "medusa")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(ASSETS / "models" / "target")


@pytest.mark.parametrize("role", ROLES)
def test_transformers_opens_each_model_in_bfloat16(role: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(ASSETS / "models" / role, dtype="auto")
    assert model.dtype == torch.bfloat16
    assert model.config.model_type == "llama" and model.config.tie_word_embeddings
    assert model.config.head_dim == 64 and model.config.max_position_embeddings == 1024


def test_the_models_are_under_55_megabytes_and_no_file_over_9() -> None:
    sizes = {path: path.stat().st_size for path in (ASSETS / "models").rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 55e6
    assert max(sizes.values()) < 9e6


def test_the_chat_model_s_head_uses_a_part_of_its_vocabulary() -> None:
    network, drafted = load_chat_eagle(ASSETS / "models" / "smollm2-135m" / "eagle")
    assert network.config.vocab_size == 49152 and network.fc.weight.shape == (576, 1152)
    assert len(drafted) == 8192 and drafted.tolist() == sorted({*drafted.tolist()})


def test_all_drafters_of_the_chat_model_use_the_same_part() -> None:
    folder = ASSETS / "models" / "smollm2-135m"
    heads = load_medusa(folder / "medusa").heads
    assert len(heads) == 3 and heads[0].up.weight.shape == (576, 288)
    network, drafted = load_chat_draft(folder / "draft")
    assert network.model.embed_tokens.weight.shape == (8193, 192)
    for name in ("eagle", "medusa"):
        offsets = load_file(folder / name / "model.safetensors")["d2t"]
        assert torch.equal(offsets.long() + torch.arange(8192), drafted)
    accuracies = json.loads((folder / "medusa" / "config.json").read_text("utf-8"))["accuracies"]
    assert [shares[0] for shares in accuracies] == sorted(
        (shares[0] for shares in accuracies), reverse=True
    )


def test_target_and_draft_have_the_same_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    draft = AutoTokenizer.from_pretrained(ASSETS / "models" / "draft")
    assert draft.get_vocab() == tokenizer.get_vocab() and len(tokenizer) == 4096
    assert tokenizer.convert_ids_to_tokens(list(range(6))) == ["<|endoftext|>", *map(tag, TASKS)]


def test_the_foreign_vocabulary_shares_a_part_of_the_target_s(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    foreign = AutoTokenizer.from_pretrained(ASSETS / "models" / "foreign-draft")
    assert foreign.convert_ids_to_tokens(list(range(6))) == tokenizer.convert_ids_to_tokens(
        list(range(6))
    )
    shared = meeting(tokenizer, foreign).shape[1]
    assert len(foreign) == FOREIGN_VOCABULARY and 1000 < shared < len(foreign) - 100


def test_the_eagle_head_fits_the_target() -> None:
    weights = load_file(ASSETS / "models" / "eagle" / "model.safetensors")
    assert weights["fc.weight"].shape == (256, 512)
    assert all(weight.dtype == torch.bfloat16 for weight in weights.values())
    assert load_eagle(ASSETS / "models" / "eagle").config.vocab_size == 4096


def test_the_medusa_heads_fit_the_target_and_their_accuracies_fall_with_rank_and_head() -> None:
    folder = ASSETS / "models" / "medusa"
    heads = load_medusa(folder).heads
    assert len(heads) == 4 and heads[0].up.weight.shape == (256, 256)
    accuracies = json.loads((folder / "config.json").read_text("utf-8"))["accuracies"]
    assert [len(shares) for shares in accuracies] == [10] * 4
    assert all(sum(shares) <= 1 and shares[0] == max(shares) for shares in accuracies)
    assert [shares[0] for shares in accuracies] == sorted(
        (shares[0] for shares in accuracies), reverse=True
    )


def test_the_target_s_files_name_an_exit_layer_and_layers_to_leave_out() -> None:
    ways = json.loads((ASSETS / "models" / "target" / "self_drafting.json").read_text("utf-8"))
    assert ways["exit_layer"] in range(1, 12) and set(ways["skipped_layers"]) < set(range(12))


@pytest.mark.parametrize("role", MEMBERS)
def test_a_card_has_a_row_for_every_task(role: str) -> None:
    card = (ASSETS / "models" / role / "README.md").read_text("utf-8")
    assert all(f"| {task} | " in card for task in TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_prompts_have_no_extra_white_space(tokenizer: PreTrainedTokenizerFast, task: str) -> None:
    prompts = json.loads((ASSETS / "prompts.json").read_text("utf-8"))[task]
    assert len(prompts) == len(set(prompts)) == PROMPTS_PER_TASK
    for prompt in prompts:
        assert prompt == prompt.strip() and not prompt.startswith("<|")
        assert 20 <= len(tokenizer(prompt)["input_ids"]) <= 150


@torch.no_grad()
def test_the_target_has_learnt_the_language_of_stories(tokenizer: PreTrainedTokenizerFast) -> None:
    model = AutoModelForCausalLM.from_pretrained(ASSETS / "models" / "target", dtype=torch.float32)
    text = (
        "<|story|>The old man looked at the children, and then he said that it was time to go home."
    )
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    assert model(ids, labels=ids).loss < 4.5
