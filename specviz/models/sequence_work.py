"""Work on one sequence: forward passes after its cached tokens, and computations on the results.

A piece of work is a callable value; two pieces that compare equal do the same work. A piece reads
tensors only from its arguments and never waits for the device. So a model that uses CUDA graphs can
capture the work once and replay it. Any other model runs it operation by operation. In shapes, n is
the number of tokens of one forward pass, S the number of slots that a tree mask covers, I the
number of whole numbers that the host passes to the work and U the number of random draws.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.models.accelerator import upload
from specviz.models.language_model import ForwardOutput, KeyValueCache, LanguageModel


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The numbers from the host after their copy to the device: two views of one tensor."""

    wholes: Tensor  # [I] int64
    draws: Tensor  # [U] float64

    @classmethod
    def views(cls, packed: Tensor, count: int) -> Numbers:
        """Split a tensor of packed numbers, of which the first `count` are whole numbers.

        The other numbers are random draws.
        """
        return cls(packed[:count], packed[count:].view(torch.float64))


@dataclass(frozen=True, slots=True)
class HostNumbers:
    """The numbers that the host passes to tensor work, before they are copied to the device."""

    wholes: Sequence[int]
    draws: Sequence[float] = ()

    def packed(self) -> Tensor:  # [I + U] int64
        """Pack all numbers into one tensor: the whole numbers, then the bits of the draws."""
        bits = struct.unpack(f"{len(self.draws)}q", struct.pack(f"{len(self.draws)}d", *self.draws))
        return torch.tensor((*self.wholes, *bits), dtype=torch.int64)

    def on(self, device: torch.device) -> Numbers:
        """Copy whole numbers and random draws to the device with one copy that does not block."""
        return Numbers.views(upload(self.packed(), device), len(self.wholes))


class Steps(Protocol):
    """The forward passes of one piece of work.

    Each of them starts after the tokens of the forward pass before.
    """

    def forward(
        self,
        token_ids: Tensor,  # [n] int64
        # [n] int64, text positions, counted from the end of the cache before the first pass
        offsets: Tensor,
        mask: Tensor | None = None,  # [n, S] bool, as in `LanguageModel.forward`
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput: ...


class SequenceWork(Hashable, Protocol):
    """A piece of work on one sequence: a call runs forward passes after the cached tokens.

    The work reads tensors only from its arguments and never waits for the device. Two pieces that
    compare equal do the same work.
    """

    @property
    def tokens(self) -> int:
        """Return how many tokens the work runs."""
        ...

    @property
    def wholes(self) -> int:
        """Return how many whole numbers, such as token ids, the work gets from the host."""
        ...

    @property
    def alike(self) -> Sequence[SequenceWork]:
        """Return the pieces of work that other rounds of the run may need instead of this piece.

        For example, they run another number of tokens that the cache lacks. They get as many random
        draws and inputs as this piece.
        """
        ...

    def __call__(
        self, steps: Steps, numbers: Numbers, inputs: Sequence[Tensor]
    ) -> tuple[Tensor, ...]: ...


@dataclass(frozen=True, slots=True)
class EagerSteps:
    """Forward passes that run immediately when they are called, without a CUDA graph."""

    model: LanguageModel
    cache: KeyValueCache
    start: int  # number of cached tokens before the first forward pass

    def forward(
        self,
        token_ids: Tensor,
        offsets: Tensor,
        mask: Tensor | None = None,
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        positions = (offsets + self.start)[None]
        return self.model.forward(
            token_ids[None],
            positions,
            self.cache,
            mask,
            last_only=last_only,
            feature_layers=feature_layers,
        )


def run_eagerly(
    model: LanguageModel,
    cache: KeyValueCache,
    work: SequenceWork,
    numbers: HostNumbers,
    inputs: Sequence[Tensor] = (),
) -> tuple[Tensor, ...]:
    """Run `work` after the cached tokens, operation by operation."""
    return work(EagerSteps(model, cache, cache.length), numbers.on(model.device), inputs)
