"""The times of the matrix kernels in a step, and a check whether other kernels would be faster.

The kernels are timed in forwards of the whole model. A forward of a single matrix would be too
fast, because its weights would stay in the processor's cache. Only models of the Llama family on a
CPU choose among kernels. A block is a series of STEPS timed steps of one model. In shapes, T is the
number of tokens, and I and O are the sizes of a matrix's input and output.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import cast

from torch import Tensor

from specviz.models.language_model import LanguageModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.matrix_kernels.choice import FIRST_ROWS, Choice, by_rule, row_class
from specviz.models.matrix_kernels.kernel_candidates import offered
from specviz.models.matrix_kernels.projection import Projection
from specviz.models.matrix_kernels.weights import MatrixShape

HEAD = "head"
KINDS = ("qkv", "out", "gate_up", "down", HEAD)
STEP = "step"  # key for the time of a whole forward whose operations are called one by one
FORWARD = "forward"  # key for the time of a whole forward as in decoding
# The number of tokens in a forward that verifies a draft of five tokens: it also runs the token
# before them.
FEW_ROWS = 6
# The largest allowed ratio of the baseline's step to the fastest known step. Above it, the check
# fails.
ALLOWED = 1.1
WARM_UP_STEPS = 3
STEPS = 12  # timed steps per block
# A kernel counts as faster if it saves at least this share of the time that all matrices of one
# kind take in a forward.
LEAST_GAIN = 0.02

Clock = Callable[[], float]
# A function that takes a model and returns a function that runs one forward of it.
Forward = Callable[[LlamaModel], Callable[[], None]]
# A function that returns a map from each kind of matrix, and from STEP and FORWARD, to seconds.
Measure = Callable[[LlamaModel, Forward], Mapping[str, float]]
# A function that runs the multiplication by a matrix, and measures it under the name of the
# matrix's kind. It takes this name and the call, and returns the result of the call.
Watch = Callable[[str, Callable[[], Tensor]], Tensor]


@dataclass(frozen=True, slots=True)
class KernelCost:
    """The time of one kind of matrix in a forward of `rows` tokens, with its chosen kernel.

    `matrices` is the number of matrices of this kind and `bytes` their total size. `seconds` is the
    median time of all their multiplications in one forward.
    """

    kind: str
    rows: int
    matrices: int
    bytes: int
    kernel: str
    seconds: float
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class BetterKernel:
    """A kind of matrix for which another kernel is faster in a forward of one token.

    `ratio` is the time of the kernel `candidate` divided by that of the chosen kernel. Both times
    are the minimum over equally many alternating steps. `gain_seconds` is what a step of the whole
    model would save.
    """

    kind: str
    chosen: str
    candidate: str
    ratio: float
    gain_seconds: float


@dataclass(frozen=True, slots=True)
class BaselineCheck:
    """The baseline's step compared with a step that uses the fastest kernels.

    `seconds` is the time of the baseline's step as in decoding, where compiled kernels run all
    layers in one call. `better` lists the kernels that would be faster, the largest gain first.
    They were measured in steps whose operations are called one by one. `best_seconds` is therefore
    the time of such a step minus all gains, or `seconds` if that is less. `ratio` is `seconds` /
    `best_seconds`. If it is above ALLOWED, the baseline is too slow, and `shortfall` says so in one
    sentence.
    """

    seconds: float
    best_seconds: float
    ratio: float
    candidates: tuple[str, ...]
    better: tuple[BetterKernel, ...]
    shortfall: str | None


def chooses_kernels(model: LanguageModel) -> bool:
    """Return whether specviz chooses the model's matrix kernels among several."""
    return isinstance(model, LlamaModel) and model.device.type == "cpu"


def kernel_costs(model: LlamaModel, forward: Forward, rows: int) -> tuple[KernelCost, ...]:
    """Time every kind of matrix; `forward` makes a function that runs a step with `rows` tokens."""
    found = seconds_by_kind(model, forward)
    return tuple(_cost(kind, rows, _matrices(model, kind), found[kind]) for kind in KINDS)


