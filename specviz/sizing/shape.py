"""The shape of a model, and numbers computed from it: parameters, bytes and arithmetic.

models.toml has the shapes of published models. Any other shape is read from a transformers
configuration. Norms and biases are ignored, because together they are less than half a percent.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from specviz.errors import InputError, short, whole_between
from specviz.sizing.old_classes import usual_fields
from specviz.sizing.stored_format import stored_format
from specviz.theory import touched_experts

# Bits per stored weight. int4, q4_0 and q8_0 have groups of 32 weights with a 16-bit scale. q4_k_m
# is the mean for an 8B model in llama.cpp's table. mxfp4 has 8 more bits per 32 weights, nvfp4 per
# 16. All except fp8 compute in 16 bits.
PRECISIONS = {
    "bf16": 16.0,
    "fp32": 32.0,
    "mxfp4": 4.25,
    "nvfp4": 4.5,
    "fp8": 8.0,
    "int8": 8.0,
    "int4": 4.5,
    "q8_0": 8.5,
    "q4_0": 4.5,
    "q4_k_m": 4.89,
}
EAGLE, N_GRAM = "eagle", "n-gram"  # names of two kinds of drafts that are no models of their own
# The largest difference in vocabulary size between models with one tokenizer. llama.cpp has the
# same limit.
PADDING = 128
_FILE = Path(__file__).with_name("models.toml")


def bytes_of(precision: str) -> float:
    """Return the average bytes of a weight.

    >>> bytes_of("bf16"), bytes_of("int4")
    (2.0, 0.5625)
    """
    if precision not in PRECISIONS:
        raise InputError(
            f"precision must be one of {', '.join(PRECISIONS)}, got {short(precision)}"
        )
    return PRECISIONS[precision] / 8


@dataclass(frozen=True, slots=True)
class Weights:
    """The parameters that a forward may read: some always, and the experts that its tokens use.

    `in_experts` counts the parameters of all experts in all layers. A token uses `active` of the
    `experts` in each layer.
    """

    always: float
    in_experts: float = 0.0
    experts: int = 1
    active: int = 1

    def read(self, tokens: int) -> float:
        """Return how many parameters a forward over `tokens` tokens reads, over all sequences.

        >>> round(Weights(1.0, 8.0, 8, 2).read(1)), round(Weights(1.0, 8.0, 8, 2).read(6), 1)
        (3, 7.6)
        """
        touched = touched_experts(self.experts, self.active, tokens) / self.experts
        return self.always + touched * self.in_experts

    @property
    def used(self) -> float:
        """Return how many parameters one token uses.

        Each takes part in a multiplication and an addition.
        """
        return self.always + self.in_experts * self.active / self.experts


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of parameters that were counted in the model's own class, not computed from a shape.

    - `in_experts` counts parameters in routed experts, `looked_up` those in embeddings, and `head`
      those in the output matrix. If the output matrix is the embedding, both counts include it.
    - `cached` is how many numbers all layers together store in the KV cache per token.
      `cached_layers` is how many layers have a KV cache. If one of them is None, it is computed
      from the shape.
    - A token uses `active` of the `experts` in a layer.
    - `quantised` counts the parameters that the published weights store in fewer than 16 bits.
    """

    parameters: int
    in_experts: int
    looked_up: int
    head: int
    cached: int | None = None
    cached_layers: int | None = None
    experts: int = 1
    active: int = 1
    quantised: int = 0


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a decoder, as in transformers configurations.

    - `attention_weights`, `cache_values` and `attention_width` are per layer. If they are None,
      they are computed from the heads. A model with latent attention sets them.
    - `extra_weights` are parameters outside of the layers that every forward reads.
    - `shares_head`: the output matrix belongs to another model and takes no memory.
    - `context` is the largest sum of prompt and answer tokens, or 0 if unknown. `positions` is the
      number of learned position embeddings.
    - `tokenizer` is the name of a tokenizer, given if another tokenizer has the same size;
      otherwise "".
    - `stored` is the precision of the published weights, or "" if they are quantised with an
      unknown precision. `quantised_by` names the method that quantised them.
    - `unknown_class` names the model's class if transformers cannot build it. The number of
      parameters is then computed from the fields.
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
    counted: Counted | None = None
    quantised_by: str = ""
    unknown_class: str = ""

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
        if not (self.intermediate_size or self.expert_size or self.counted):
            raise InputError("intermediate_size must be at least 1, got 0")
        if self.heads % (self.kv_heads or self.heads):
            raise InputError(f"kv_heads must divide heads = {self.heads}, got {self.kv_heads}")

    @property
    def longest(self) -> int:
        """Return the largest number of tokens that prompt and answer may have together.

        The result is 0 if unknown.
        """
        return self.context or self.positions

    @property
    def _head(self) -> int:
        return self.head_dim or self.hidden_size // self.heads

    @property
    def _attention(self) -> int:
        """Return the weights of one layer's attention: queries, keys, values and output."""
        if self.attention_weights is not None:
            return self.attention_weights
        kv_heads = self.kv_heads or self.heads
        return 2 * self.hidden_size * self._head * (self.heads + kv_heads)

    @property
    def _matrices(self) -> int:
        """Return the number of matrices in a feed-forward block: two, or three with a gate."""
        return 3 if self.gated else 2

    @property
    def _table(self) -> int:
        return self.vocabulary * self.hidden_size

    @property
    def _expert_layers(self) -> int:
        return self.layers - self.dense_layers if self.expert_size else 0

    @cached_property
    def layer_weights(self) -> Weights:
        """Return the number of all weights except those of embedding and output matrix."""
        if (found := self.counted) is not None:
            always = found.parameters - found.in_experts - found.looked_up
            always -= 0 if self.tied else found.head
            return Weights(always, found.in_experts, self.experts, self.active_experts)
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
        """Return the weights that a forward reads: all weights except the embedding."""
        layers = self.layer_weights
        return replace(layers, always=layers.always + self._table)

    @property
    def parameters(self) -> float:
        """Return the number of stored parameters.

        >>> round(MODELS["llama-3-1-8b"].parameters / 1e9, 2)
        8.03
        """
        if self.counted is not None:
            return self.counted.parameters
        layers = self.layer_weights
        tables = (1 if self.tied else 2) - (2 if self.shares_head else 0)
        rest = self.positions * self.hidden_size + max(0, tables) * self._table
        return layers.always + layers.in_experts + rest

    @property
    def active_parameters(self) -> float:
        """Return how many of the stored parameters one token uses."""
        layers = self.layer_weights
        return self.parameters - layers.in_experts * (1 - layers.active / layers.experts)

    @cached_property
    def cache_values_per_token(self) -> int:
        """Return how many values are cached per token: keys and values of all caching layers.

        In some classes, transformers stores a copy of each KV head for every query head. Engines do
        not, so the smaller of the counted and the computed number is returned.

        >>> 2 * MODELS["llama-3-1-8b"].cache_values_per_token  # bytes, in 16 bits
        131072
        """
        each, found = self.cache_values, self.counted
        if each is None:
            each = 2 * (self.kv_heads or self.heads) * self._head
        layers = found.cached_layers if found else None
        of_shape = each * (self.layers if layers is None else layers)
        if found is None or found.cached is None:
            return of_shape
        return min(found.cached, of_shape) if self.kv_heads else found.cached

    @property
    def kept_parameters(self) -> int:
        """Return how many parameters the published quantised weights store in 16 bits."""
        found = self.counted
        return found.parameters - found.quantised if found and found.quantised else 0

    @property
    def kept_read(self) -> int:
        """Return how many of `kept_parameters` every forward reads.

        Parameters of an embedding that is not tied do not count, because a forward reads only a few
        of its rows.
        """
        looked_up = self.counted.looked_up if self.counted and not self.tied else 0
        return max(0, self.kept_parameters - looked_up)

    @cached_property
    def attention_flops(self) -> int:
        """Return the attention FLOPs of one token for each token of context.

        A query is multiplied by the context token's key, and the score by its value.
        """
        width = self.heads * self._head if self.attention_width is None else self.attention_width
        return 4 * self.layers * width

    @property
    def head_flops(self) -> int:
        """Return the FLOPs of the output matrix for one token."""
        return 2 * self._table


