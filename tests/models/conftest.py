"""Fixtures that build tiny models of every supported family, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import (
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    OPTConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from specviz.models.library_model import attention_of
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.pair_catalog import Pair, custom_pair
from specviz.records import ModelInfo
from tests.models.hub_stub import HubStub, install

torch.set_num_threads(1)  # with tiny tensors, more threads would only wait for each other

VOCAB = 61

_ROTARY = dict(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    max_position_embeddings=128,
)
_GROUPED = {**_ROTARY, "num_key_value_heads": 2}
WINDOW = 4  # sliding window of some families; shorter than every prompt and every deep tree
_MIXED: dict[str, Any] = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
_LLAMA3_BANDS = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def family_config(family: str) -> PretrainedConfig:
    match family:
        case "llama":
            return LlamaConfig(**_ROTARY, tie_word_embeddings=True)
        case "llama-grouped":
            return LlamaConfig(**_GROUPED)
        case "llama-biased":
            return LlamaConfig(**_GROUPED, attention_bias=True, mlp_bias=True)
        case "llama3":
            rope = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0} | _LLAMA3_BANDS
            return LlamaConfig(**_GROUPED, head_dim=16, rope_parameters=rope)
        case "mixtral":
            return MixtralConfig(**_GROUPED, sliding_window=None, num_local_experts=4)
        case "mistral":
            return MistralConfig(**_GROUPED, sliding_window=None, head_dim=16)
        case "qwen2":
            return Qwen2Config(**_GROUPED)
        case "qwen3":
            return Qwen3Config(**_GROUPED, head_dim=16)
        case "mistral-sliding":
            return MistralConfig(**_GROUPED, sliding_window=WINDOW, head_dim=16)
        case "qwen3-sliding":
            return Qwen3Config(**_GROUPED, **_MIXED, head_dim=16, use_sliding_window=True)
        case "gemma3":
            return Gemma3TextConfig(**_GROUPED, **_MIXED, head_dim=16, query_pre_attn_scalar=16)
        case "gpt-oss":
            experts = dict(num_local_experts=4, num_experts_per_tok=2)
            return GptOssConfig(**_GROUPED, **_MIXED, **experts, head_dim=16)
        case "gpt2":
            return GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=128)
        case "opt":
            return OPTConfig(
                vocab_size=VOCAB,
                hidden_size=32,
                ffn_dim=48,
                num_hidden_layers=3,
                num_attention_heads=4,
                max_position_embeddings=128,
                word_embed_proj_dim=32,
            )
        case "gpt-neox":
            return GPTNeoXConfig(**_ROTARY)
    raise AssertionError(family)


def build_module(family: str, config: PretrainedConfig | None = None) -> PreTrainedModel:
    """Return a model with random weights that are large enough to distinguish tokens.

    Biases and norms are random as well.
    """
    torch.manual_seed(0)
    config = config or family_config(family)
    module = AutoModelForCausalLM.from_config(
        config, attn_implementation=attention_of(config), dtype=torch.float32
    )
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.3)
            elif name.endswith("bias"):
                weight.normal_(std=0.1)
            else:
                weight.uniform_(0.5, 1.5)
    return module.eval()


def describe(module: PreTrainedModel, vocab_size: int = VOCAB) -> ModelInfo:
    weights = list(module.parameters())
    return ModelInfo(
        name="tiny",
        architecture=type(module).__name__,
        parameters=sum(weight.numel() for weight in weights),
        bytes=sum(weight.nbytes for weight in weights),
        layers=module.config.num_hidden_layers,
        hidden_size=module.config.hidden_size,
        vocab_size=vocab_size,
        context_length=module.config.max_position_embeddings,
    )


@pytest.fixture(scope="session")
def tiny_module() -> Callable[..., PreTrainedModel]:
    return build_module


@pytest.fixture(scope="session")
def tiny_info() -> Callable[..., ModelInfo]:
    return describe


@pytest.fixture
def target() -> LlamaModel:
    module = build_module("llama")
    return LlamaModel(module, describe(module))


SPECIAL = ("<|endoftext|>", "<|code|>", "<|story|>")


def build_tokenizer(extra: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer.

    Its tokens are three control tokens, the 256 bytes and the merged tokens `extra`.
    """
    pieces = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *extra]
    backend = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL))
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=SPECIAL[0])


SAVED_VOCAB = 300  # larger than the tokenizer's vocabulary of 259


@pytest.fixture
def save_model(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that saves a random model with its tokenizer in a temporary folder."""

    def save(family: str = "llama", name: str = "model", **changes: Any) -> Path:
        config = family_config(family)
        config.vocab_size = SAVED_VOCAB
        for key, value in changes.items():
            setattr(config, key, value)
        folder = tmp_path / name
        build_module(family, config).save_pretrained(folder)
        build_tokenizer().save_pretrained(folder)
        return folder

    return save


@pytest.fixture
def saved_pair(save_model: Callable[..., Path]) -> Pair:
    """Return a pair: the target runs in our own layer loop, the draft in transformers."""
    target, draft = save_model("llama", "target"), save_model("gpt2", "draft")
    return custom_pair(str(target), str(draft))


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Callable[..., PreTrainedTokenizerFast]:
    return build_tokenizer


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HubStub:
    """Replace the client of the Hugging Face Hub by a stub and return the stub."""
    return install(monkeypatch, tmp_path)
