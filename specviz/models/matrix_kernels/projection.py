"""A weight matrix with the kernels that were chosen for each number of rows.

With few rows, a kernel takes as long as reading its matrix. A matrix with half as many bytes is
therefore twice as fast. In shapes, T is the number of rows, I the number of inputs and O the number
of outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from specviz.models.accelerator import is_accelerator
from specviz.models.matrix_kernels.choice import FIRST_ROWS, Choice, by_rule, row_class
from specviz.models.matrix_kernels.kernel_candidates import (
    BY_NAME,
    PLAIN,
    Held,
    Multiplied,
    Panels,
    has_onednn,
    offered,
)
from specviz.models.matrix_kernels.panel_form import GROUP
from specviz.models.matrix_kernels.program import ProgramStep
from specviz.models.matrix_kernels.weights import (
    Int4Weights,
    Int8Weights,
    MatrixShape,
    MatrixWeights,
    PlainWeights,
)

# The size in bytes of a matrix below which converting the input takes more time than reading half
# as many bytes saves.
COMPACT_BYTES = 256 << 10
_MANY = FIRST_ROWS[-1]

# This variable gets a new object whenever a projection of this process changes its kernels.
_state = object()

_is_float32 = ContextVar("is_float32", default=False)


class Projection:
    """The map x -> x W^T + b, for W [O, I] and b [O].

    A kernel with another layout than the plain matrix needs a copy of W, and the projection then
    drops the tensor that the caller passed. A caller that continues to use this tensor must set
    `is_shared`; `may_copy` then says whether a copy may exist as well. Fixed rules choose the
    kernels until `adopt` is called.
    """

    def __init__(
        self,
        weight: Tensor | MatrixWeights,
        bias: Tensor | None = None,
        rows: torch.dtype | None = None,  # the dtype of x, if it differs from the dtype of W
        is_shared: bool = False,
        may_copy: bool = True,
    ) -> None:
        weights: MatrixWeights = PlainWeights(weight) if isinstance(weight, Tensor) else weight
        # This is None if W is stored only in `_layouts`.
        self._source: MatrixWeights | None = weights
        self.shape = weights.shape
        self.bias = bias
        self.rows = rows or (weight.dtype if isinstance(weight, Tensor) else torch.float32)
        self.is_shared, self.only_plain = is_shared, not may_copy
        self.choice: Choice | None = None
        # The number of threads for which the kernels were chosen. 0 means that fixed rules chose
        # them for any number of threads.
        self.threads = 0
        self._layouts: dict[str, Held] = {}
        self._by_rows: tuple[Held, ...] = ()  # the kernels for 0, 1, … _MANY rows

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the weights and the choice, because packed layouts cannot be pickled."""
        given = self.weights(), self.bias, self.rows, False, not self.only_plain
        return _restored, (given, self.choice, self.threads)

    @property
    def weight(self) -> Tensor:  # [O, I]
        """Return W as a plain matrix. It is a copy if W is stored in another layout."""
        return self.weights().dense()

    def weights(self) -> MatrixWeights:
        """Return the weights of the matrix.

        They are a copy if they are stored in another layout.
        """
        if self._source is not None:
            return self._source
        return next(iter(self._layouts.values())).weights()

    @property
    def bytes(self) -> int:
        """Return the memory of the matrix in all its layouts, without the bias."""
        held = {layout: each.bytes for layout, each in self._layouts.items()}
        if self.is_shared or not held:
            held[PLAIN] = self.shape.bytes
        return sum(held.values())

    @property
    def second_bytes(self) -> int:
        """Return the memory of all layouts except the first, without padding."""
        layouts = set(self._layouts) | ({PLAIN} if self.is_shared else set())
        return self.shape.bytes * max(0, len(layouts) - 1)

    def held(self, name: str) -> Held | None:
        """Return the matrix as candidate `name` stores it, or None if that kernel is not used."""
        at = self.choice.names.index(name) if self.choice and name in self.choice.names else None
        return None if at is None else self._by_rows[FIRST_ROWS[at]]

    def adopt(self, choice: Choice, threads: int = 0) -> None:
        """Use the kernels of a choice, and store the matrix in their layouts."""
        if self.choice is None or choice.names != self.choice.names:
            weights = self.weights()
            held: dict[str, Held] = {}
            kernels = {}
            for name in dict.fromkeys(choice.names):
                kernels[name] = BY_NAME[name].hold(weights, self.rows)
                held.setdefault(BY_NAME[name].layout, kernels[name])
            classes = (row_class(max(1, rows)) for rows in range(_MANY + 1))
            self._by_rows = tuple(kernels[choice.names[at]] for at in classes)
            self._layouts = held
            self._source = weights if self.is_shared else None
            global _state
            _state = object()
        self.choice, self.threads = choice, threads

    def __call__(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        return self._held(x.shape[0])(x, self.bias)

    def in_float32(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        """Return x W^T + b, with sums in float32 if possible.

        This is possible on a GPU, for a plain matrix of bfloat16 or float16 without a bias. torch
        has no such kernel for CPUs, so there the sums are rounded to the dtype of x.
        """
        held = self._held(x.shape[0])
        is_half = x.dtype in (torch.bfloat16, torch.float16)
        can_keep = is_half and is_accelerator(x.device) and x.device.type != "cpu"
        if can_keep and self.bias is None and isinstance(held, Multiplied):
            return held.in_float32(x)
        return held(x, self.bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:  # [T, O], [T, I] -> [T, O]
        """Return residual + x W^T + b."""
        held = self._held(x.shape[0])
        return held(x, residual) if self.bias is None else held(x, self.bias).add_(residual)

    def step(self, x: Tensor, y: Tensor, added: Tensor | None = None) -> ProgramStep | None:
        """Return the computation y = x W^T + b, plus `added` [T, O] if given, as a compiled step.

        Return None if another kernel was chosen for this number of rows, or if a matrix with a
        bias would also have to add `added`.
        """
        held = self._held(x.shape[0])
        if not isinstance(held, Panels) or not (self.bias is None or added is None):
            return None
        if self.bias is not None:
            added = self.bias.to(x.dtype)
        return held.step(x, y, added)

    def _held(self, rows: int) -> Held:
        if not self._by_rows:
            self.adopt(by_rule(self.shape, self.rows, self.only_plain))
        return self._by_rows[rows if rows < _MANY else _MANY]


def kernel_state() -> object:
    """Return an object that stays the same until a projection changes its kernels."""
    return _state


def _restored(given: tuple[Any, ...], choice: Choice | None, threads: int) -> Projection:
    projection = Projection(*given)
    if choice is not None:
        projection.adopt(choice, threads)
    return projection


def int8(weight: Tensor, bias: Tensor | None = None) -> Projection:
    """Return the projection with W rounded to int8.

    Some kernels also round x: the compiled one to 16-bit integers in groups, if the processor
    multiplies bytes, and torch's own to bfloat16.
    """
    return Projection(Int8Weights.of(weight), bias, weight.dtype)


def int4(weight: Tensor, bias: Tensor | None = None) -> Projection:
    """Return the projection with W rounded to 4 bits in groups.

    Some kernels also round x, as the docstring of `int8` says.
    """
    return Projection(Int4Weights.of(weight), bias, weight.dtype)


def has_int4(device: torch.device) -> bool:
    """Return whether the device has a kernel for 4-bit weights."""
    return bool(offered(MatrixShape("int4", 1, GROUP, device.type, 0), torch.float32))


def compact_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 if the device multiplies it at full speed, otherwise float32."""
    if _is_float32.get():
        return torch.float32
    if device.type != "cpu":
        return torch.bfloat16
    return torch.bfloat16 if has_onednn(device.type, torch.bfloat16) else torch.float32


@contextmanager
def in_float32() -> Iterator[None]:
    """Make `compact` and `compact_dtype` choose float32 inside this context, as some engines do."""
    token = _is_float32.set(True)
    try:
        yield
    finally:
        _is_float32.reset(token)


def compact(weight: Tensor) -> Projection:
    """Return the projection with W [O, I], in bfloat16 if that is faster."""
    if is_compacted(weight):
        return Projection(weight.bfloat16(), rows=torch.float32)
    return Projection(weight)


def is_compacted(weight: Tensor) -> bool:
    """Return whether `compact` would convert a matrix to bfloat16."""
    is_fast = compact_dtype(weight.device) is torch.bfloat16 and weight.device.type == "cpu"
    return is_fast and weight.dtype is torch.float32 and weight.nbytes >= COMPACT_BYTES
