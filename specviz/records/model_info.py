"""What a model is, as a run's record and every list of models tell it.

Knows no model; it imports the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """`bytes` counts the weights as loaded."""

    name: str
    architecture: str
    parameters: int
    bytes: int
    layers: int
    hidden_size: int
    vocab_size: int
    context_length: int
