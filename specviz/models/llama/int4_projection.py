"""One weight matrix in four bits, in groups: w = (step - 8) * scale + middle, step from 0 to 15.

These are the groups of a GGUF file's Q4_1, so a matrix that was written so is recovered; any other
is rounded to its groups' least and largest weights. The product is torch's own, on CPU only.
Letters: T rows, I inputs, O outputs, N groups of a row.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

GROUP = 32  # weights that share a scale
STEPS = 15  # from a group's least weight to its largest
MIDDLE = 8  # the step that the kernel takes off
KERNEL_OUTPUTS = 16  # the kernel takes multiples of this: padded
EXACT = 0.1  # of a step: nearer than that to a step is on it, also behind a rounding to bfloat16

_PRODUCT = getattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu", None)  # absent before torch 2.6
_PACK = getattr(torch.ops.aten, "_convert_weight_to_int4pack_for_cpu", None)


def has_int4(device: torch.device) -> bool:
    """Whether there is a product of four bits on that device."""
    return device.type == "cpu" and _PRODUCT is not None and _PACK is not None


def is_on_groups(weight: Tensor) -> bool:
    """Whether four bits lose nothing of W [O, I] but the digits of scales and middles."""
    groups, least, scale = _groups(weight.float())
    steps = groups.sub_(least[..., None]).div_(scale[..., None])
    return bool(steps.sub_(steps.round()).abs_().max() < EXACT)


class Int4Projection:
    """x -> x W^T + b, for W [O, I] rounded to four bits and b [O].

    The kernel takes x in bfloat16, and each row's product is the same to the bit whatever rows
    stand beside it. Raises RuntimeError where `has_int4` is false.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        if _PRODUCT is None or _PACK is None:
            raise RuntimeError("this build of torch has no product of four bits")
        self._product = _PRODUCT
        self.bias = bias
        self._outputs, self._inputs = weight.shape
        groups, least, wide = _groups(weight.float())
        # scale and middle are rounded before they are used: the steps then absorb that error too
        scale = wide.bfloat16()  # [O, N]
        middle = (least + wide * (STEPS / 2) + scale.float() / 2).bfloat16()
        steps = groups.sub_(middle.float()[..., None]).div_(scale.float()[..., None])
        steps = steps.add_(MIDDLE).round_().clamp_(0, STEPS).int().flatten(1)  # [O, I + padding]
        missing = -self._outputs % KERNEL_OUTPUTS
        self._weight = _PACK(F.pad(steps, (0, 0, 0, missing)), 1)  # two steps a byte
        both = F.pad(torch.stack((scale, middle), -1), (0, 0, 0, 0, 0, missing))  # [O, N, 2]
        self._groups = both.transpose(0, 1).contiguous()
        self._padding = steps.shape[1] - self._inputs

    @property
    def weight(self) -> Tensor:  # [O, I] float32
        one_each = torch.eye(self._inputs)
        return self._multiply(one_each).t().float()

    @property
    def bytes(self) -> int:
        """Memory of the matrix; the bias is the original's."""
        return int(self._weight.nbytes + self._groups.nbytes)

    def __call__(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        product = self._multiply(x).to(x.dtype)
        return product if self.bias is None else product.add_(self.bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:  # [T, O], [T, I] -> [T, O]
        """residual + x W^T + b."""
        return self(x).add_(residual)

    def _multiply(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O] bfloat16
        rounded = x.bfloat16()
        if self._padding:
            rounded = F.pad(rounded, (0, self._padding))
        product: Tensor = self._product(rounded.contiguous(), self._weight, GROUP, self._groups)
        return product if product.shape[1] == self._outputs else product[:, : self._outputs]


def _groups(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A copy of W in groups [O, N, GROUP], their least weights and scales [O, N].

    Behind the last input its weight is repeated, which changes no group's least or largest one.
    """
    outputs, inputs = weight.shape
    last = weight[:, -1:].expand(outputs, -inputs % GROUP)
    groups = torch.cat((weight, last), 1).view(outputs, -1, GROUP)
    least, largest = groups.aminmax(dim=-1)
    return groups, least, ((largest - least) / STEPS).clamp_min(1e-30)
