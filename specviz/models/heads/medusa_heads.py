"""Medusa heads: from one hidden state of the target, distributions of several tokens ahead at once.

Cai et al., Medusa (2401.10774). Knows nothing of trees or sampling. Letters: H heads, W hidden
size, V vocabulary.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.heads.head_weights import HeadWeights
from specviz.models.language_model import LanguageModel
from specviz.models.llama.projection import Projection, compact_dtype


class MedusaHeads:
    """Head i (from 0) on the feature h(n - 1) foretells the token at position n + i + 1.

    n is the root's position: h(n - 1), the state after the final norm, gave the root itself.
    x -> output(x + SiLU(residual(x))). All residual blocks are one product. Weights stay in
    bfloat16, as they are stored: what a head costs is the reading of its output matrix.
    """

    def __init__(
        self,
        residual: Projection,  # [H * W, W]
        outputs: list[Projection],  # H times [V, W]
        accuracies: tuple[tuple[float, ...], ...],
        size: int,
        feature_layers: tuple[int, ...],
    ) -> None:
        self.feature_layers = feature_layers
        self._residual = residual
        self._outputs = outputs
        self._dtype = residual.weight.dtype
        self.accuracies = accuracies  # per head: shares of its 1st, 2nd, … choice being right
        self.bytes = size

    @classmethod
    def open(cls, folder: Path, target: LanguageModel) -> MedusaHeads:
        """Raises InputError where the folder is broken or made for another kind of target."""
        info, device = target.info, target.device
        source, dtype = HeadWeights("Medusa heads", folder), compact_dtype(device)
        heads, width = source.number("heads"), info.hidden_size
        source.fit_width(info)
        vocabulary = source.number("vocab_size", least=info.vocab_size)  # may be padded

        def stacked(name: str, *shape: int) -> list[Tensor]:
            names = [f"heads.{i}.{name}" for i in range(heads)]
            return [source.tensor(each, shape, dtype, device) for each in names]

        residual = Projection(
            torch.cat(stacked("residual.weight", width, width)),
            torch.cat(stacked("residual.bias", width)),
        )
        outputs = [
            Projection(weight[: info.vocab_size])
            for weight in stacked("output.weight", vocabulary, width)
        ]
        source.finish()
        return cls(residual, outputs, _accuracies(source, heads), source.bytes, (info.layers,))

    @property
    def count(self) -> int:
        return len(self._outputs)

    @torch.inference_mode()
    def logits(self, feature: Tensor, count: int | None = None) -> Tensor:  # [W] -> [H, V]
        """Of all heads, or of the first `count`."""
        x = feature.to(self._dtype)[None]
        hidden = x + F.silu(self._residual(x)).view(self.count, -1)  # [H, W]
        pairs = zip(self._outputs[:count], hidden.chunk(self.count), strict=False)
        return torch.cat([output(row) for output, row in pairs]).to(feature.dtype)


def _accuracies(source: HeadWeights, heads: int) -> tuple[tuple[float, ...], ...]:
    listed = source.config.get("accuracies")
    try:
        shares = tuple(tuple(float(share) for share in head) for head in listed or ())
    except (TypeError, ValueError):
        shares = ()
    is_share = all(0 <= share <= 1 for head in shares for share in head)
    if len(shares) != heads or not all(shares) or not is_share:
        raise source.error(f"must have accuracies: for each of {heads} heads shares from 0 to 1")
    return shares
