"""Medusa heads: from one hidden state of the target, distributions of several tokens ahead at once.

Cai et al., Medusa (2401.10774). Knows nothing of trees or sampling. Letters: H heads, W hidden
size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.heads.head_weights import HeadWeights
from specviz.models.language_model import LanguageModel
from specviz.models.llama.projection import Projection, compact_dtype
from specviz.records import ModelInfo

# of a head's 1st, 2nd, … choice, roughly the bundled heads'; each further head has less by AFTER
ASSUMED = (0.53, 0.15, 0.07, 0.04, 0.025, 0.02, 0.015, 0.012, 0.01, 0.008)
AFTER = 0.8


class MedusaHeads:
    """Head i (from 0) on the feature h(n - 1) foretells the token at position n + i + 1.

    n is the root's position: h(n - 1), the state after the final norm, gave the root itself.
    x -> output(x + SiLU(residual(x))), or several such blocks before the output. The first blocks
    of all heads are one product. Weights stay in bfloat16, as they are stored: what a head costs is
    the reading of its output matrix.
    """

    def __init__(
        self,
        residual: Projection,  # [H * W, W]
        deeper: list[list[Projection]],  # of each further block H times [W, W]
        outputs: list[Projection],  # H times [V, W]
        accuracies: tuple[tuple[float, ...], ...],
        size: int,
        feature_layers: tuple[int, ...],
    ) -> None:
        self.feature_layers = feature_layers
        self._residual = residual
        self._deeper = deeper
        self._outputs = outputs
        self._dtype = residual.weight.dtype
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

        def blocks(layer: int) -> tuple[list[Tensor], list[Tensor]]:
            named = [names.block(i, layer) for i in heads]
            weights = stacked([f"{each}.weight" for each in named], width, width)
            return weights, stacked([f"{each}.bias" for each in named], width)

        weights, biases = blocks(0)
        residual = Projection(torch.cat(weights), torch.cat(biases))
        deeper = [
            [Projection(*block) for block in zip(*blocks(layer), strict=True)]
            for layer in range(1, names.blocks)
        ]
        outputs = [
            Projection(weight[: info.vocab_size])
            for weight in stacked([names.output(i) for i in heads], names.vocabulary, width)
        ]
        source.finish()
        accuracies = _accuracies(source, names)
        return cls(residual, deeper, outputs, accuracies, source.bytes, (info.layers,))

    @property
    def count(self) -> int:
        return len(self._outputs)

    @torch.inference_mode()
    def logits(self, feature: Tensor, first: int | None = None) -> Tensor:  # [W] -> [H, V]
        """Of all heads, or of the first so many."""
        x = feature.to(self._dtype)[None]
        hidden = x + F.silu(self._residual(x)).view(self.count, -1)  # [H, W]
        for layer in self._deeper:
            rows = zip(layer, hidden.chunk(self.count), strict=True)
            hidden = torch.cat([row + F.silu(block(row)) for block, row in rows])
        pairs = zip(self._outputs[:first], hidden.chunk(self.count), strict=False)
        return torch.cat([output(row) for output, row in pairs]).to(feature.dtype)


@dataclass(frozen=True, slots=True)
class _Names:
    """What tensors are called, and how many there are.

    In our own layout, or in that of FasterDecoding's `medusa_lm_head.pt`: a table of heads, each a
    row of blocks with the output matrix last.
    """

    is_published: bool
    heads: int
    blocks: int  # of each head
    vocabulary: int  # rows of an output matrix; may be padded

    @classmethod
    def of(cls, source: HeadWeights, target: ModelInfo) -> _Names:
        source.rename("medusa_head.", "")
        least = target.vocab_size
        if not source.has("0.0.linear.weight"):
            heads = source.number("heads")
            source.fit_width(target)
            return cls(False, heads, 1, source.number("vocab_size", least=least))
        heads = next(i for i in count() if not source.has(f"{i}.0.linear.weight"))
        blocks = next(j for j in count() if not source.has(f"0.{j}.linear.weight"))
        output = source.shape(f"0.{blocks}.weight")
        if not output or output[0] < least:
            raise source.error(f"must have 0.{blocks}.weight of {least} rows or more, got {output}")
        return cls(True, heads, blocks, output[0])

    def block(self, head: int, layer: int) -> str:
        return f"{head}.{layer}.linear" if self.is_published else f"heads.{head}.residual"

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
