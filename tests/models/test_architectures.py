"""Small models of every preset's architecture load as a pair and decode as transformers does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.pair_catalog import PRESETS, Pair, custom_pair
from specviz.models.pair_loading import load_pair
from specviz.records import SPECULATIVE, DecodingConfig

pytestmark = pytest.mark.usefixtures("empty_memory")

Save = Callable[..., Path]
TOKENS = 24
# Architecture of a preset -> the architectures of its target and of its draft.
ARCHITECTURES = {
    "llama3": ("llama3", "llama3"),
    "mixtral": ("mixtral", "mistral"),
    "qwen2": ("qwen2", "qwen2"),
    "qwen3": ("qwen3", "qwen3"),
    "gpt2": ("gpt2", "gpt2"),
    "gpt-neox": ("gpt-neox", "gpt-neox"),
    "smollm2-360m": ("llama", "llama"),
    "mistral-sliding": ("mistral-sliding", "mistral"),
    "qwen3-sliding": ("qwen3-sliding", "qwen3"),
    "gemma3": ("gemma3", "gemma3"),
    "gpt-oss": ("gpt-oss", "gpt-oss"),
}
CHAT = (
    "{% for turn in messages %}<|story|>{{ turn.role }}\n{{ turn.content }}<|endoftext|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|story|>assistant\n{% endif %}"
)


@pytest.fixture(params=ARCHITECTURES)
def pair(request: pytest.FixtureRequest, save_model: Save) -> Pair:
    """Return a pair whose models have different weights and differently padded vocabularies."""
    target, draft = ARCHITECTURES[request.param]
    folders = save_model(target, "target"), save_model(draft, "draft", vocab_size=280)
    return custom_pair(*map(str, folders))


def raced(pair: Pair, prompt: str, method: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the token ids of the prompt and of the speculative lane's output, at temperature 0."""
    config = DecodingConfig(method=method, max_new_tokens=TOKENS, draft_length=3, temperature=0)
    race = start_race(RaceRequest(pair, prompt, config, device="cpu"))
    for _ in race.run_lane(SPECULATIVE):
        pass
    return race.header.prompt_ids, race.emitted_ids(SPECULATIVE)


def generated(folder: str, prompt_ids: tuple[int, ...]) -> tuple[int, ...]:
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([prompt_ids])
    whole = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=TOKENS,
        eos_token_id=0,
        pad_token_id=0,
        # `generate` must not choose ids that only pad the vocabulary, because they have no text
        suppress_tokens=list(range(259, model.config.vocab_size)),
    )
    return tuple(whole[0, len(prompt_ids) :].tolist())


# These tests compare whole texts. test_tree_forward.py compares the logits of every node of a tree.
@pytest.mark.parametrize(
    "method", ["draft-model", pytest.param("draft-tree", marks=pytest.mark.slow)]
)
def test_a_pair_writes_what_transformers_generates(pair: Pair, method: str) -> None:
    prompt_ids, output_ids = raced(pair, "Once upon a time, ", method)
    assert output_ids == generated(pair.target, prompt_ids)


@pytest.mark.parametrize("pair", ["llama3", "gemma3"], indirect=True)
def test_instruct_models_get_the_prompt_in_their_chat_template(pair: Pair) -> None:
    for folder in (pair.target, pair.draft):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.chat_template = CHAT
        tokenizer.save_pretrained(folder)
    prompt_ids, output_ids = raced(pair, "Why?", "draft-model")
    expected = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Why?"}], add_generation_prompt=True
    )
    assert list(prompt_ids) == list(expected["input_ids"])
    assert output_ids == generated(pair.target, prompt_ids)


def test_every_preset_s_architecture_is_tested_here() -> None:
    kinds = {"gpt_neox": "gpt-neox", "llama": "smollm2-360m"}
    assert {kinds.get(each.model_type, each.model_type) for each in PRESETS} <= set(ARCHITECTURES)


@pytest.mark.parametrize(
    ("family", "path"), [("mixtral", LibraryModel), ("llama3", LlamaModel), ("mistral", LlamaModel)]
)
def test_a_mixture_of_experts_runs_in_transformers(
    save_model: Save, family: str, path: type[Any]
) -> None:
    folder = str(save_model(family))
    assert isinstance(load_pair(custom_pair(folder, folder), "cpu").target, path)
