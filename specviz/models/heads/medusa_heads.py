"""Medusa heads: from one hidden state of the target, distributions of several tokens ahead at once.

Cai et al., Medusa (2401.10774). Knows nothing of trees or sampling. Letters: H heads, W hidden
size, I inputs of a head's last product, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.heads.draft_output import DraftOutput, copied_output, drafted_tokens
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.language_model import LanguageModel
from specviz.models.llama.projection import Projection, compact_dtype
from specviz.records import ModelInfo

# of a head's 1st, 2nd, … choice, roughly the bundled heads'; each further head has less by AFTER
ASSUMED = (0.53, 0.15, 0.07, 0.04, 0.025, 0.02, 0.015, 0.012, 0.01, 0.008)
AFTER = 0.8


class Outputs(Protocol):
    """From each head's last hidden state to its logits."""

    def __call__(self, hidden: Tensor) -> Tensor:  # of the first heads, [H, W] -> [H, V]
        ...


@dataclass(frozen=True, slots=True)
class OwnOutputs:
    """A matrix of each head's own, as Medusa was published."""

    matrices: Sequence[Projection]  # [V, W] each

    def __call__(self, hidden: Tensor) -> Tensor:
        pairs = zip(self.matrices, hidden.chunk(len(hidden)), strict=False)
        return torch.cat([matrix(row) for matrix, row in pairs])


@dataclass(frozen=True, slots=True)
class SharedOutput:
    """The target's own matrix for all heads: a fraction of the size, and read once for all."""

    output: DraftOutput
    target: LanguageModel

    def __call__(self, hidden: Tensor) -> Tensor:
        return self.output.logits(hidden.to(self.target.dtype), self.target)


class MedusaHeads:
    """Head i (from 0) on the feature h(n - 1) foretells the token at position n + i + 1.

    n is the root's position: h(n - 1), the state after the final norm, gave the root itself.
    x -> output(x + SiLU(residual(x))), or several such blocks before the output, as published. SiLU
    adds next to nothing below zero, so a residual block needs an output matrix of its own: our own
    heads share one, and have x + up(SiLU(down(x))). The first products of all heads are one.
    Weights stay in bfloat16, as they are stored: what heads cost is the reading of their output
    matrices, or of the one that they share.
    """

    def __init__(
        self,
        first: Projection,  # [H * I, W]
        ups: list[Projection],  # H times [W, I], or none: I is W
        deeper: list[list[Projection]],  # of each further block H times [W, W]
        outputs: Outputs,
        accuracies: tuple[tuple[float, ...], ...],
        size: int,
        feature_layers: tuple[int, ...],
    ) -> None:
        self.feature_layers = feature_layers
        self._first = first
        self._ups = ups
        self._deeper = deeper
        self._outputs = outputs
        self._dtype = first.weight.dtype
        self.accuracies = accuracies  # per head: shares of its 1st, 2nd, … choice being right
        self.bytes = size

    @classmethod
    def open(cls, folder: Path, target: LanguageModel) -> MedusaHeads:
        """Raises InputError where the folder is broken or made for another kind of target."""
        source = HeadWeights("Medusa heads", folder)
        names = _Names.of(source, target.info)
        info, device, dtype = target.info, target.device, compact_dtype(target.device)
        width, heads = info.hidden_size, range(names.heads)

        def stacked(names: Sequence[str], *shape: int) -> list[Tensor]:
            return [source.tensor(each, shape, dtype, device) for each in names]

        def blocks(layer: int, outputs: int) -> tuple[list[Tensor], list[Tensor]]:
            named = [names.block(i, layer) for i in heads]
            weights = stacked([f"{each}.weight" for each in named], outputs, width)
            if not names.are_biased:
                return weights, [torch.zeros(outputs, dtype=dtype, device=device) for _ in heads]
            return weights, stacked([f"{each}.bias" for each in named], outputs)

        weights, biases = blocks(0, names.inner or width)
        first = Projection(torch.cat(weights), torch.cat(biases))
        up_names = [f"heads.{i}.up.weight" for i in heads] if names.inner else []
        ups = [Projection(weight) for weight in stacked(up_names, width, names.inner)]
        deeper = [
            [Projection(*block) for block in zip(*blocks(layer, width), strict=True)]
            for layer in range(1, names.blocks)
        ]
        copied = 0
        if names.are_shared:
            drafted = drafted_tokens(source, target)
            matrix = copied_output(target, drafted)
            copied = 0 if matrix is None else matrix.weight.nbytes
            outputs: Outputs = SharedOutput(DraftOutput(matrix, drafted), target)
        else:
            matrices = stacked([names.output(i) for i in heads], names.vocabulary, width)
            outputs = OwnOutputs([Projection(matrix[: info.vocab_size]) for matrix in matrices])
        source.finish()
        accuracies, size = _accuracies(source, names), source.bytes + copied
        return cls(first, ups, deeper, outputs, accuracies, size, (info.layers,))

    @property
    def count(self) -> int:
        return len(self.accuracies)

    @torch.inference_mode()
    def logits(self, feature: Tensor, first: int | None = None) -> Tensor:  # [W] -> [H, V]
        """Of all heads, or of the first so many."""
        x = feature.to(self._dtype)[None]
        added = F.silu(self._first(x)).view(self.count, -1)  # [H, I]
        if self._ups:
            pairs = zip(self._ups, added.chunk(self.count), strict=True)
            added = torch.cat([up(row) for up, row in pairs])
        hidden = x + added  # [H, W]
        for layer in self._deeper:
            rows = zip(layer, hidden.chunk(self.count), strict=True)
            hidden = torch.cat([row + F.silu(block(row)) for block, row in rows])
        return self._outputs(hidden[:first]).to(feature.dtype)