def eagle_head(target: ModelShape) -> ModelShape:
    """Return the shape of an EAGLE head for a target (arXiv 2401.15077).

    It is one layer of the target's shape. Before it, a matrix combines the token embedding and the
    feature. Embedding and output matrix are the target's.

    >>> round(eagle_head(MODELS["llama-2-7b"]).parameters / 1e9, 2)  # published: 0.24
    0.24
    """
    wide = target.intermediate_size or target.expert_size * target.active_experts
    return replace(
        target,
        counted=None,
        gated=True,
        stored="bf16",
        layers=1,
        intermediate_size=wide or 4 * target.hidden_size,
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


# A name in this module -> the possible names in configurations. The first name that a configuration
# contains counts.
_CONFIG = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": (
        *("num_key_value_heads", "n_head_kv", "multi_query_group_num"),
        "num_key_value_heads_per_layer",
    ),
    "head_dim": ("head_dim", "kv_channels"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff"),
    "vocabulary": ("padded_vocab_size", "vocab_size"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "active_experts": ("num_experts_per_tok", "moe_k", "moe_topk"),
    "expert_size": ("moe_intermediate_size",),
    "shared_experts": ("n_shared_experts",),
    "dense_layers": ("first_k_dense_replace",),
    "positions": ("n_positions",),
    "context": ("max_position_embeddings", "seq_length"),
}


_NEEDED = ("layers", "hidden_size", "heads", "vocabulary")
_COUNTED = (
    *("intermediate_size", "kv_heads", "head_dim", "expert_size", "dense_layers"),
    *("positions", "context"),
)


def shape_of_config(
    config: Mapping[str, Any],
    title: str,
    counted: Counted | None = None,
    unknown_class: str = "",
) -> ModelShape:
    """Return the shape in a transformers configuration. Its numbers must have been checked.

    `counted` has the parameters counted in its class. Without it, they are computed from the
    fields. Raises InputError if the configuration lacks a number that is needed.
    """
    if config.get("kv_lora_rank") and counted is None:
        raise InputError(
            f"model {title!r} has latent attention (kv_lora_rank), and specviz cannot compute its "
            "size from these fields alone: choose the nearest preset"
        )
    is_gpt2 = config.get("model_type") == "gpt2"
    if counted is None and not is_gpt2:
        config = usual_fields(config)
    found = {
        ours: next((config[name] for name in names if config.get(name) is not None), None)
        for ours, names in _CONFIG.items()
    }
    given = {name: _largest(value) for name, value in found.items() if value is not None}
    if is_gpt2:
        given.setdefault("intermediate_size", 4 * given.get("hidden_size", 0))
    else:
        given.pop("positions", None)
    if given.get("experts", 1) > 1:
        given.setdefault("expert_size", given.get("intermediate_size", 0))
    missing = [name for name in _NEEDED if name not in given]
    if counted is None and not given.get("intermediate_size") and not given.get("expert_size"):
        missing.append("intermediate_size")
    if missing:
        why = (
            f", as its class {short(unknown_class)} cannot be counted here" if unknown_class else ""
        )
        raise InputError(
            f"model {title!r} must have {_CONFIG[missing[0]][0]} in its configuration{why}: choose "
            "the nearest preset"
        )
    tied = bool(config.get("tie_word_embeddings", is_gpt2))
    # A model class without experts may still have configuration fields for experts.
    if counted is not None:
        given = {name: value for name, value in given.items() if name not in _OF_EXPERTS}
        given |= {"experts": counted.experts, "active_experts": counted.active}
        if counted.experts > 1 and type(size := found["expert_size"]) is int:
            given["expert_size"] = size
    # In latent attention, each head reads all latent values.
    if counted is not None and config.get("kv_lora_rank"):
        given["attention_width"] = given["heads"] * (
            config["kv_lora_rank"] + config.get("qk_rope_head_dim", 0) // 2
        )
        given["cache_values"] = config["kv_lora_rank"] + config.get("qk_rope_head_dim", 0)
    stored = stored_format(config)
    return ModelShape(
        **given,
        tied=tied,
        gated=config.get("gated", True) is not False and not is_gpt2,
        title=title,
        stored=stored.precision,
        quantised_by=stored.method,
        counted=counted,
        unknown_class=unknown_class,
    )


def _largest(value: Any) -> Any:
    """Return the largest of a configuration's numbers, if it gives one number for each layer."""
    is_list = isinstance(value, list) and value and all(type(each) is int for each in value)
    return max(value) if is_list else value


_OF_EXPERTS = ("experts", "active_experts", "expert_size", "shared_experts", "dense_layers")


def undivided(name: str, whose: str, heads: int, cards: int) -> str | None:
    """Return why this number of GPUs cannot share the attention heads, or None if it can."""
    if heads % cards == 0:
        return None
    return f"{name} must divide {whose} {heads} attention heads, got {cards}"


def other_tokenizer(target: ModelShape, draft: ModelShape) -> str | None:
    """Describe how two tokenizers differ. Return None if no difference is known.

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
    """Return a preset model. Raises InputError with all names if it does not exist."""
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


# Two dictionaries by model name: the shapes, and facts that the models' authors published.
MODELS, PUBLISHED = _read()
