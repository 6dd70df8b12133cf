"""Muon for matrices, AdamW for the rest, as one optimiser.

Muon (K. Jordan, 2024): the momentum of a matrix is made nearly orthogonal by five Newton-Schulz
steps. Matrices of one shape go through them together. Knows nothing of models; learning rates come
from outside at each step.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

MUON_MOMENTUM = 0.95
ADAM_BETAS = (0.9, 0.95)
_QUINTIC = (3.4445, -4.7750, 2.0315)


class MuonAndAdam:
    """`matrices` by Muon; `others` by AdamW without decay."""

    def __init__(
        self, matrices: Iterable[nn.Parameter], others: Iterable[nn.Parameter], decay: float
    ) -> None:
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for parameter in matrices:
            by_shape[parameter.shape].append(parameter)
        self.groups = list(by_shape.values())
        self.momenta = [
            torch.zeros(len(group), *group[0].shape, device=group[0].device)
            for group in self.groups
        ]
        self.adam = torch.optim.AdamW(
            list(others), lr=0.0, betas=ADAM_BETAS, weight_decay=0.0, fused=True
        )
        self.decay = decay

    @torch.no_grad()
    def step(self, matrix_rate: float, other_rate: float) -> None:
        """One update with the gradients at hand, which are dropped after it."""
        for group, momentum in zip(self.groups, self.momenta, strict=True):
            self._turn(group, momentum, matrix_rate)
        for options in self.adam.param_groups:
            options["lr"] = other_rate
        self.adam.step()
        for parameter in self.parameters():
            parameter.grad = None

    def parameters(self) -> list[nn.Parameter]:
        """All that is trained."""
        matrices = [parameter for group in self.groups for parameter in group]
        return matrices + [
            parameter for options in self.adam.param_groups for parameter in options["params"]
        ]

    def _turn(self, group: list[nn.Parameter], momentum: Tensor, rate: float) -> None:
        gradient = torch.stack([_gradient(parameter) for parameter in group])  # [N, out, in]
        momentum.lerp_(gradient, 1 - MUON_MOMENTUM)
        update = orthogonal(gradient.lerp(momentum, MUON_MOMENTUM))
        rows, columns = group[0].shape
        scale = max(1.0, rows / columns) ** 0.5
        for parameter, change in zip(group, update, strict=True):
            parameter.mul_(1 - rate * self.decay).add_(change, alpha=-rate * scale)

    def state_dict(self) -> dict[str, object]:
        return {"momenta": self.momenta, "adam": self.adam.state_dict()}

    def load_state_dict(self, state: dict[str, object]) -> None:
        momenta = state["momenta"]
        adam = state["adam"]
        assert isinstance(momenta, list) and isinstance(adam, dict)
        for mine, saved in zip(self.momenta, momenta, strict=True):
            mine.copy_(saved)
        self.adam.load_state_dict(adam)


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly: singular values 0.7 to 1.2. [N, out, in]."""
    first, second, third = _QUINTIC
    wide = matrices.bfloat16()
    tall = wide.shape[1] > wide.shape[2]
    if tall:
        wide = wide.mT
    wide = wide / (wide.float().norm(dim=(1, 2), keepdim=True).to(wide.dtype) + 1e-7)
    for _ in range(steps):
        gram = wide @ wide.mT
        wide = torch.baddbmm(
            wide, torch.baddbmm(gram, gram, gram, beta=second, alpha=third), wide, beta=first
        )
    return (wide.mT if tall else wide).float()


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
