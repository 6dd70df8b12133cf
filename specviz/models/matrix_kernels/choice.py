"""Choose a kernel for each matrix and each number of rows, from measured times or fixed rules.

A kernel multiplies rows of numbers by a matrix. In shapes, T is the number of rows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from specviz.models.matrix_kernels.kernel_candidates import BY_NAME, offered
from specviz.models.matrix_kernels.weights import MatrixShape

# Smallest number of rows in each class: 1, 2-3, 4-8, 9-16, 17 or more rows.
FIRST_ROWS = (1, 2, 4, 9, 17)
# The number of rows with which each class is measured.
MEASURED_ROWS = (1, 3, 6, 12, 64)
# The number of classes for decoding. It is also the index of the last class, which is for prompts.
FEW = 4
# The largest number of rows for which rounded weights still use the same kernel as for one row.
MOST_ALIKE = FIRST_ROWS[FEW] - 1
# A second layout doubles the memory of a matrix, so it is used only if it makes decoding
# DECODING_GAIN times as fast, or prompts PROMPT_GAIN times. The gain for prompts must be larger
# because a prompt runs only once per text.
DECODING_GAIN, PROMPT_GAIN = 1.15, 2.0
# If one kernel takes at most this many times as long as the fastest in every decoding class, it
# serves all decoding classes. The rounding then does not change with the number of rows.
NEAR = 1.05
# Only with the layout "panels" can all layers run in one call of compiled code. In other layouts,
# each operation is a call of its own, which costs APART_SECONDS more for every matrix.
TOGETHER, APART_SECONDS = "panels", 20e-6
# The layout "panels" is preferred if its time is at most NEAR_TOGETHER times that of the best other
# layout. On a busy machine, measured times differ by as much.
NEAR_TOGETHER = 1.2
# A matrix in panels gets a second layout for some classes only if that makes these classes
# APART_GAIN times as fast, because with a second layout the layers no longer run in one call.
APART_GAIN = 1.5
# The weight of each class of row counts in the total time by which a layout is chosen.
_SHARES = (4.0, 2.0, 2.0, 1.0, 0.02)

# The size in bytes below which oneDNN's cost per call for one row is larger than the gain from its
# layout.
SMALL_BYTES = 1 << 20
# The size in bytes below which oneDNN's cost per call, for any number of rows, is larger than the
# gain from its layout.
TINY_BYTES = 32 << 10


@dataclass(frozen=True, slots=True, order=True)
class MatrixKind:
    """The properties of a matrix that decide its kernel.

    Matrices with equal properties have the same kernel.
    """

    form: str  # dtype of the weights
    rows: str  # dtype of x
    outputs: int
    inputs: int
    threads: int
    only_plain: bool  # no layout other than the plain matrix is allowed

    @classmethod
    def of(
        cls, shape: MatrixShape, rows: torch.dtype, threads: int, only_plain: bool
    ) -> MatrixKind:
        name = str(rows).removeprefix("torch.")
        return cls(shape.form, name, shape.outputs, shape.inputs, threads, only_plain)


@dataclass(frozen=True, slots=True)
class Choice:
    """The name in `CANDIDATES` of the chosen kernel for each class of rows.

    `times` are the measured seconds of one call for each name and class. It is empty if fixed rules
    chose.
    """

    names: tuple[str, ...]
    times: Mapping[str, tuple[float, ...]]

    @property
    def layouts(self) -> tuple[str, ...]:
        """Return the layouts of the chosen kernels, without duplicates."""
        return tuple(dict.fromkeys(BY_NAME[name].layout for name in self.names))

    @property
    def is_measured(self) -> bool:
        return bool(self.times)


def row_class(rows: int) -> int:
    """Return the index of the class in FIRST_ROWS to which a number of rows belongs.

    >>> [row_class(rows) for rows in (1, 2, 3, 4, 8, 9, 16, 17, 500)]
    [0, 1, 1, 2, 2, 3, 3, 4, 4]
    """
    return bisect_right(FIRST_ROWS, rows) - 1


def chosen(times: Mapping[str, Sequence[float]], most_layouts: int, is_rounded: bool) -> Choice:
    """Choose kernels from measured seconds.

    `times` has one number per candidate and class of row counts. First the layout with the least
    total time is chosen. In this total, a class weighs more if it occurs more often in decoding. If
    `most_layouts` is above 1, a second layout may be added for the classes that it makes faster by
    DECODING_GAIN or PROMPT_GAIN. `is_rounded` means that all numbers of rows up to MOST_ALIKE use
    one kernel: a quantised copy that drafts for several texts at once must draft the same tokens as
    for one text.
    """
    measured = times
    times = {name: [s + _apart(name) for s in each] for name, each in measured.items()}
    layouts = sorted({BY_NAME[name].layout for name in times})
    near = math.inf if is_rounded else NEAR
    best = {each: _best(times, each, near) for each in layouts}
    first = min(
        layouts,
        key=lambda each: _weighted(times, best[each]) / (NEAR_TOGETHER if each == TOGETHER else 1),
    )
    names = best[first]
    if most_layouts > 1 and not is_rounded:
        pairs = [_with_second(times, names, best[each]) for each in layouts if each != first]
        names = min([names, *pairs], key=lambda each: _weighted(times, each))
    return Choice(names, {name: tuple(each) for name, each in measured.items()})


def _apart(name: str) -> float:
    """Return the extra seconds per call of a kernel; 0 if layers can run in one call with it."""
    return 0.0 if BY_NAME[name].layout == TOGETHER else APART_SECONDS


def _best(times: Mapping[str, Sequence[float]], layout: str, near: float) -> tuple[str, ...]:
    """Return the fastest kernel of a layout for each class.

    If one kernel is nearly the fastest in all decoding classes, all decoding classes use this
    kernel.
    """
    names = [name for name in times if BY_NAME[name].layout == layout]
    fastest = [min(names, key=lambda n: times[n][at]) for at in range(len(FIRST_ROWS))]
    for name in sorted(names, key=lambda n: _weighted(times, [n] * FEW)):
        if all(times[name][at] <= near * times[fastest[at]][at] for at in range(FEW)):
            return (*[name] * FEW, fastest[-1])
    return tuple(fastest)


def _with_second(
    times: Mapping[str, Sequence[float]], first: tuple[str, ...], second: tuple[str, ...]
) -> tuple[str, ...]:
    names = []
    is_together = BY_NAME[first[0]].layout == TOGETHER
    decoding = APART_GAIN if is_together else DECODING_GAIN
    for at, (own, other) in enumerate(zip(first, second, strict=True)):
        gain = decoding if at < FEW else PROMPT_GAIN
        names.append(other if times[own][at] > gain * times[other][at] else own)
    return tuple(names)


def _weighted(times: Mapping[str, Sequence[float]], names: Sequence[str]) -> float:
    return sum(
        share * times[name][at]
        for at, (share, name) in enumerate(zip(_SHARES, names, strict=False))
    )


def by_rule(
    shape: MatrixShape, rows: torch.dtype, only_plain: bool, most_layouts: int = 2
) -> Choice:
    """Choose kernels by fixed rules: for small models, for GPUs, and if no times were measured.

    `only_plain` allows no layout other than the plain matrix, which is in memory anyway.
    """
    names = [each.name for each in offered(shape, rows, only_plain)]
    is_float32 = shape.form == "float32"
    if is_float32 and shape.bytes < TINY_BYTES and "mm" in names:
        return _same("mm")
    if "compiled" in names:
        return _same("compiled")
    if "onednn-16" in names:
        has_second = most_layouts > 1 and is_float32 and shape.bytes < SMALL_BYTES
        return Choice(("mm-transposed" if has_second else "onednn-16", *["onednn-16"] * FEW), {})
    # For prompts, it is faster to convert the whole matrix first, as "widened-int8" does.
    if "torch-int8" in names:
        return Choice((*["torch-int8"] * FEW, "widened-int8"), {})
    return _same(next(name for name in ("onednn", "mm", *names) if name in names))


def _same(name: str) -> Choice:
    return Choice((name,) * len(FIRST_ROWS), {})
