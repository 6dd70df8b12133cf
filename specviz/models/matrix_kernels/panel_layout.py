"""The layout of weights in panels, and the way back to the matrix.

In shapes, I is the number of inputs, O the number of outputs, P the number of outputs of a panel, N
the number of groups of a row and n the number of panels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.matrix_kernels.byte_kernel_code import BYTES, ZERO
from specviz.models.matrix_kernels.panel_form import GROUP, WORD, PanelForm, Registers
from specviz.models.matrix_kernels.weights import (
    Int4Weights,
    Int8Weights,
    MatrixWeights,
    PlainWeights,
)


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """The layout of one form of weights, for the registers of a processor."""

    form: PanelForm
    registers: Registers

    def pack(self, weights: MatrixWeights) -> tuple[Tensor, Tensor | None]:
        """Return the weights in panels, and their scales if these are stored separately."""
        panel = self._panel
        match weights:
            case Int8Weights():
                scales = F.pad(weights.scale, (0, -len(weights.scale) % panel))
                if self._has_bytes:
                    steps = F.pad(weights.steps, (0, -weights.steps.shape[1] % GROUP))
                    return _quads(steps.view(torch.uint8) ^ ZERO, panel), scales
                return panels(weights.steps, panel), scales
            case Int4Weights():
                if self._has_bytes:
                    return _halves(weights, panel), None
                groups = [panels(each, panel) for each in (weights.scale, weights.middle)]
                return _words(panels(weights.steps, panel)), torch.stack(groups, 2)
        assert isinstance(weights, PlainWeights)
        values = panels(weights.values, panel)
        if self.form is PanelForm.BFLOAT16:
            pairs = values.view(len(values), -1, 2, panel)
            values = pairs.transpose(2, 3).contiguous()
        return values, None

    def unpack(
        self, values: Tensor, scales: Tensor | None, outputs: int, inputs: int
    ) -> MatrixWeights:
        """Return the weights from which `pack` made these panels."""
        match self.form:
            case PanelForm.INT8:
                assert scales is not None
                steps = from_panels(values, outputs)
                if self._has_bytes:
                    steps = (_from_quads(values, outputs)[:, :inputs] ^ ZERO).view(torch.int8)
                return Int8Weights(steps, scales[:outputs].clone())
            case PanelForm.INT4:
                if self._has_bytes:
                    return _from_halves(values, outputs, inputs)
                assert scales is not None
                steps = from_panels(_from_words(values), outputs)
                scale, middle = (from_panels(each, outputs) for each in scales.unbind(2))
                return Int4Weights(steps, scale, middle, inputs)
            case PanelForm.BFLOAT16:
                values = values.transpose(2, 3).flatten(1, 2)
        return PlainWeights(from_panels(values, outputs))

    def inputs_read(self, weights: MatrixWeights) -> int:
        """Return the number of values that the kernel reads of each row of x.

        The number is larger than I if the kernel reads whole groups only.
        """
        if isinstance(weights, Int4Weights) and self._has_bytes:
            return weights.inputs
        return weights.shape.inputs

    @property
    def _has_bytes(self) -> bool:
        return self.registers.multiplies_bytes(self.form)

    @property
    def _panel(self) -> int:
        return self.registers.of_form(self.form).panel


def panels(matrix: Tensor, panel: int) -> Tensor:  # [O, I] -> [n, I, P], padded with zeros
    """Cut a matrix into panels of P outputs."""
    outputs, inputs = matrix.shape
    padded = F.pad(matrix, (0, 0, 0, -outputs % panel))
    return padded.view(-1, panel, inputs).transpose(1, 2).contiguous()


def from_panels(held: Tensor, outputs: int) -> Tensor:  # [n, I, P] -> [O, I]
    """Join panels to the matrix [O, I] again."""
    return held.transpose(1, 2).reshape(-1, held.shape[1])[:outputs].contiguous()


def _words(steps: Tensor) -> Tensor:  # [n, I, P] uint8 -> [n, I / 8, P] int32
    eights = steps.view(len(steps), -1, WORD, steps.shape[2]).int()
    words = torch.zeros_like(eights[:, :, 0])
    for k in range(WORD):
        words |= eights[:, :, k] << (4 * k)
    return words


def _from_words(words: Tensor) -> Tensor:  # [n, I / 8, P] int32 -> [n, I, P] uint8
    steps = [(words >> (4 * k)) & 15 for k in range(WORD)]
    return torch.stack(steps, 2).flatten(1, 2).to(torch.uint8)


def _quads(matrix: Tensor, panel: int) -> Tensor:  # [O, I] uint8 -> [n, I / 4, P, 4]
    words = panels(matrix.view(torch.int32), panel)
    return words[..., None].view(torch.uint8)


def _from_quads(held: Tensor, outputs: int) -> Tensor:  # [n, I / 4, P, 4] -> [O, I] uint8
    return from_panels(held.view(torch.int32).squeeze(3), outputs).view(torch.uint8)


def _halves(weights: Int4Weights, panel: int) -> Tensor:  # -> [n, N, 5, P] int32
    """Return the words of each group: four words of steps, then one of scale and middle."""
    low, high = weights.steps.view(len(weights.steps), -1, 2, BYTES).unbind(2)
    words = panels((low | high << 4).view(torch.int32).squeeze(2), panel)
    both = torch.stack((weights.scale, weights.middle), 2).view(torch.int32).squeeze(2)
    grouped = words.view(len(words), -1, GROUP // WORD, panel)
    return torch.cat((grouped, panels(both, panel)[:, :, None]), 2)


def _from_halves(held: Tensor, outputs: int, inputs: int) -> Int4Weights:
    words, both = held[:, :, :-1].flatten(1, 2), held[:, :, -1]
    bytes_ = from_panels(words, outputs)[..., None].view(torch.uint8)
    steps = torch.stack((bytes_ & 15, bytes_ >> 4), 2).flatten(1)
    scale, middle = from_panels(both, outputs)[..., None].view(torch.bfloat16).unbind(2)
    return Int4Weights(steps, scale.contiguous(), middle.contiguous(), inputs)
