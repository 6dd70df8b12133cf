"""Compile the matrix kernel for few rows on this machine, and run it with torch's threads.

LLVM compiles `kernel_code` in memory, so the machine needs no compiler and nothing is stored on
disk. The kernel uses the threads of the OpenMP library that torch has loaded. Other threads would
compete with torch's threads for the CPU. Without that library the kernel runs on one thread.
Without llvmlite there is no kernel. In shapes, T is the number of rows of x, I the number of inputs
and O the number of outputs.
"""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specviz.models.matrix_kernels.byte_kernel_code import MOST_INPUTS
from specviz.models.matrix_kernels.kernel_code import source
from specviz.models.matrix_kernels.kernel_loops import FIELDS
from specviz.models.matrix_kernels.panel_form import PanelForm, Registers, RowType

try:
    from llvmlite import binding as llvm
# llvmlite is optional, and its library does not work on every system.
except (ImportError, OSError):
    llvm = None

_ROWS = {torch.float32: RowType.FLOAT32, torch.bfloat16: RowType.BFLOAT16}
_FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2, ctypes.c_int)
_OPENMP = ("libgomp*", "libomp*", "libiomp5*")
_SHARED = ("GOMP_parallel", "GOMP_barrier", "omp_get_thread_num", "omp_get_num_threads")

Function = Callable[[int, int, int, int | None, int, int, int], None]
_lock = threading.Lock()
_engines: list[Any] = []  # the objects that keep compiled kernels in memory


class KernelMatrix:
    """A matrix cut into panels, which can be multiplied by any number of rows.

    `weights` and `scales` have the layout of `PanelLayout`. Both must never change.
    """

    def __init__(
        self, form: PanelForm, weights: Tensor, scales: Tensor | None, inputs: int, outputs: int
    ) -> None:
        self.weights, self.scales = weights, scales
        self.inputs, self.outputs = inputs, outputs
        tile = registers()
        assert tile is not None
        self._form, self._registers = form, tile
        self._functions: dict[torch.dtype, Function] = {}
        there = 0 if scales is None else scales.data_ptr()
        self._matrix = (ctypes.c_int64 * 4)(weights.data_ptr(), there, inputs, outputs)
        self._address = ctypes.addressof(self._matrix)

    def prepare(self, rows: torch.dtype) -> Function:
        """Compile the kernel for x of this dtype, so that no timed call has to compile it."""
        if rows not in _ROWS:
            raise RuntimeError(f"rows must be float32 or bfloat16, got {rows}")
        function = self._functions[rows] = _function(self._form, rows, self._registers)
        return function

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:  # [T, I] -> [T, O]
        """Return x W^T, plus `added` [O] or [T, O] of x's dtype if given.

        Raises RuntimeError for a wrong shape, dtype or device.
        """
        dtype, (rows, inputs) = x.dtype, x.shape
        function = self._functions.get(dtype) or self.prepare(dtype)
        # The compiled code checks nothing. With a wrong shape it would read memory outside of the
        # tensors.
        if inputs != self.inputs or not x.is_cpu:
            raise RuntimeError(f"x must be [T, {self.inputs}] on cpu, got {described(x)}")
        if added is not None and not self._fits(added, rows, dtype):
            expected = f"[{self.outputs}] or [{rows}, {self.outputs}] of {dtype} on cpu"
            raise RuntimeError(f"added must be {expected}, got {described(added)}")
        y = torch.empty((rows, self.outputs), dtype=dtype)
        if rows == 0:  # the kernel needs at least one row
            return y
        if not x.is_contiguous():
            x = x.contiguous()
        there, stride = None, 0
        if added is not None:
            if not added.is_contiguous():
                added = added.contiguous()
            there, stride = added.data_ptr(), 0 if added.ndim == 1 else self.outputs
        threads = torch.get_num_threads()
        function(self._address, x.data_ptr(), y.data_ptr(), there, stride, rows, threads)
        return y

    def step(self, x: Tensor, y: Tensor, added: Tensor | None) -> tuple[int, Any]:
        """Return the address and the arguments of the compiled function that sets y = x W^T.

        If given, `added` [O] or [T, O] is added to y. It must not be y. The caller keeps x, y and
        `added` in memory.
        """
        rows = x.shape[0]
        assert x.shape == (rows, self.inputs) and y.shape == (rows, self.outputs)
        assert added is None or self._fits(added, rows, x.dtype)
        stride = 0 if added is None or added.ndim == 1 else self.outputs
        there = 0 if added is None else added.data_ptr()
        values = (*self._matrix, x.data_ptr(), y.data_ptr(), there, stride, rows)
        return _panels(self._form, x.dtype, self._registers), (ctypes.c_int64 * len(FIELDS))(
            *values
        )

    def _fits(self, added: Tensor, rows: int, dtype: torch.dtype) -> bool:
        is_alike = added.dtype is dtype and added.is_cpu
        return is_alike and added.shape in ((self.outputs,), (rows, self.outputs))


def described(tensor: Tensor) -> str:
    """Return a tensor's shape, dtype and device as text for an error message."""
    return f"{list(tensor.shape)} of {tensor.dtype} on {tensor.device}"


def has_kernel(form: PanelForm, rows: torch.dtype, inputs: int) -> bool:
    """Return whether this machine can run the kernel for weights of this form and x of this dtype.

    `inputs` is the number of inputs of the matrix.
    """
    tile = registers()
    if llvm is None or rows not in _ROWS or tile is None or inputs % tile.whole_inputs(form):
        return False
    if tile.multiplies_bytes(form) and inputs > MOST_INPUTS:
        return False
    return openmp() is not None or torch.get_num_threads() == 1


def can_compile() -> bool:
    """Return whether llvmlite is installed."""
    return llvm is not None


@cache
def registers() -> Registers | None:
    """Return the best tile size for this processor, or None if the kernel cannot run."""
    if llvm is None:
        return None
    return Registers.of(platform.machine().lower(), dict(llvm.get_host_cpu_features()))


@cache
def openmp() -> ctypes.CDLL | None:
    """Return the OpenMP library that torch has loaded, or None if there is none."""
    folder = Path(torch.__file__).parent / "lib"
    for pattern in _OPENMP:
        for file in sorted(folder.glob(pattern)):
            try:
                library = ctypes.CDLL(str(file))
            except OSError:
                continue
            if all(hasattr(library, name) for name in _SHARED):
                return library
    return None


@cache
def _function(form: PanelForm, rows: torch.dtype, tile: Registers) -> Function:
    return _FUNCTION(_engine(form, rows, tile).get_function_address("multiply"))


@cache
def _panels(form: PanelForm, rows: torch.dtype, tile: Registers) -> int:
    """Return the address of the function that computes one thread's share."""
    return int(_engine(form, rows, tile).get_function_address("panels"))


def _engine(form: PanelForm, rows: torch.dtype, tile: Registers) -> Any:
    with _lock:
        return _compile(form, _ROWS[rows], tile)


@cache
def _compile(form: PanelForm, rows: RowType, tile: Registers) -> Any:
    return compiled(source(form, rows, tile, openmp() is not None))


def compiled(text: str) -> Any:
    """Compile LLVM code for this processor.

    Return the engine, which knows the functions' addresses.

    The code may call functions of torch's OpenMP library, if there is one.
    """
    library = openmp()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if library is not None:
        for name in _SHARED:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            llvm.add_symbol(name, address)
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return engine
