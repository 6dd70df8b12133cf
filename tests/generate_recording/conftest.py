"""A tiny target and an almost equal draft, as transformers loads them."""

import copy

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.generate_recording.watched_call import TOKENIZER


def random_module():
    """Return a model of two random layers; each of its distributions has a clear maximum."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        initializer_range=0.25,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Save a target and an almost equal draft; return both folders."""
    target = random_module()
    draft = copy.deepcopy(target)
    with torch.no_grad():
        for weight in draft.lm_head.parameters():
            weight += 0.06 * torch.randn(weight.shape)
    made = {}
    for name, each in (("target", target), ("draft", draft)):
        made[name] = tmp_path_factory.mktemp(name)
        each.save_pretrained(made[name])
    return made


@pytest.fixture
def target(folders):
    return LlamaForCausalLM.from_pretrained(folders["target"])


@pytest.fixture
def draft(folders):
    model = LlamaForCausalLM.from_pretrained(folders["draft"])
    model.generation_config.num_assistant_tokens = 4
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.generation_config.assistant_confidence_threshold = 0.0
    return model