def _cost(kind: str, rows: int, matrices: Sequence[Projection], seconds: float) -> KernelCost:
    size = sum(each.shape.bytes for each in matrices)
    name = _chosen(matrices[0], rows)
    return KernelCost(kind, rows, len(matrices), size, name, seconds, size / seconds)


def check_baseline(
    model: LlamaModel,
    forward: Forward,
    blocks: int,
    progress: Callable[[str], None] = lambda line: None,
    measure: Measure | None = None,
) -> BaselineCheck:
    """Compare every other matrix kernel with the chosen ones, in forwards of one token.

    The chosen and the other kernel run in neighbouring blocks. Only one kernel's copy of the
    weights is in memory at a time. The fastest steps are compared, because other work on the
    machine only adds time. Medians would let one of so many kernels win by chance.
    """
    measure = measure or partial(seconds_by_kind, pick=min)
    tried: list[str] = []
    ratios: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    chosen: dict[str, list[float]] = defaultdict(list)
    for name in _candidates(model):
        progress(f"{name}: {blocks} pairs of blocks of {STEPS} steps")
        times = _side_by_side(model, _with_candidate(model, name), forward, blocks, measure)
        tried.append(name)
        for key in (STEP, FORWARD):
            chosen[key] += [each[key] for each in times[0]]
        for kind in KINDS:
            own, other = ([each[kind] for each in lane] for lane in times)
            chosen[kind] += own
            if any(name in _allowed(each) for each in _matrices(model, kind)):
                ratios[kind][name] = min(other) / min(own)
    own_seconds = {kind: min(each) for kind, each in chosen.items()}
    better, step = _better(model, ratios, own_seconds), own_seconds[FORWARD]
    best = min(step, own_seconds[STEP] - sum(each.gain_seconds for each in better))
    return BaselineCheck(
        seconds=step,
        best_seconds=best,
        ratio=step / best,
        candidates=tuple(tried),
        better=better,
        shortfall=_shortfall(step, best, better),
    )


def _shortfall(seconds: float, best: float, better: Sequence[BetterKernel]) -> str | None:
    if seconds <= ALLOWED * best:
        return None
    changes = (f"{each.candidate} instead of {each.chosen} for {each.kind}" for each in better)
    return (
        f"the baseline's step must take at most {ALLOWED} times that of the best matrix "
        f"kernels, got {1000 * seconds:.2f} ms against {1000 * best:.2f} ms "
        f"({seconds / best:.2f} times) with " + ", ".join(changes)
    )


def _side_by_side(
    model: LlamaModel,
    variant: LlamaModel,
    forward: Forward,
    blocks: int,
    measure: Measure,
) -> tuple[list[Mapping[str, float]], list[Mapping[str, float]]]:
    """Run both models in neighbouring blocks; return their seconds by kind of matrix.

    The result has one mapping for each block.
    """
    times: tuple[list[Mapping[str, float]], list[Mapping[str, float]]] = ([], [])
    for block in range(blocks):
        order = ((0, model), (1, variant))
        for lane, each in order if block % 2 == 0 else order[::-1]:
            times[lane].append(measure(each, forward))
    return times


def _better(
    model: LlamaModel, ratios: Mapping[str, Mapping[str, float]], seconds: Mapping[str, float]
) -> tuple[BetterKernel, ...]:
    """Return the fastest other kernel for each kind of matrix, if it saves at least LEAST_GAIN."""
    found = []
    for kind, by_name in ratios.items():
        own = _chosen(_matrices(model, kind)[0], 1)
        name = min(by_name, key=lambda each: by_name[each], default=own)
        if name != own and by_name[name] < 1 - LEAST_GAIN:
            gain = (1 - by_name[name]) * seconds[kind]
            found.append(BetterKernel(kind, own, name, by_name[name], gain))
    return tuple(sorted(found, key=lambda each: -each.gain_seconds))


def _candidates(model: LlamaModel) -> Iterator[str]:
    """Yield the name of every kernel that can multiply some matrix of the model, each once."""
    matrices = [each for kind in KINDS for each in _matrices(model, kind)]
    yield from dict.fromkeys(name for matrix in matrices for name in _allowed(matrix))


