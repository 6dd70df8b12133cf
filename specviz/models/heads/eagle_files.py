"""Reads an EAGLE head from the folder that it was published in.

EAGLE, EAGLE-2 and EAGLE-3 as SafeAILab and others publish them, and in the format of vLLM's
`speculators`. Letters: W the head's hidden size, U the target's, F feature layers, V
vocabulary, R draft vocabulary.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from specviz.models.heads.draft_output import DraftOutput, copied_output, drafted_tokens
from specviz.models.heads.eagle_head import ChoiceShares, EagleHead, FusedEntry, NormedEntry
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.language_model import LanguageModel
from specviz.models.llama.llama_model import (
    LlamaLayer,
    RootMeanSquareNorm,
    Rotary,
    is_fixed,
    take_heads,
)
from specviz.models.llama.projection import Product, Projection, compact

T = TypeVar("T", Product, Product | None)

FEATURE_LAYERS = "eagle_aux_hidden_state_layer_ids"
SPECULATORS = ("eagle", "eagle3")  # kinds of that format; the others draft in other ways
CHOICE_KINDS = ("greedy", "sampled")
FULL_ATTENTION = "full_attention"
UNUSED = ("t2d", "layers.0.self_attn.rotary_emb.inv_freq")  # what they say is said elsewhere


def open_eagle_head(folder: Path, target: LanguageModel) -> EagleHead:
    """Raises InputError where the folder is broken or made for another kind of target."""
    source = HeadWeights("EAGLE head", folder)
    nested = source.config.get("transformer_layer_config")
    if isinstance(nested, dict):
        source.config = {**source.config, **nested}
    source.rename(r"model\.", "")
    source.rename(r"midlayer\.", "layers.0.")
    kind = source.config.get("speculators_model_type", "eagle3")
    if kind not in SPECULATORS:
        kinds = " or ".join(SPECULATORS)
        raise source.error(f"must be {kinds} in speculators_model_type, got {reprlib.repr(kind)}")
    if kind == "eagle":
        _refuse_norms(source)
        source.rename(r"fusion_fc\.", "fc.")
        source.rename(r"transformer\.", "layers.0.")
    source.skip(UNUSED)
    return _Reader(source, target).read()


def _refuse_norms(source: HeadWeights) -> None:
    """The published EAGLE has no norms around its fusion; a variant of `speculators` has."""
    if source.config.get("layernorms"):
        raise source.error("must have layernorms false, as EAGLE and EAGLE-2 were published")


class _Reader:
    """Takes the tensors of one folder one after the other."""

    def __init__(self, source: HeadWeights, target: LanguageModel) -> None:
        self._source = source
        self._target = target
        self._config = _config(source)
        self._width: int = self._config.hidden_size
        self._bytes = 0  # of what has been made of the tensors

    def read(self) -> EagleHead:
        source, target = self._source, self._target
        source.number("vocab_size", least=target.info.vocab_size)
        is_third = source.has("layers.0.hidden_norm.weight")
        feature_layers = self._feature_layers() if is_third else (target.info.layers,)
        entry = self._normed_entry(len(feature_layers)) if is_third else self._fused_entry()
        layers = [self._layer(i, is_third) for i in range(source.number("num_hidden_layers"))]
        embed = self._embedding()
        output = self._output(self._norm("norm") if is_third else None)
        source.finish()
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        embedding = LlamaRotaryEmbedding(self._config).to(target.device)
        return EagleHead(
            target,
            feature_layers,
            embed,
            entry,
            layers,
            Rotary(embedding, target.dtype, target.device),
            output,
            self._bytes,
            feeds_normed=source.config.get("norm_output") is True,
            shares=self._shares(),
        )

    def _shares(self) -> ChoiceShares | None:
        """Of specviz's own heads; others do not say."""
        named = self._source.config.get("choice_shares")
        if named is None:
            return None
        try:
            shares = ChoiceShares(*(tuple(map(float, named[kind])) for kind in CHOICE_KINDS))
        except (KeyError, TypeError, ValueError):
            shares = ChoiceShares((), ())
        for rates in (shares.greedy, shares.sampled):
            if not rates or min(rates) < 0 or not sum(rates) <= 1:
                kinds = " and ".join(CHOICE_KINDS)
                raise self._source.error(f"must have choice_shares of at most 1 in all for {kinds}")
        return shares

    def _feature_layers(self) -> tuple[int, ...]:
        """Those named by the configuration, or the usual three: an early, a middle, a late one."""
        config, count = self._source.config, self._target.info.layers
        within = config.get("eagle_config")
        named = config.get(FEATURE_LAYERS)
        if named is None and isinstance(within, dict):
            named = within.get(FEATURE_LAYERS)
        layers = [2, count // 2, count - 3] if named is None else named
        is_list = isinstance(layers, list) and len(layers) > 0
        if not is_list or not all(type(each) is int and 0 <= each < count for each in layers):
            raise self._source.error(
                f"must have {FEATURE_LAYERS} from 0 to {count - 1} for the {count} layers of "
                f"{self._target.info.name}, got {reprlib.repr(layers)}"
            )
        return tuple(layers)

    def _fused_entry(self) -> FusedEntry:
        self._source.fit_width(self._target.info)
        return FusedEntry(self._product("fc", self._width, 2 * self._width))

    def _normed_entry(self, count: int) -> NormedEntry:
        source, states = self._source, self._target.info.hidden_size
        is_foreign = source.config.get("target_hidden_size") is not None
        source.fit_width(self._target.info, "target_hidden_size" if is_foreign else "hidden_size")
        norms: tuple[RootMeanSquareNorm, ...] = ()
        if source.has("input_norm.weight"):
            norms = (self._norm("input_norm", count * states),)
        elif source.has("fc_norm.0.weight"):
            norms = tuple(self._norm(f"fc_norm.{i}", states) for i in range(count))
        return NormedEntry(
            fuse=self._product("fc", self._width, count * states),
            state_norms=norms,
            embedding_norm=self._norm("layers.0.input_layernorm"),
            feature_norm=self._norm("layers.0.hidden_norm"),
            adds_to_normed=source.config.get("norm_before_residual") is True,
        )

    def _layer(self, index: int, is_third: bool) -> LlamaLayer:
        heads, width, inner = take_heads(self._config), self._width, self._config.intermediate_size
        layer, queries, keys = (
            f"layers.{index}",
            heads.queries * heads.size,
            heads.keys * heads.size,
        )
        inputs = 2 * width if is_third and index == 0 else width
        joined = [
            (f"{layer}.self_attn.{name}_proj", size)
            for name, size in zip("qkv", (queries, keys, keys), strict=True)
        ]
        before = self._source.numbers
        return LlamaLayer(
            heads=heads,
            input_norm=self._norm(f"{layer}.input_layernorm") if index else None,
            qkv=self._products(joined, inputs),
            head_norm=self._head_norm(f"{layer}.self_attn"),
            out=self._product(f"{layer}.self_attn.o_proj", width, queries),
            mlp_norm=self._norm(f"{layer}.post_attention_layernorm"),
            gate_up=self._products(
                [(f"{layer}.mlp.{name}_proj", inner) for name in ("gate", "up")], width
            ),
            down=self._product(f"{layer}.mlp.down_proj", width, inner),
            parameters=self._source.numbers - before,
        )

    def _head_norm(self, attention: str) -> RootMeanSquareNorm | None:
        """Of queries and keys, in a layer of Qwen3."""
        if not self._source.has(f"{attention}.q_norm.weight"):
            return None
        heads = take_heads(self._config)
        counts = {"q": heads.queries, "k": heads.keys}
        weights = [
            self._tensor(f"{attention}.{name}_norm.weight", heads.size).expand(count, -1)
            for name, count in counts.items()
        ]
        return RootMeanSquareNorm(torch.cat(weights), self._config.rms_norm_eps)

    def _embedding(self) -> Callable[[Tensor], Tensor]:
        """The head's own where it has another one than the target."""
        name, target = "embed_tokens.weight", self._target
        if not self._source.has(name):
            if self._width != target.info.hidden_size:
                raise self._source.error(f"has no tensor {name}")
            return target.embed
        table = self._tensor(name, self._source.number("vocab_size"), self._width)
        table = table[: target.info.vocab_size]
        ids = torch.arange(len(table), device=target.device)
        if self._width == target.info.hidden_size and torch.equal(table, target.embed(ids)):
            return target.embed
        self._bytes += table.nbytes
        return lambda token_ids: F.embedding(token_ids, table)

    def _output(self, norm: RootMeanSquareNorm | None) -> DraftOutput:
        target = self._target
        drafted = drafted_tokens(self._source, target)
        if not self._source.has("lm_head.weight"):
            return DraftOutput(self._counted(copied_output(target, drafted)), drafted, norm)
        rows = self._source.number("vocab_size") if drafted is None else len(drafted.ids)
        matrix = self._tensor("lm_head.weight", rows, self._width)[: target.info.vocab_size]
        return DraftOutput(self._counted(compact(matrix)), drafted, norm)

    def _norm(self, name: str, width: int | None = None) -> RootMeanSquareNorm:
        weight = self._tensor(f"{name}.weight", width or self._width)
        self._bytes += weight.nbytes
        return RootMeanSquareNorm(weight, self._config.rms_norm_eps)

    def _product(self, name: str, outputs: int, inputs: int) -> Product:
        return self._products([(name, outputs)], inputs)

    def _products(self, parts: Sequence[tuple[str, int]], inputs: int) -> Product:
        """Linear layers (name, outputs) of one input as one product, with biases if they have."""
        weight = torch.cat([self._tensor(f"{name}.weight", size, inputs) for name, size in parts])
        if not self._source.has(f"{parts[0][0]}.bias"):
            return self._counted(compact(weight))
        bias = torch.cat([self._tensor(f"{name}.bias", size) for name, size in parts])
        return self._counted(Projection(weight, bias))

    def _tensor(self, name: str, *shape: int) -> Tensor:
        return self._source.tensor(name, shape, self._target.dtype, self._target.device)

    def _counted(self, product: T) -> T:
        if product is not None:
            self._bytes += product.weight.nbytes
            self._bytes += 0 if product.bias is None else product.bias.nbytes
        return product


def _config(source: HeadWeights) -> Any:
    for key in ("hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size"):
        source.number(key)
    try:
        config = transformers.LlamaConfig.from_dict(source.config)
        heads = take_heads(config)
        kinds = set(getattr(config, "layer_types", None) or ())
        is_known = config.hidden_act == "silu" and is_fixed(config) and kinds <= {FULL_ATTENTION}
    except Exception as error:  # a configuration class may raise anything for odd values
        raise source.error(f"has a bad config.json: {' '.join(str(error).split())[:200]}") from None
    if not is_known or heads.queries % heads.keys:
        raise source.error(
            "must be a layer of the Llama family: silu, full attention, fixed rotary angles, and "
            "num_attention_heads a multiple of num_key_value_heads"
        )
    return config
