"""The forms of weights in panels, and the tiles that fit into a processor's registers.

`kernel_loops` explains panels and tiles. L is the number of lanes of a register and P the number of
outputs of a panel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

# The number of inputs whose int4 weights form a group with one scale and one `middle`. `middle` is
# the weight that the step MIDDLE stands for.
GROUP = 32
# The step, from 0 to 15, of an int4 weight that is equal to the `middle` of its group.
MIDDLE = 8
WORD = 8  # number of int4 steps in 32 bits
UNROLLED = 4  # number of inputs in one pass of the inner loop


class PanelForm(Enum):
    """How the weights in a panel are stored."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"  # each 32-bit word has the weights for two inputs
    INT8 = "int8"  # one byte per weight, and one scale per output
    INT4 = "int4"  # each 32-bit word has the weights for eight inputs


class RowType(Enum):
    """The dtype of the rows x of a product x W^T, of the values added to it, and of the result."""

    FLOAT32 = "float"
    BFLOAT16 = "bfloat"


@dataclass(frozen=True, slots=True)
class Registers:
    """The size of a tile that fits into a processor's vector registers."""

    lanes: int  # L, the number of lanes of a register
    vectors: int  # number of registers for the weights of one input of a panel
    rows: int  # number of rows in the largest tile
    # True if the processor looks up 16 lanes in a table at once (AVX-512).
    can_permute: bool = False
    # How many bytes after its own weights each load also requests from memory; 0 requests nothing.
    ahead: int = 0
    # True if the processor multiplies 64 pairs of bytes at once and adds the products (AVX-512
    # VNNI).
    has_byte_products: bool = False

    @property
    def panel(self) -> int:  # P, the number of outputs in a panel
        return self.lanes * self.vectors

    def multiplies_bytes(self, form: PanelForm) -> bool:
        """Return whether the kernel for weights of this form multiplies integers."""
        return self.has_byte_products and form in (PanelForm.INT8, PanelForm.INT4)

    def of_form(self, form: PanelForm) -> Registers:
        """Return the size of a tile for weights of this form."""
        # A tile of bytes reads x from memory, so a panel with more vectors would save nothing.
        return replace(self, vectors=1) if self.multiplies_bytes(form) else self

    def whole_inputs(self, form: PanelForm) -> int:
        """Return a number n: a matrix of this form must have a multiple of n inputs."""
        if self.multiplies_bytes(form):
            return 1
        return GROUP if form is PanelForm.INT4 else UNROLLED

    @classmethod
    def of(cls, machine: str, features: dict[str, bool]) -> Registers | None:
        """Return the best tile, or None for a processor without fused multiply-add."""
        if features.get("avx512f") and features.get("avx512bw") and features.get("avx512vl"):
            # Intel's processors with AMX read ahead too little on their own: with 6 rows the
            # kernel became 1.3 to 1.5 times faster. AMD's processors have no AMX.
            ahead = 8192 if features.get("amx-tile") else 0
            return cls(
                lanes=16,
                vectors=3,
                rows=8,
                can_permute=True,
                ahead=ahead,
                has_byte_products=features.get("avx512vnni", False),
            )
        if features.get("avx2") and features.get("fma"):
            return cls(lanes=8, vectors=2, rows=6)
        if machine in ("arm64", "aarch64"):
            return cls(lanes=4, vectors=4, rows=6)
        return None
