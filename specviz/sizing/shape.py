"""Of what shape a model is, and what follows: parameters, bytes of weights and cache, arithmetic.

Presets of published models are in models.toml; any other is a configuration of transformers.
Norms and biases are left out: together less than half a percent.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from specviz.errors import InputError, short, whole_between
from specviz.theory import touched_experts

# bits of a stored weight. int4 and q4_0: groups of 32 with a 16-bit scale, q8_0 likewise; q4_k_m:
# the mean of an 8 B model by llama.cpp's table. All but fp8 compute in 16 bits.
PRECISIONS = {
    "bf16": 16.0,
    "fp32": 32.0,
    "fp8": 8.0,
    "int8": 8.0,
    "int4": 4.5,
    "q8_0": 8.5,
    "q4_0": 4.5,
    "q4_k_m": 4.89,
}
EAGLE, N_GRAM = "eagle", "n-gram"  # drafts that are no model of their own
PADDING = 128  # tokens by which models of one tokenizer differ; llama.cpp allows as many
_FILE = Path(__file__).with_name("models.toml")


def bytes_of(precision: str) -> float:
    """Bytes of a weight, on average.

    >>> bytes_of("bf16"), bytes_of("int4")
    (2.0, 0.5625)
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    return PRECISIONS[precision] / 8


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameters that a forward reads: those of every forward, and those of its tokens' experts.

    `in_experts` counts all experts of all layers, of which a token uses `active` in `experts`.
    """

    always: float
    in_experts: float = 0.0
    experts: int = 1
    active: int = 1

    def read(self, tokens: int) -> float:
        """By a forward over `tokens` tokens of all sequences.

        >>> round(Weights(1.0, 8.0, 8, 2).read(1)), round(Weights(1.0, 8.0, 8, 2).read(6), 1)
        (3, 7.6)
        """
        touched = touched_experts(self.experts, self.active, tokens) / self.experts
        return self.always + touched * self.in_experts

    @property
    def used(self) -> float:
        """By one token: each of them is a multiplication and an addition."""
        return self.always + self.in_experts * self.active / self.experts


@dataclass(frozen=True)
class ModelShape:
    """A decoder's numbers, named as in configurations of transformers. Sizes count values.

    `attention_weights`, `cache_values` and `attention_width` are of one layer, and follow from the
    heads where they are None; a model with latent attention says its own. `extra_weights` are read
    by every forward besides, `shares_head`: the output layer is another model's, and no memory.
    `context` is the most tokens of prompt and answer together, 0 where it is not known; `positions`
    are those that the model has learned one by one. `tokenizer` names one that has as many tokens
    as another; "" where it is not known. `stored` is the format in which its weights are published.
    """

    layers: int
    hidden_size: int
    heads: int
    vocabulary: int
    intermediate_size: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    tied: bool = False
    gated: bool = True
    positions: int = 0
    context: int = 0
    experts: int = 1
    active_experts: int = 1
    expert_size: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    attention_weights: int | None = None
    cache_values: int | None = None
    attention_width: int | None = None
    extra_weights: int = 0
    shares_head: bool = False
    tokenizer: str = ""
    stored: str = "bf16"
    title: str = "a model of this shape"

    def __post_init__(self) -> None:
        for name in _NEEDED:
            whole_between(getattr(self, name), name, 1)
        for name in _COUNTED:
            whole_between(getattr(self, name), name, 0)
        if not 1 <= self.active_experts <= self.experts:
            raise InputError(
                f"active_experts must be from 1 to experts = {self.experts}, "
                f"got {self.active_experts}"
            )
        if not (self.intermediate_size or self.expert_size):
            raise InputError("intermediate_size must be at least 1, got 0")
        if self.heads % (self.kv_heads or self.heads):
            raise InputError(f"kv_heads must divide heads = {self.heads}, got {self.kv_heads}")

    @property
    def longest(self) -> int:
        """Tokens of prompt and answer together; 0 where it is not known."""
        return self.context or self.positions

    @property
    def _head(self) -> int:
        return self.head_dim or self.hidden_size // self.heads

    @property
    def _attention(self) -> int:
        """Weights of one layer: queries, keys, values, and what joins the heads."""
        if self.attention_weights is not None:
            return self.attention_weights
        kv_heads = self.kv_heads or self.heads
        return 2 * self.hidden_size * self._head * (self.heads + kv_heads)

    @property
    def _matrices(self) -> int:
        """In a feed-forward block: up and down, with a gate in all but the oldest models."""
        return 3 if self.gated else 2

    @property
    def _table(self) -> int:
        return self.vocabulary * self.hidden_size

    @property
    def _expert_layers(self) -> int:
        return self.layers - self.dense_layers if self.expert_size else 0

    @cached_property
    def layer_weights(self) -> Weights:
        """All but the embedding and the output layer."""
        block = self._matrices * self.hidden_size
        dense = self.layers - self._expert_layers
        shared = self._expert_layers * self.shared_experts * self.expert_size
        router = self._expert_layers * self.hidden_size * self.experts
        always = self.layers * self._attention + self.extra_weights + router
        always += block * (dense * self.intermediate_size + shared)
        routed = self._expert_layers * block * self.expert_size * self.experts
        return Weights(always, routed, self.experts, self.active_experts)

    @cached_property
    def weights(self) -> Weights:
        """What a forward reads: the layers and the output layer; an embedding is only looked up."""
        layers = self.layer_weights
        return replace(layers, always=layers.always + self._table)

    @property
    def parameters(self) -> float:
        """All that are stored.

        >>> round(MODELS["llama-3-1-8b"].parameters / 1e9, 2)
        8.03
        """
        layers = self.layer_weights
        tables = (1 if self.tied else 2) - (2 if self.shares_head else 0)
        rest = self.positions * self.hidden_size + max(0, tables) * self._table
        return layers.always + layers.in_experts + rest

    @property
    def active_parameters(self) -> float:
        """Of all, those that one token uses."""
        layers = self.layer_weights
        return self.parameters - layers.in_experts * (1 - layers.active / layers.experts)

    @cached_property
    def cache_values_per_token(self) -> int:
        """Keys and values of all layers.

        >>> 2 * MODELS["llama-3-1-8b"].cache_values_per_token  # bytes, in 16 bits
        131072
        """
        each = self.cache_values
        if each is None:
            each = 2 * (self.kv_heads or self.heads) * self._head
        return self.layers * each

    @cached_property
    def attention_flops(self) -> int:
        """For one token and one token of context before it: its product with the key, and with the
        value.
        """
        width = self.heads * self._head if self.attention_width is None else self.attention_width
        return 4 * self.layers * width

    @property
    def head_flops(self) -> int:
        """Of the output layer, for one token."""
        return 2 * self._table


def eagle_head(target: ModelShape) -> ModelShape:
    """The head of EAGLE for a target (arXiv 2401.15077): a layer of the target's shape behind a
    product that halves token and feature; embedding and output layer are the target's.

    >>> round(eagle_head(MODELS["llama-2-7b"]).parameters / 1e9, 2)  # published: 0.24
    0.24
    """
    wide = target.intermediate_size or target.expert_size * target.active_experts
    return replace(
        target,
        layers=1,
        intermediate_size=wide,
        experts=1,
        active_experts=1,
        expert_size=0,
        shared_experts=0,
        dense_layers=0,
        positions=0,
        extra_weights=2 * target.hidden_size**2,
        shares_head=True,
        title=f"an EAGLE head for {target.title}",
    )


# names in a configuration -> ours; the first that is there counts
_CONFIG = {
    "layers": ("num_hidden_layers", "n_layer"),
    "hidden_size": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "intermediate_size": ("intermediate_size", "n_inner"),
    "vocabulary": ("vocab_size",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "active_experts": ("num_experts_per_tok",),
    "expert_size": ("moe_intermediate_size",),
    "shared_experts": ("n_shared_experts",),
    "dense_layers": ("first_k_dense_replace",),
    "positions": ("n_positions",),
    "context": ("max_position_embeddings",),
}


_NEEDED = ("layers", "hidden_size", "heads", "vocabulary")
_COUNTED = (
    *("intermediate_size", "kv_heads", "head_dim", "expert_size", "dense_layers"),
    *("positions", "context"),
)


def shape_of_config(config: Mapping[str, Any], title: str) -> ModelShape:
    """Of a config.json of transformers, whose numbers have been bounded; InputError for another."""
    if "kv_lora_rank" in config:
        raise InputError(f"model {title!r} has latent attention: choose the nearest preset")
    found = {
        ours: next((config[name] for name in names if config.get(name) is not None), None)
        for ours, names in _CONFIG.items()
    }
    given: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    is_gpt2 = config.get("model_type") == "gpt2"
    if is_gpt2:
        given.setdefault("intermediate_size", 4 * given.get("hidden_size", 0))
    else:
        given.pop("positions", None)
    if given.get("experts", 1) > 1:
        given.setdefault("expert_size", given.get("intermediate_size", 0))
    missing = [name for name in _NEEDED if name not in given]
    if missing:
        raise InputError(f"model {title!r} must have {_CONFIG[missing[0]][0]} in its configuration")
    tied = bool(config.get("tie_word_embeddings", is_gpt2))
    return ModelShape(**given, tied=tied, gated=not is_gpt2, title=title)


def undivided(name: str, whose: str, heads: int, cards: int) -> str | None:
    """Why so many cards cannot share the heads of attention; None where they can."""
    if heads % cards == 0:
        return None
    return f"{name} must divide {whose} {heads} attention heads, got {cards}"


def other_tokenizer(target: ModelShape, draft: ModelShape) -> str | None:
    """What two tokenizers they have; None where nothing tells them apart.

    >>> other_tokenizer(MODELS["llama-2-7b"], MODELS["mistral-7b"])
    'Llama 2’s and Mistral’s, of 32,000 tokens each'
    """
    ours, theirs = target.vocabulary, draft.vocabulary
    if abs(ours - theirs) > PADDING:
        return f"one of {ours:,} tokens and one of {theirs:,}"
    names = target.tokenizer, draft.tokenizer
    if ours != theirs or "" in names or names[0] == names[1]:
        return None
    return f"{names[0]}’s and {names[1]}’s, of {ours:,} tokens each"


def model_named(name: str) -> ModelShape:
    """A preset; InputError names them all."""
    if name not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {short(name)}")
    return MODELS[name]


def _read() -> tuple[dict[str, ModelShape], dict[str, dict[str, Any]]]:
    known = {field.name for field in fields(ModelShape)}
    entries = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    shapes = {
        name: ModelShape(**{key: value for key, value in entry.items() if key in known})
        for name, entry in entries.items()
    }
    published = {
        name: {key: value for key, value in entry.items() if key not in known}
        for name, entry in entries.items()
    }
    return shapes, published


MODELS, PUBLISHED = _read()  # by name: shapes, and what their authors say of them
