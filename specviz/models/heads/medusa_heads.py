"""Medusa heads: they predict several tokens ahead at once, from one hidden state of the target.

Source: Cai et al., Medusa (arXiv 2401.10774). This module knows nothing about trees or sampling. In
shapes, H is the number of heads, W the hidden size, I the number of inputs of a head's last matrix
multiplication, V the size of the target's vocabulary and R the size of the draft vocabulary, which
is V for heads without one.
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

from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.heads.draft_output import DraftOutput, copied_output, drafted_tokens
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.language_model import LanguageModel
from specviz.models.matrix_kernels.projection import Projection, compact_dtype
from specviz.models.matrix_kernels.settling import settle
from specviz.records import ModelInfo

# Assumed rates: how often the most probable token of head 0 is right, then its second most probable
# token, and so on. They are close to the measured rates of the bundled heads. The rates of each
# further head are those of the head before, multiplied by AFTER.
ASSUMED = (0.53, 0.15, 0.07, 0.04, 0.025, 0.02, 0.015, 0.012, 0.01, 0.008)
AFTER = 0.8


class Outputs(Protocol):
    """A function from the last hidden states of all heads to their logits."""

    # the tokens that the heads can draft; None means all tokens of the target
    @property
    def drafted(self) -> DraftVocabulary | None: ...

    # the hidden states of the first H heads, [H, W] -> [H, R]
    def __call__(self, hidden: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class OwnOutputs:
    """The outputs of Medusa as it was published: each head has an output matrix of its own."""

    matrices: Sequence[Projection]  # one matrix [V, W] per head
    drafted: None = None

    def __call__(self, hidden: Tensor) -> Tensor:
        pairs = zip(self.matrices, hidden.chunk(len(hidden)), strict=False)
        return torch.cat([matrix(row) for matrix, row in pairs])


@dataclass(frozen=True, slots=True)
class SharedOutput:
    """The output of heads that all use the target's output matrix.

    This saves memory, and the matrix is read only once for all heads.
    """

    output: DraftOutput
    target: LanguageModel

    @property
    def drafted(self) -> DraftVocabulary | None:
        return self.output.drafted

    def __call__(self, hidden: Tensor) -> Tensor:
        return self.output.logits(hidden.to(self.target.dtype), self.target)


class MedusaHeads:
    """Heads that predict future tokens from one hidden state of the target.

    n is the position of the root. All heads read h(n - 1), the target's hidden state at the token
    before the root, after the final norm. The target computed the root's distribution from it. Head
    i (from 0) predicts the token at n + i + 1.

    A published head computes x -> output(x + SiLU(residual(x))), or several such blocks before the
    output. SiLU is never below -0.28, so a block can raise a value of x but hardly lower it. To
    make up for this limit, such heads need an output matrix each. The heads that specviz trains
    share the target's output matrix. They compute x + up(SiLU(down(x))), which can also lower x.

    The first matrices of all heads are joined to one matrix. The weights stay in bfloat16, as in
    the file, because the heads spend most of their time reading output matrices. A processor that
    is slow with bfloat16 gets them in float32.
    """

    def __init__(
        self,
        first: Projection,  # [H * I, W]
        ups: list[Projection],  # one matrix [W, I] per head; no matrices if I is W
        # one list for each block after the first, with a matrix [W, W] per head
        deeper: list[list[Projection]],
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
        self.drafted = outputs.drafted
        self._dtype = first.rows
        # For each head, the fraction of positions at which its k-th most probable token is right,
        # for k = 1, 2, …
        self.accuracies = accuracies
        self.bytes = size

    @classmethod
    def open(cls, folder: Path, target: LanguageModel) -> MedusaHeads:
        """Open the Medusa heads in a folder.

        Raises InputError if the folder is broken, or if the heads were made for another kind of
        target.
        """
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
            copied = 0 if matrix is None else matrix.shape.bytes
            outputs_held = [] if matrix is None else [matrix]
            outputs: Outputs = SharedOutput(DraftOutput(matrix, drafted), target)
        else:
            matrices = stacked([names.output(i) for i in heads], names.vocabulary, width)
            outputs_held = [Projection(matrix[: info.vocab_size]) for matrix in matrices]
            outputs = OwnOutputs(outputs_held)
        projections = [first, *ups, *(each for block in deeper for each in block), *outputs_held]
        settle(projections)
        copied += sum(each.second_bytes for each in projections)
        source.finish()
        accuracies, size = _accuracies(source, names), source.bytes + copied
        return cls(first, ups, deeper, outputs, accuracies, size, (info.layers,))

    @property
    def count(self) -> int:
        return len(self.accuracies)

    @torch.inference_mode()
    def logits(self, feature: Tensor, first: int | None = None) -> Tensor:  # [W] -> [H, R]
        """Return the logits of all heads, or only of the first `first` heads.

        The logits belong to the tokens of the draft vocabulary (`drafted`).
        """
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
    """The names and sizes of the tensors in a folder.

    A folder has our own format, or that of FasterDecoding's `medusa_lm_head.pt`: a list of heads,
    each a list of blocks followed by an output matrix. Without output matrices, the heads use the
    target's. Names in vLLM's format are converted to these names. In vLLM's format, blocks may lack
    biases. If the folder has only one output matrix, and config.json says that it is a copy of the
    target's (`original_lm_head`), the copy is dropped.
    """

    is_published: bool
    heads: int
    blocks: int  # number of blocks per head
    # width between the matrices `down` and `up`; 0 if the heads have residual blocks instead
    inner: int
    are_shared: bool  # True if the heads use the target's output matrix
    vocabulary: int  # number of rows of an output matrix, which may include padding
    are_biased: bool = True  # True if the blocks have biases

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
            raise source.error(
                f"must have at least {least} rows in 0.{blocks}.weight, got {output[0]}"
            )
        return cls(True, heads, blocks, 0, False, output[0], are_biased)

    def block(self, head: int, layer: int) -> str:
        if self.is_published:
            return f"{head}.{layer}.linear"
        return f"heads.{head}.{'down' if self.inner else 'residual'}"

    def output(self, head: int) -> str:
        named = f"{head}.{self.blocks}" if self.is_published else f"heads.{head}.output"
        return f"{named}.weight"


def _accuracies(source: HeadWeights, names: _Names) -> tuple[tuple[float, ...], ...]:
    """Return, for each head, how often its k-th most probable token is right, for k = 1, 2, …

    These numbers were measured after training and are in the folder. For a published folder, which
    has none, return assumed numbers.
    """
    listed, heads = source.config.get("accuracies"), names.heads
    if listed is None and names.is_published:
        return tuple(tuple(share * AFTER**i for share in ASSUMED) for i in range(heads))
    try:
        shares = tuple(tuple(float(share) for share in head) for head in listed or ())
    except (TypeError, ValueError):
        shares = ()
    is_share = all(0 <= share <= 1 for head in shares for share in head)
    if len(shares) != heads or not all(shares) or not is_share:
        raise source.error(
            f"must have accuracies in its config.json: for each of its {heads} heads a list of "
            "shares from 0 to 1"
        )
    return shares
