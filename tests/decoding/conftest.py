"""Tiny random models over a dozen tokens; target and draft are peaked, so that they disagree."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from specviz.decoding.ahead.executor import InLine
from specviz.decoding.drafters import pre_speculation
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.target import cache_capacity
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.records import ModelInfo
from tests.decoding.tiny_parts import parts_for

VOCAB = 12
CONTEXT = 144  # largest number of tokens in a text; it is so small that some runs reach it


def tiny_model(seed, layers, name, vocab=VOCAB, sharpness=0.25, kind=LlamaModel):
    """Return a tiny model of the class `kind`, which by default is the app's own model class."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=CONTEXT,
        initializer_range=sharpness,
        tie_word_embeddings=False,
        attn_implementation="sdpa",
    )
    module = LlamaForCausalLM(config)
    weights = sum(weight.numel() for weight in module.parameters())
    info = ModelInfo(name, "LlamaForCausalLM", weights, 4 * weights, layers, 32, vocab, CONTEXT)
    return kind(module, info)


def learned_positions():
    """Return a model with learned positions, which cannot run tokens beyond its context."""
    torch.manual_seed(3)
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=256, n_embd=32, n_layer=1, n_head=2, bos_token_id=0
    )
    config.eos_token_id = 0
    module = GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
    info = ModelInfo("gpt2 draft", "GPT2LMHeadModel", 1, 4, 1, 32, VOCAB, 256)
    return LibraryModel(module, info)


IN_A_PROCESS = ("test_pre_speculation", "test_draft_worker")


@pytest.fixture(autouse=True)
def drafting_ahead_in_line(request, monkeypatch):
    """Let methods that draft ahead do so in this process while the device is a CPU.

    Starting a process for each tiny draft would take seconds. The tests in IN_A_PROCESS start such
    processes and show that runs with them have the same rounds.
    """
    if not request.module.__name__.endswith(IN_A_PROCESS):
        chosen = pre_speculation.executor_for

        def in_line(model, setting):
            return (chosen if model.device.type == "cuda" else InLine)(model, setting)

        monkeypatch.setattr(pre_speculation, "executor_for", in_line)


@pytest.fixture(scope="session")
def target():
    return tiny_model(1, 3, "tiny target")


@pytest.fixture(scope="session")
def draft():
    return tiny_model(2, 1, "tiny draft")


@pytest.fixture(scope="session")
def parts(target, draft):
    return parts_for(target, draft)


@pytest.fixture
def drafter_for(target, parts):
    """Return a function (config, prompt) -> drafter, which uses the registry of methods."""

    def make(config, prompt_ids):
        return make_drafter(Setup(target, parts, config, cache_capacity(prompt_ids, config)))

    return make