def _with_candidate(model: LlamaModel, name: str) -> LlamaModel:
    """Return a copy of the model in which this kernel multiplies every matrix that it can."""

    def convert(matrix: Projection) -> Projection:
        if name not in _allowed(matrix):
            return matrix
        made = Projection(matrix.weights(), matrix.bias, matrix.rows)
        made.adopt(Choice((name,) * len(FIRST_ROWS), {}), matrix.threads)
        return made

    layers = [each.converted(convert) for each in model.layers]
    return model.with_layers(layers, model.info, convert(model.head))


def _allowed(matrix: Projection) -> tuple[str, ...]:
    """Return the names of the kernels that specviz may choose for a matrix."""
    return tuple(each.name for each in offered(matrix.shape, matrix.rows, matrix.only_plain))


def _matrices(model: LlamaModel, kind: str) -> tuple[Projection, ...]:
    if kind == HEAD:
        return (model.head,)
    return tuple(getattr(layer, kind) for layer in model.layers)


def _chosen(matrix: Projection, rows: int) -> str:
    choice = matrix.choice or by_rule(matrix.shape, matrix.rows, matrix.only_plain)
    return choice.names[row_class(rows)]


class WatchedProjection:
    """A matrix that passes each of its multiplications, with its kind, to a `watch` function."""

    def __init__(self, projection: Projection, kind: str, watch: Watch) -> None:
        self._projection, self._kind, self._watch = projection, kind, watch

    def __call__(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        return self._watch(self._kind, lambda: self._projection(x))

    @property
    def shape(self) -> MatrixShape:
        return self._projection.shape

    def step(self, x: Tensor, y: Tensor, added: Tensor | None = None) -> None:
        """Return None, which excludes the matrix from compiled programs.

        Inside a program, `watch` would not receive its multiplications.
        """

    def in_float32(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        return self._watch(self._kind, lambda: self._projection.in_float32(x))

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:  # [T, O], [T, I] -> [T, O]
        return self._watch(self._kind, lambda: self._projection.add_to(residual, x))


def watched(model: LlamaModel, watch: Watch) -> LlamaModel:
    """Return a copy of the model in which `watch` receives every matrix multiplication."""

    def wrap(kind: str, projection: Projection) -> Projection:
        # The wrapper has all methods that a layer calls, so a layer can use it as a Projection.
        return cast(Projection, WatchedProjection(projection, kind, watch))

    layers = [
        replace(
            each,
            qkv=wrap("qkv", each.qkv),
            out=wrap("out", each.out),
            gate_up=wrap("gate_up", each.gate_up),
            down=wrap("down", each.down),
        )
        for each in model.layers
    ]
    return model.with_layers(layers, model.info, wrap(HEAD, model.head))


def seconds_by_kind(
    model: LlamaModel,
    forward: Forward,
    clock: Clock = time.perf_counter,
    pick: Callable[[list[float]], float] = median,
) -> dict[str, float]:
    """Return the seconds of each kind of matrix in one forward, and of whole forwards.

    The matrices are timed in forwards whose operations are called one by one; STEP is the time of
    such a forward. FORWARD is the time of a forward as in decoding. `pick` reduces the times of
    STEPS forwards to one number, such as their median.
    """
    spent = dict.fromkeys(KINDS, 0.0)

    def watch(kind: str, multiply: Callable[[], Tensor]) -> Tensor:
        began = clock()
        found = multiply()
        spent[kind] += clock() - began
        return found

    step, whole = forward(watched(model, watch)), forward(model)
    times: dict[str, list[float]] = defaultdict(list)
    for index in range(WARM_UP_STEPS + STEPS):
        spent.update(dict.fromkeys(KINDS, 0.0))
        began = clock()
        step()
        spent[STEP] = clock() - began
        began = clock()
        whole()
        spent[FORWARD] = clock() - began
        for kind, seconds in spent.items() if index >= WARM_UP_STEPS else ():
            times[kind].append(seconds)
    return {kind: pick(each) for kind, each in times.items()}
