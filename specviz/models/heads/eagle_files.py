"""Read EAGLE heads from folders in the formats in which they are published.

The formats are those of SafeAILab for EAGLE, EAGLE-2 and EAGLE-3, and that of vLLM's `speculators`.
In shapes, W is the head's hidden size, U the target's hidden size, F the number of feature layers,
V the size of the vocabulary and R the size of the draft vocabulary.
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
from specviz.models.llama.layer import LlamaLayer, RootMeanSquareNorm, take_heads
from specviz.models.llama.rotary import Rotary, is_fixed
from specviz.models.matrix_kernels.projection import Projection, compact
from specviz.models.matrix_kernels.settling import settle

T = TypeVar("T", Projection, Projection | None)

FEATURE_LAYERS = "eagle_aux_hidden_state_layer_ids"
# The names of the EAGLE heads in the format of `speculators`. All other drafters in this format
# draft in other ways than EAGLE.
SPECULATORS = ("eagle", "eagle3")
CHOICE_KINDS = ("greedy", "sampled")
FULL_ATTENTION = "full_attention"
# Tensors that the reader skips, because other tensors of the head contain the same information.
UNUSED = ("t2d", "layers.0.self_attn.rotary_emb.inv_freq")


def open_eagle_head(folder: Path, target: LanguageModel) -> EagleHead:
    """Open the EAGLE head in a folder.

    Raises InputError if the folder is broken, or if the head was made for another kind of target.
    """
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
    """Raise InputError if the head has norms around its first linear layer.

    Only one variant of heads, in the format of `speculators`, has such norms.
    """
    if source.config.get("layernorms"):
        raise source.error(
            "must have layernorms false in its config.json, because specviz reads only heads "
            "without them, as EAGLE and EAGLE-2 were published"
        )


class _Reader:
    """A reader that takes the tensors of a head's folder one after another and builds the head."""

    def __init__(self, source: HeadWeights, target: LanguageModel) -> None:
        self._source = source
        self._target = target
        self._config = _config(source)
        self._width: int = self._config.hidden_size
        # number of bytes of all tensors that were read so far and that the head keeps
        self._bytes = 0

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
        """Return the measured `ChoiceShares` in the head's configuration.

        Only specviz's own heads have these numbers; for any other head, return None.
        """
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
                raise self._source.error(
                    f"must have choice_shares in its config.json: for {kinds}, shares with a sum "
                    "of at most 1"
                )
        return shares

    def _feature_layers(self) -> tuple[int, ...]:
        """Return the feature layers that the head's configuration names.

        If it names none, return an early, a middle and a late layer of the target.
        """
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
        return FusedEntry(self._projection("fc", self._width, 2 * self._width))

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
            fuse=self._projection("fc", self._width, count * states),
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
            qkv=self._projections(joined, inputs),
            head_norm=self._head_norm(f"{layer}.self_attn"),
            out=self._projection(f"{layer}.self_attn.o_proj", width, queries),
            mlp_norm=self._norm(f"{layer}.post_attention_layernorm"),
            gate_up=self._projections(
                [(f"{layer}.mlp.{name}_proj", inner) for name in ("gate", "up")], width
            ),
            down=self._projection(f"{layer}.mlp.down_proj", width, inner),
            parameters=self._source.numbers - before,
        )

    def _head_norm(self, attention: str) -> RootMeanSquareNorm | None:
        """Return the norm of each head's queries and keys, which only layers of Qwen3 have."""
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
        """Return the head's embedding.

        If the head has no embedding, or one that equals the target's, return the target's
        embedding.
        """
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

    def _projection(self, name: str, outputs: int, inputs: int) -> Projection:
        return self._projections([(name, outputs)], inputs)

    def _projections(self, parts: Sequence[tuple[str, int]], inputs: int) -> Projection:
        """Join linear layers with the same input into one matrix multiplication, with their biases.

        `parts` has the name and the number of outputs of each layer.
        """
        weight = torch.cat([self._tensor(f"{name}.weight", size, inputs) for name, size in parts])
        if not self._source.has(f"{parts[0][0]}.bias"):
            return self._counted(compact(weight))
        bias = torch.cat([self._tensor(f"{name}.bias", size) for name, size in parts])
        return self._counted(Projection(weight, bias))

    def _tensor(self, name: str, *shape: int) -> Tensor:
        return self._source.tensor(name, shape, self._target.dtype, self._target.device)

    def _counted(self, projection: T) -> T:
        if projection is not None:
            settle([projection])
            self._bytes += projection.shape.bytes + projection.second_bytes
            self._bytes += 0 if projection.bias is None else projection.bias.nbytes
        return projection


def _config(source: HeadWeights) -> Any:
    for key in ("hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size"):
        source.number(key)
    try:
        config = transformers.LlamaConfig.from_dict(source.config)
        heads = take_heads(config)
        kinds = set(getattr(config, "layer_types", None) or ())
        is_known = config.hidden_act == "silu" and is_fixed(config) and kinds <= {FULL_ATTENTION}
    except Exception as error:
        # Catch every error, because a configuration class may raise any error for odd values.
        raise source.error(f"has a bad config.json: {' '.join(str(error).split())[:200]}") from None
    if not is_known or heads.queries % heads.keys:
        raise source.error(
            "must be a layer of the Llama family: silu activation, full attention, fixed rotary "
            "angles, and num_attention_heads a multiple of num_key_value_heads"
        )
    return config
