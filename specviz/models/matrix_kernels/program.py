"""Run compiled functions one after another, on all threads, with one call from Python.

A call from Python takes longer than a small operation itself, and a forward of one token has
several operations per layer. In a program, all threads compute their shares of one step, wait for
each other, and go on with the next step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from specviz.models.matrix_kernels import kernel

_SIZE = 8  # bytes of a pointer and of a number

_STEPS = """
define internal void @steps(ptr %work, i64 %thread, i64 %threads) {
entry:
  %steps = load ptr, ptr %work
  %count_in = getelementptr i64, ptr %work, i64 1
  %count = load i64, ptr %count_in
  br label %step
step:
  %i = phi i64 [0, %entry], [%i_next, %next]
  %offset = mul i64 %i, 2
  %function_in = getelementptr i64, ptr %steps, i64 %offset
  %function = load ptr, ptr %function_in
  %call_in = getelementptr i64, ptr %function_in, i64 1
  %call = load ptr, ptr %call_in
  call void %function(ptr %call, i64 %thread, i64 %threads)
  %i_next = add i64 %i, 1
  %more = icmp ult i64 %i_next, %count
  br i1 %more, label %wait, label %done
wait:
  %is_alone = icmp eq i64 %threads, 1
  br i1 %is_alone, label %next, label %barrier
barrier:
  call void @wait_for_all()
  br label %next
next:
  br label %step
done:
  ret void
}

define void @run(ptr %steps, i64 %count, i32 %threads) {
  %work = alloca [2 x i64], align 8
  store ptr %steps, ptr %work
  %count_at = getelementptr i64, ptr %work, i64 1
  store i64 %count, ptr %count_at
  %is_alone = icmp eq i32 %threads, 1
  br i1 %is_alone, label %alone, label %together
alone:
  call void @steps(ptr %work, i64 0, i64 1)
  ret void
together:
  call void @run_together(ptr %work, i32 %threads)
  ret void
}

define void @run_one(ptr %function, ptr %call, i32 %threads) {
  %step = alloca [2 x i64], align 8
  store ptr %function, ptr %step
  %call_at = getelementptr i64, ptr %step, i64 1
  store ptr %call, ptr %call_at
  call void @run(ptr %step, i64 1, i32 %threads)
  ret void
}
"""
_WITH_OPENMP = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare void @GOMP_barrier()
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()

define internal void @share(ptr %work) {
  %thread = call i32 @omp_get_thread_num()
  %threads = call i32 @omp_get_num_threads()
  %t = zext i32 %thread to i64
  %n = zext i32 %threads to i64
  call void @steps(ptr %work, i64 %t, i64 %n)
  ret void
}
define internal void @run_together(ptr %work, i32 %threads) {
  call void @GOMP_parallel(ptr @share, ptr %work, i32 %threads, i32 0)
  ret void
}
define internal void @wait_for_all() {
  call void @GOMP_barrier()
  ret void
}
"""
_ON_ONE_THREAD = """
define internal void @run_together(ptr %work, i32 %threads) {
  call void @steps(ptr %work, i64 0, i64 1)
  ret void
}
define internal void @wait_for_all() {
  ret void
}
"""

Call = ctypes.Array[ctypes.c_int64]


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A compiled function `void (ptr call, i64 thread, i64 threads)` and its arguments.

    Some pointers in `call` point into `keeps`, which this object keeps alive. The caller keeps
    alive all other memory to which they point.
    """

    function: int  # address of the compiled function
    call: Call
    keeps: object = None


class Program:
    """Steps that run one after another."""

    def __init__(self, steps: Sequence[ProgramStep]) -> None:
        self._steps = tuple(steps)
        addresses = [each for s in steps for each in (s.function, ctypes.addressof(s.call))]
        self._addresses = (ctypes.c_int64 * len(addresses))(*addresses)
        self._start = ctypes.addressof(self._addresses)
        self._run = _functions().run

    def run(self, first: int, count: int) -> None:
        """Run `count` >= 1 steps from index `first` on, on torch's number of threads."""
        assert count >= 1 and first >= 0 and first + count <= len(self._steps)
        self._run(self._start + 2 * _SIZE * first, count, torch.get_num_threads())


def run_one(function: int, call: Call, threads: int) -> None:
    """Run the function at an address once, with the arguments in `call`."""
    _functions().run_one(function, ctypes.addressof(call), threads)


def prepare() -> None:
    """Compile the code that runs steps, so that no timed call has to compile it."""
    _functions()


@dataclass(frozen=True, slots=True)
class _Functions:
    run: Callable[[int, int, int], None]
    run_one: Callable[[int, int, int], None]


@cache
def _functions() -> _Functions:
    engine = kernel.compiled(_STEPS + (_ON_ONE_THREAD if kernel.openmp() is None else _WITH_OPENMP))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    run = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64, number)
    run_one = ctypes.CFUNCTYPE(None, pointer, pointer, number)
    return _Functions(
        run(engine.get_function_address("run")), run_one(engine.get_function_address("run_one"))
    )
