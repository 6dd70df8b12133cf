"""Hidden states that one forward hands out: those before some layers, and that of the final norm.

Letters: F feature layers, T tokens, W hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class FeatureTaps:
    """Collects the states of `layers` as a forward passes them; see `ForwardOutput`."""

    def __init__(self, layers: Sequence[int]) -> None:
        self.layers = tuple(layers)
        self._states: dict[int, Tensor] = {}

    def __contains__(self, layer: int) -> bool:
        return layer in self.layers

    def offer(self, layer: int, state: Tensor) -> None:
        """The state of that layer, kept if it was asked for. Nobody may write into it later."""
        if layer in self.layers:
            self._states[layer] = state

    def states(self) -> list[Tensor]:
        """In the order that was asked for."""
        return [self._states[layer] for layer in self.layers]

    def joined(self) -> Tensor | None:  # [..., F W]
        """As one tensor; None where nothing was asked for."""
        states = self.states()
        if len(states) < 2:
            return states[0] if states else None
        return torch.cat([state.to(states[0].device) for state in states], dim=-1)
