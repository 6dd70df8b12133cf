"""Choose the matrix kernels of loaded models, once per kind of matrix and process.

Measured times come from this process, from disk, or from a new measurement. All lanes of a race use
the same models, so they also use the same kernels.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import torch

from specviz.environment import Environment
from specviz.models.matrix_kernels.choice import Choice, MatrixKind, by_rule, chosen
from specviz.models.matrix_kernels.kernel_candidates import KernelCandidate, offered
from specviz.models.matrix_kernels.measuring import Clock, Times, measure
from specviz.models.matrix_kernels.projection import Projection
from specviz.models.matrix_kernels.remembered import read_times, write_times
from specviz.models.matrix_kernels.weights import MatrixShape

# After this many seconds of measuring for one model, no new measurement starts.
BUDGET_SECONDS = 1.5
# After this many seconds, the current measurement stops as well.
MOST_SECONDS = 3.0
# If all matrices of a model have fewer bytes than this, nothing is measured, because every kernel
# is fast enough.
LEAST_BYTES = 64 << 20

_known: dict[MatrixKind, Times] = {}
_lock = threading.Lock()


def settle(
    projections: Iterable[object],
    environment: Environment | None = None,
    clock: Clock = time.perf_counter,
) -> None:
    """Choose the best kernel for every Projection, for the current number of threads.

    Objects of other types are ignored. This happens once per number of threads, so a kernel never
    changes between two runs. For small models, and on a GPU, fixed rules choose.
    """
    environment = environment or Environment.read()
    groups = _new_groups(projections, environment)
    size = sum(each.shape.bytes for group in groups.values() for each in group)
    with _lock:
        if size >= LEAST_BYTES:
            _measure_unknown(groups, environment, clock)
        for kind, group in groups.items():
            for each in group:
                choice = _chosen(kind, each.shape, each.rows, environment, _known)
                each.adopt(choice, kind.threads)


def expected(
    shapes: Mapping[MatrixShape, int], rows: torch.dtype, environment: Environment
) -> dict[MatrixShape, Choice]:
    """Predict the choices for a model that is not loaded.

    `shapes` has the shapes of its matrices, and the number of matrices of each shape.
    """
    size = sum(shape.bytes * count for shape, count in shapes.items())
    known = read_times(environment.cache_folder) | _known if size >= LEAST_BYTES else {}
    threads = torch.get_num_threads()
    return {
        shape: _chosen(MatrixKind.of(shape, rows, threads, False), shape, rows, environment, known)
        for shape in shapes
    }


def _new_groups(
    projections: Iterable[object], environment: Environment
) -> dict[MatrixKind, list[Projection]]:
    """Group projections by kind.

    Leave out projections whose kernels were already chosen for the current number of threads.
    """
    groups: dict[MatrixKind, list[Projection]] = defaultdict(list)
    threads = torch.get_num_threads()
    for each in projections:
        if isinstance(each, Projection) and each.threads != threads:
            only_plain = each.only_plain or (each.is_shared and environment.small_memory)
            groups[MatrixKind.of(each.shape, each.rows, threads, only_plain)].append(each)
    return groups


def _measure_unknown(
    groups: dict[MatrixKind, list[Projection]], environment: Environment, clock: Clock
) -> None:
    candidates = {
        kind: offered(group[0].shape, group[0].rows, kind.only_plain)
        for kind, group in groups.items()
        if group[0].shape.device == "cpu"
    }
    if all(_is_complete(_known.get(kind), each) for kind, each in candidates.items()):
        return
    # If another process has stored other times meanwhile, the times of this process stay.
    _known.update(read_times(environment.cache_folder) | _known)
    missing = [k for k, each in candidates.items() if not _is_complete(_known.get(k), each)]
    missing.sort(key=lambda kind: -len(groups[kind]) * groups[kind][0].shape.bytes)
    began, is_new = clock(), False
    for number, kind in enumerate(missing):
        if number and clock() > began + BUDGET_SECONDS:
            break  # the remaining kinds of matrix are measured when the program starts again
        group = groups[kind]
        deadline = began + MOST_SECONDS
        times = measure(group, candidates[kind], deadline)
        # If the machine was busy, fixed rules choose for this kind until the program starts again.
        if times is not None:
            _known[kind] = times
            is_new = True
    if is_new:
        # Another process may have stored the times of other matrices since this one read the file.
        write_times(environment.cache_folder, read_times(environment.cache_folder) | _known)


def _is_complete(times: Times | None, candidates: Sequence[KernelCandidate]) -> bool:
    """Return whether `times` has the times of these candidates and of no others."""
    return times is not None and set(times) == {each.name for each in candidates}


def _chosen(
    kind: MatrixKind,
    shape: MatrixShape,
    rows: torch.dtype,
    environment: Environment,
    known: Mapping[MatrixKind, Times],
) -> Choice:
    times = known.get(kind)
    most_layouts = 1 if environment.small_memory else 2
    if times is None or not _is_complete(times, offered(shape, rows, kind.only_plain)):
        return by_rule(shape, rows, kind.only_plain, most_layouts)
    return chosen(times, most_layouts, shape.form in ("int8", "int4"))