@dataclass(frozen=True, slots=True)
class _Names:
    """What tensors are called, and how many there are.

    In our own layout, or in that of FasterDecoding's `medusa_lm_head.pt`: a table of heads, each a
    row of blocks with the output matrix last. Without output matrices the target's is meant. vLLM's
    names are made into these: its blocks may lack biases, and with `original_lm_head` the one
    output matrix is a copy of the target's.
    """

    is_published: bool
    heads: int
    blocks: int  # of each head
    inner: int  # between down and up; 0 for residual blocks
    are_shared: bool  # outputs
    vocabulary: int  # rows of an output matrix; may be padded
    are_biased: bool = True  # blocks

    @classmethod
    def of(cls, source: HeadWeights, target: ModelInfo) -> _Names:
        source.rename(r"medusa_heads?\.", "")
        source.rename(r"blocks\.(\d+)\.layers\.(\d+)", r"\1.\2.linear")
        least = target.vocab_size
        if not source.has("0.0.linear.weight"):
            heads, are_shared = source.number("heads"), not source.has("heads.0.output.weight")
            source.fit_width(target)
            inner = source.number("inner_size") if source.has("heads.0.up.weight") else 0
            vocabulary = source.number("vocab_size", least=least)
            return cls(False, heads, 1, inner, are_shared, vocabulary)
        heads = next(i for i in count() if not source.has(f"{i}.0.linear.weight"))
        blocks = next(j for j in count() if not source.has(f"0.{j}.linear.weight"))
        are_biased = source.has("0.0.linear.bias")
        if source.config.get("original_lm_head") is True:
            source.skip(("lm_head.weight", "lm_heads.0.weight"))
        source.rename(r"lm_heads\.(\d+)", rf"\1.{blocks}")
        output = source.shape(f"0.{blocks}.weight")
        if output is None:
            return cls(True, heads, blocks, 0, True, least, are_biased)
        if output[0] < least:
            raise source.error(f"must have 0.{blocks}.weight of {least} rows or more, got {output}")
        return cls(True, heads, blocks, 0, False, output[0], are_biased)

    def block(self, head: int, layer: int) -> str:
        if self.is_published:
            return f"{head}.{layer}.linear"
        return f"heads.{head}.{'down' if self.inner else 'residual'}"

    def output(self, head: int) -> str:
        named = f"{head}.{self.blocks}" if self.is_published else f"heads.{head}.output"
        return f"{named}.weight"


def _accuracies(source: HeadWeights, names: _Names) -> tuple[tuple[float, ...], ...]:
    """As they were measured; a guess where a published folder does not say."""
    listed, heads = source.config.get("accuracies"), names.heads
    if listed is None and names.is_published:
        return tuple(tuple(share * AFTER**i for share in ASSUMED) for i in range(heads))
    try:
        shares = tuple(tuple(float(share) for share in head) for head in listed or ())
    except (TypeError, ValueError):
        shares = ()
    is_share = all(0 <= share <= 1 for head in shares for share in head)
    if len(shares) != heads or not all(shares) or not is_share:
        raise source.error(f"must have accuracies: for each of {heads} heads shares from 0 to 1")
    return shares
