"""The weights of a matrix before they get a layout: plain, rounded to 8 bits, or to 4 bits.

The groups of 4-bit weights are the same as in a GGUF file of type Q4_1, so weights from such a file
are not rounded again. Any other matrix is rounded between the smallest and the largest weight of
each group. In shapes, I is the number of inputs, O the number of outputs and N the number of groups
of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.models.matrix_kernels.panel_form import GROUP, MIDDLE

LEVELS = 127  # int8 weights range from -127 to 127, so that the range is symmetric
# The number of int4 steps from the smallest weight of a group to the largest.
STEPS = 15
LEAST_SCALE = 1e-30
# The number of weights that are rounded at once. Rounding needs at least 8 bytes for each.
ROUNDED_AT_ONCE = 16 << 20
# A weight whose distance from a step is at most this fraction of the distance between two steps
# counts as equal to the step. Rounding to bfloat16 moves weights by such a distance.
EXACT = 0.1


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """The properties of a matrix that decide which kernels can multiply it."""

    form: str  # dtype of the weights, such as float32 or int8
    outputs: int  # O, the number of outputs
    inputs: int  # I, the number of inputs; a 4-bit matrix is filled up to whole groups
    device: str  # type of the device, such as "cpu"
    bytes: int  # size of the weights in one layout


class MatrixWeights(Protocol):
    """The weights of a matrix, in any form."""

    @property
    def shape(self) -> MatrixShape: ...

    def dense(self) -> Tensor:  # [O, I]
        """Return the matrix as a tensor of floating-point numbers."""
        ...

    def part(self, outputs: int) -> MatrixWeights:
        """Return the rows of the first `outputs` outputs, as a view."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainWeights:
    """A matrix of floating-point numbers."""

    values: Tensor  # [O, I]

    @property
    def shape(self) -> MatrixShape:
        values, form = self.values, str(self.values.dtype).removeprefix("torch.")
        outputs, inputs = values.shape
        return MatrixShape(form, outputs, inputs, values.device.type, values.nbytes)

    def dense(self) -> Tensor:
        return self.values

    def part(self, outputs: int) -> PlainWeights:
        return PlainWeights(self.values[:outputs])


@dataclass(frozen=True, slots=True, eq=False)
class Int8Weights:
    """A matrix rounded to int8, with one scale for each output."""

    steps: Tensor  # [O, I] int8
    scale: Tensor  # [O] bfloat16

    @classmethod
    def of(cls, weight: Tensor) -> Int8Weights:  # [O, I]
        at_once = max(1, ROUNDED_AT_ONCE // weight.shape[1])
        parts = [_rounded(rows) for rows in torch.split(weight, at_once)]
        steps, scales = zip(*parts, strict=True)
        return cls(torch.cat(steps), torch.cat(scales))

    @property
    def shape(self) -> MatrixShape:
        size = self.steps.nbytes + self.scale.nbytes
        outputs, inputs = self.steps.shape
        return MatrixShape("int8", outputs, inputs, self.steps.device.type, size)

    def dense(self) -> Tensor:  # float32
        return self.steps.float().mul_(self.scale.float()[:, None])

    def part(self, outputs: int) -> Int8Weights:
        return Int8Weights(self.steps[:outputs], self.scale[:outputs])


@dataclass(frozen=True, slots=True, eq=False)
class Int4Weights:
    """A matrix in 4 bits per weight: w = (step - 8) * scale + middle, with steps from 0 to 15.

    A group of GROUP inputs shares a scale and a `middle`, which is the weight at step 8.

    If a row does not fill its last group, the rest of that group holds unused steps.
    """

    steps: Tensor  # [O, N * GROUP] uint8
    scale: Tensor  # [O, N] bfloat16
    middle: Tensor  # [O, N] bfloat16
    inputs: int

    @classmethod
    def of(cls, weight: Tensor) -> Int4Weights:  # [O, I]
        groups, least, wide = _groups(weight.float())
        # The scale is rounded first, so that the steps also correct its rounding error.
        scale = wide.bfloat16()
        middle = (least + wide * (STEPS / 2) + scale.float() / 2).bfloat16()
        # If all weights of a group are equal, `middle` is that weight.
        middle = torch.where(wide > LEAST_SCALE, middle, least.bfloat16())
        steps = groups.sub_(middle.float()[..., None]).div_(scale.float()[..., None])
        steps = steps.add_(MIDDLE).round_().clamp_(0, STEPS).to(torch.uint8).flatten(1)
        return cls(steps, scale, middle, weight.shape[1])

    @property
    def shape(self) -> MatrixShape:
        size = self.steps.numel() // 2 + self.scale.nbytes + self.middle.nbytes
        outputs, inputs = self.steps.shape
        return MatrixShape("int4", outputs, inputs, self.steps.device.type, size)

    def dense(self) -> Tensor:  # float32
        steps = self.steps.view(len(self.steps), -1, GROUP).float().sub_(MIDDLE)
        wide = steps.mul_(self.scale.float()[..., None]).add_(self.middle.float()[..., None])
        return wide.view(self.steps.shape)[:, : self.inputs]

    def part(self, outputs: int) -> Int4Weights:
        return Int4Weights(
            self.steps[:outputs], self.scale[:outputs], self.middle[:outputs], self.inputs
        )


def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round o rows of a matrix to int8: [o, I] -> steps [o, I] int8, scales [o] bfloat16."""
    wide = weight.float()
    # The scale is rounded first, so that the steps also correct its rounding error.
    scale = (wide.abs().amax(1) / LEVELS).clamp_min(LEAST_SCALE).bfloat16()
    steps = (wide / scale.float()[:, None]).round_().clamp_(-LEVELS, LEVELS)
    return steps.to(torch.int8), scale


def is_on_groups(weight: Tensor) -> bool:  # [O, I]
    """Return whether the weights are already 4-bit steps in groups, as from a GGUF file.

    Rounding them to 4 bits then changes only the precision of `scale` and `middle`.
    """
    groups, least, scale = _groups(weight.float())
    steps = groups.sub_(least[..., None]).div_(scale[..., None])
    return bool(steps.sub_(steps.round()).abs_().max() < EXACT)


def _groups(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Divide a matrix into groups.

    Return a copy in groups [O, N, GROUP], the smallest weight of each group and its scale, each [O,
    N]. The last group of a row is filled up with copies of the last input, so that the smallest
    and the largest weight of this group do not change.
    """
    outputs, inputs = weight.shape
    last = weight[:, -1:].expand(outputs, -inputs % GROUP)
    groups = torch.cat((weight, last), 1).view(outputs, -1, GROUP)
    least, largest = groups.aminmax(dim=-1)
    return groups, least, ((largest - least) / STEPS).clamp_min(LEAST_SCALE)
