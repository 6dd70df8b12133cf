"""The hidden states that a forward pass returns in addition to its logits.

These states are the inputs of some layers, or of the output matrix. In shapes, F is the number of
feature layers, T the number of tokens and W the hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class FeatureTaps:
    """Collect the hidden states of `layers` during a forward pass.

    The state of layer i is the input of that layer (from 0). If i is the number of layers, it is
    the result of the final norm.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        self.layers = tuple(layers)
        self._states: dict[int, Tensor] = {}

    def __contains__(self, layer: int) -> bool:
        return layer in self.layers

    def offer(self, layer: int, state: Tensor) -> None:
        """Store the hidden state of a layer if the caller of the forward pass requested it.

        The caller must not change the tensor later, because it is not copied.
        """
        if layer in self.layers:
            self._states[layer] = state

    def parts(self, layers: range) -> list[range]:
        """Divide a range of layers into parts, so that every requested layer begins a part.

        >>> FeatureTaps((2, 5)).parts(range(1, 7))
        [range(1, 2), range(2, 5), range(5, 7)]
        """
        inner = sorted({layer for layer in self.layers if layers.start < layer < layers.stop})
        pairs = zip((layers.start, *inner), (*inner, layers.stop), strict=True)
        return [range(start, stop) for start, stop in pairs]

    def states(self) -> list[Tensor]:
        """Return the stored hidden states, in the order of `layers`."""
        return [self._states[layer] for layer in self.layers]

    def joined(self) -> Tensor | None:  # [..., F W]
        """Join the stored hidden states to one tensor; return None if no layers were requested."""
        states = self.states()
        if len(states) < 2:
            return states[0] if states else None
        return torch.cat([state.to(states[0].device) for state in states], dim=-1)


NO_TAPS = FeatureTaps(())
