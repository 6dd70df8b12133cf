"""Measure how many seconds every candidate takes, with the matrices of a loaded model.

The matrices of one kind are multiplied one after another, as in a forward pass. The first pass uses
a few of them, or a part of a large matrix, and drops the candidates that cannot be chosen. If more
than one candidate is left, the later passes use many matrices, because a server's cache can be
larger than the matrices of the first pass: a kernel that is fast in a cache may be slow in a
forward pass, which reads the whole model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from specviz.models.matrix_kernels.choice import (
    APART_SECONDS,
    FEW,
    FIRST_ROWS,
    MEASURED_ROWS,
    PROMPT_GAIN,
    TOGETHER,
)
from specviz.models.matrix_kernels.kernel_candidates import BY_NAME, Held, KernelCandidate
from specviz.models.matrix_kernels.projection import Projection
from specviz.models.matrix_kernels.weights import MatrixWeights
from specviz.models.memory import free_bytes

# The total bytes of the matrices in the first pass, and in the later passes if memory allows.
FIRST_SET, WORKING_SET = 32 << 20, 256 << 20
MOST_MATRICES = 64
# If only a part of a matrix is measured, the part's number of outputs is a multiple of this.
PART_OUTPUTS = 64
# The number of matrices in a measurement if arithmetic limits the kernel and not memory, as for
# prompts.
FEW_MATRICES = 2
# The number of later passes over all classes of row counts. The class for prompts is measured in
# the first pass only, because it takes the longest and matters least.
LATER_PASSES = 3
# Without a kernel that runs all layers in one call, a candidate is dropped if it is much slower
# than the fastest in every class: SLOW_ONCE times as slow after one pass, SLOW times after two. The
# first limit is larger because other programs may have disturbed the only pass.
SLOW_ONCE, SLOW = 2.5, 1.2
# If a candidate takes more than this many times as long as the fastest for one class of row counts,
# arithmetic and not memory limits its speed. For the next class it is then measured with
# FEW_MATRICES matrices. If the next class is the one for prompts, the time of the candidate is
# estimated instead.
HOPELESS = 3.0
# If the median of several passes takes this many times as long as the shortest, other programs keep
# the machine busy and the times are not used.
STEADY = 1.3

Clock = Callable[[], float]
Times = Mapping[str, tuple[float, ...]]  # candidate -> seconds of one call for each class of rows


@torch.inference_mode()
def measure(
    matrices: Sequence[Projection],
    candidates: Sequence[KernelCandidate],
    deadline: float = math.inf,  # stop measuring when `clock` has reached this time
    clock: Clock = time.perf_counter,
) -> Times | None:
    """Return the seconds of each of `candidates`, or None if they are not reliable.

    All `matrices` must be of one kind, and the machine must offer the candidates for it. Other
    programs can only make a call slower, so the result is the minimum of the later passes. It is
    None if the passes of the fastest candidates differ too much, or if the deadline has passed: the
    choice would then depend on chance. Only candidates that may still be chosen stay in memory.
    """
    rows = matrices[0].rows
    first, share = _sample(matrices, FIRST_SET)
    weights = [each.weights() for each in first]
    # The columns without the padding that `shape.inputs` may include.
    width = weights[0].part(1).dense().shape[1]
    inputs = [torch.randn(each, width).to(rows) for each in MEASURED_ROWS]
    passes: dict[str, list[float]] = {}
    held: dict[str, list[Held]] = {}
    for each in candidates:
        held_matrices = _held_by(each, first, weights)
        for x in inputs[:FEW]:
            # The first call may compile the kernel or start threads, so it is not measured.
            held_matrices[0](x, None)
        held[each.name] = held_matrices
        passes[each.name] = _first_pass(held_matrices, inputs, passes, clock)
        if clock() > deadline:
            return None
        _drop(held, passes, SLOW_ONCE)
    # Measure all remaining candidates a second time, because one short disturbance must not decide.
    if len(held) > 1:
        for name, held_matrices in held.items():
            again = _first_pass(held_matrices, inputs, {}, clock)
            passes[name] = list(_least([passes[name], again]))
            if clock() > deadline:
                return None
        _drop(held, passes, SLOW)
    before = {name: tuple(seconds / share for seconds in each) for name, each in passes.items()}
    size = _working_set(len(held))
    if len(held) > 1 and size > FIRST_SET:
        many, share = _sample(matrices, size)
        weights = [each.weights() for each in many]
        held = {
            each.name: _held_by(each, many, weights) for each in candidates if each.name in held
        }
    later: dict[str, list[list[float]]] = {name: [] for name in held}
    for _ in range(LATER_PASSES):
        for name, held_matrices in held.items():
            few = [_seconds(held_matrices, x, clock) / share for x in inputs[:FEW]]
            later[name].append([*few, *before[name][FEW:]])
            if clock() > deadline:
                return None
    if not all(_is_steady(each) for each in later.values()):
        return None
    return _with_dropped(before, {name: _least(each) for name, each in later.items()})


def _sample(matrices: Sequence[Projection], size: int) -> tuple[Sequence[Projection], float]:
    """Return matrices to measure, about `size` bytes together, and their share of a whole matrix.

    The share is 1 unless the sample is a part of one large matrix.
    """
    shape = matrices[0].shape
    outputs = PART_OUTPUTS * math.ceil(shape.outputs * size / max(1, shape.bytes) / PART_OUTPUTS)
    if outputs < shape.outputs:
        part = Projection(matrices[0].weights().part(outputs), rows=matrices[0].rows)
        return [part], outputs / shape.outputs
    return matrices[: min(MOST_MATRICES, 1 + size // max(1, shape.bytes))], 1.0


def _working_set(candidates: int) -> int:
    """Return how many bytes of matrices the later passes measure.

    Each of the `candidates` may need a copy of these matrices.

    All copies together take at most half of the free memory.
    """
    free = free_bytes(torch.device("cpu"))
    return WORKING_SET if free is None else min(WORKING_SET, free // (2 * max(1, candidates)))


def _held_by(
    candidate: KernelCandidate, matrices: Sequence[Projection], weights: Sequence[MatrixWeights]
) -> list[Held]:
    """Return the matrices in the layout of a candidate. Copy only those in another layout."""
    pairs = zip(matrices, weights, strict=True)
    return [each.held(candidate.name) or candidate.hold(own, each.rows) for each, own in pairs]


def _with_dropped(before: Mapping[str, Sequence[float]], found: Times) -> Times:
    """Add the times of the candidates that were dropped after the first pass.

    Their times of the first pass (`before`) were measured with fewer matrices than those of the
    later passes. So these times are multiplied by the factor by which the time of the fastest
    candidate grew from the first pass to the later passes.
    """
    slower = [
        max(1.0, min(each[at] for each in found.values()) / min(before[name][at] for name in found))
        for at in range(len(FIRST_ROWS))
    ]
    scaled = {
        name: tuple(own * factor for own, factor in zip(each, slower, strict=True))
        for name, each in before.items()
    }
    return scaled | dict(found)


def _first_pass(
    matrices: Sequence[Held],
    inputs: Sequence[torch.Tensor],
    passes: Mapping[str, Sequence[float]],
    clock: Clock,
) -> list[float]:
    """Return the seconds of a candidate for each class of rows.

    `passes` has the candidates that were measured before. A candidate that is much slower than the
    candidates measured before is measured with few matrices.
    """
    found: list[float] = []
    for at, x in enumerate(inputs):
        before = [each[at - 1] for each in passes.values()]
        is_hopeless = at > 0 and found[-1] > HOPELESS * min([found[-1], *before])
        if is_hopeless and at == FEW:
            found.append(found[-1] * len(x) / len(inputs[at - 1]))
        else:
            found.append(_seconds(matrices[:FEW_MATRICES] if is_hopeless else matrices, x, clock))
    return found


def _least(passes: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(min(each) for each in zip(*passes, strict=True))


def _is_steady(passes: list[list[float]]) -> bool:
    """Return whether the median pass over few rows took about as long as the shortest pass."""
    sums = sorted(sum(each[:FEW]) for each in passes)
    return sums[len(sums) // 2] < STEADY * sums[0]


def _drop(held: dict[str, list[Held]], passes: Mapping[str, Sequence[float]], slow: float) -> None:
    """Drop the candidates that cannot be chosen after the first pass.

    If some kernels can run all layers in one call, these kernels stay. Another candidate then stays
    if it is faster than they are in a class for decoding, or PROMPT_GAIN times as fast with
    prompts; APART_SECONDS are added to its time. If there are no such kernels, a candidate stays if
    it takes less than `slow` times as long as the fastest in some class.
    """
    together = [name for name in held if BY_NAME[name].layout == TOGETHER]
    least = _least([passes[name] for name in together or held])
    for name in list(held):
        if together:
            extra, gains = APART_SECONDS, (*[1.0] * FEW, PROMPT_GAIN)
        else:
            extra, gains = 0.0, (1 / slow,) * len(least)
        each = zip(passes[name], gains, least, strict=True)
        may_win = any(gain * (own + extra) < best for own, gain, best in each)
        if name not in together and not may_win:
            del held[name]


def _seconds(held_matrices: Sequence[Held], x: torch.Tensor, clock: Clock) -> float:
    """Return the mean seconds of one call, over several matrices one after another."""
    in_turn = held_matrices if len(x) < FIRST_ROWS[FEW] else held_matrices[:FEW_MATRICES]
    began = clock()
    for matrix in in_turn:
        matrix(x, None)
    return (clock() - began) / len(in_turn)
