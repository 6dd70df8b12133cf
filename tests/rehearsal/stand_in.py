"""The meta device in place of a GPU: it refuses operations that a GPU would refuse or wait for.

A rehearsal checks devices, dtypes, waits and memory. It cannot check kernels, graphs, streams or
speed.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from specviz.decoding.drafters.base import HostTransfer
from specviz.models import accelerator
from specviz.models.graphs.captured_work import GraphSet

PRODUCT = str(Path(accelerator.__file__).parents[1])  # folder of the tested package, `specviz`
META = torch.device("meta")
aten = torch.ops.aten

# Operations whose results depend on values, so that the host must wait for them.
READS = {
    aten.item.default,
    aten._local_scalar_dense.default,
    aten.is_nonzero.default,
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.repeat_interleave.Tensor,
    aten.repeat_interleave.self_Tensor,
    aten._unique2.default,
}
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default}
PINNING = {aten.pin_memory.default, aten._pin_memory.default}
MADE_OF_LISTS = {torch.tensor, torch.as_tensor, Tensor.new_tensor}
INDEXED = {Tensor.__getitem__, Tensor.__setitem__}
COPIES = {aten._to_copy.default, aten.copy_.default, aten.to.device, aten.to.dtype_layout}

# The file or function that makes buffers of another dtype than the model -> the numbers that these
# buffers hold.
INTENDED = {
    "models/accelerator.py upload": "draws are float64",
    "models/graphs/graph_buffers.py WorkPlaces": "q, where the graph that judges it reads it",
    "decoding/sampling.py": "distributions are float32, the sums behind a draw float64",
    "decoding/rules/token_by_token.py": "p and q",
    "decoding/rules/block.py": "p, q and the product of their ratios",
    "decoding/rules/traversal.py": "p, q and the budgets of the rows",
    "decoding/rules/typical.py": "p and its entropy",
    "decoding/verification.py": "p, q and what is packed for the host",
    "decoding/judged_tree.py JudgedTree": "draws are float64",
    "decoding/forest.py": "the same for several trees",
    "decoding/autoregressive.py PlainStep": "the drawn token's probability, for display",
    "decoding/batch.py": "the same for several rows; q of a tree that was cut",
    "decoding/speculative.py SpeculativeRun._verify": "draws are float64",
    "decoding/drafters/static_tree.py": "q of every level",
    "decoding/drafters/static_rows.py": "q of every level and row",
    "decoding/drafters/dynamic_tree.py": "scores, and q for display",
    "decoding/drafters/medusa.py": "q for display",
    "decoding/drafters/cross_vocabulary.py": "the probability of shared tokens, for display",
    "decoding/ahead/board.py": "prepared logits, of which q is made a round later",
    "decoding/ahead/drafting.py": "the same on their way to the board",
    "models/llama/rotary.py Rotary": "angles, which are rounded once they are computed",
    "models/heads/eagle_files.py _Reader.read": "the frequencies of these angles",
    "models/matrix_kernels/weights.py": "scales, and weights while they are rounded",
    "models/matrix_kernels/kernel_candidates.py TorchInt8": "rows of an int8 kernel are bfloat16",
    "models/matrix_kernels/kernel_candidates.py PackedInt4": "rows of int4 kernels, their scales",
    "models/matrix_kernels/kernel_candidates.py Multiplied.in_float32": "logits as summed",
    "models/graphs/captured_model.py CapturedModel.forward": "a copy of these logits",
}
# A file whose weights have another dtype than the model: Medusa heads are stored and run in
# bfloat16.
OTHER_DTYPE = "models/heads/medusa_heads.py"


class Refused(Exception):
    """The error for an operation that a GPU refuses or for which the host must wait."""


@dataclass
class Tape:
    """The numbers that reach the host in a run on a CPU. A rehearsal receives the same numbers."""

    counted: list[list[float]] = field(default_factory=list)  # numbers that `HostTransfer` returned
    # The tensors that a non-blocking copy brought into pinned memory.
    late: list[Tensor] = field(default_factory=list)
    is_recording: bool = True
    _counted_read: int = 0
    _late_read: int = 0

    def rewind(self) -> None:
        """Stop recording; from now on return the recorded numbers from the beginning."""
        self.is_recording, self._counted_read, self._late_read = False, 0, 0

    def to_host(self, transfer: HostTransfer, tensor: Tensor) -> list[float]:
        """Replace `HostTransfer.to_host`: record the copied numbers, or return recorded ones."""
        transfer.count += 1
        if self.is_recording:
            self.counted.append(tensor.tolist())
            return self.counted[-1]
        values = self.counted[self._counted_read]
        self._counted_read += 1
        if tensor.device != META or tensor.shape != (len(values),):
            raise Refused(
                f"{len(values)} numbers were copied in the recorded run, now {tensor.shape} "
                f"from {tensor.device}"
            )
        return values

    def copy_late(self, buffer: Tensor, numbers: Tensor) -> None:
        """Replace a non-blocking copy into pinned memory.

        Record the copied numbers, or return the recorded ones.
        """
        if self.is_recording:
            buffer.copy_(numbers)
            self.late.append(buffer.clone())
        else:
            buffer.copy_(self.late[self._late_read])
            self._late_read += 1

    @property
    def is_at_end(self) -> bool:
        return self._counted_read == len(self.counted)


class StandIn(TorchDispatchMode):
    """A mode that watches every operation of a run on `device`, which stands in for the GPU."""

    def __init__(self, device: torch.device, tape: Tape, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.device = device
        self.tape = tape
        self.dtype = dtype
        self.is_in_round = False
        self.operations = 0
        self.uploads = 0
        self.waits: list[str] = []
        self.live = self.peak = 0  # bytes of memory in use now, and at most so far
        self._storages: dict[int, weakref.ref[Any]] = {}
        self._pinned: dict[int, weakref.ref[Any]] = {}
        self._lists = HostLists(self)

    def __enter__(self) -> StandIn:
        self._lists.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._lists.__exit__(*error)

    @contextmanager
    def in_a_round(self) -> Iterator[None]:
        """In the `with` block, also refuse every copy to the device that makes the host wait."""
        self.is_in_round = True
        try:
            yield
        finally:
            self.is_in_round = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.pop("pin_memory", None):
            made = func(*args, **kwargs)
            self._pin(made)
            return made
        if func in PINNING:
            made = args[0].clone()
            self._pin(made)
            return made
        if func is aten.copy_.default and self._is_pinned(args[0]):
            self.tape.copy_late(args[0], args[1])
            return args[0]
        if self.tape.is_recording:
            return func(*args, **kwargs)
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        into = self._copied(func, args, kwargs)
        is_on_device = any(each.device == self.device for each in given)
        if is_on_device and not into:
            self._check(func, given)
        if is_on_device and func is aten.scaled_dot_product_attention.default:
            result = self._attended(*args, **kwargs)
        elif is_on_device and func is aten._weight_int4pack_mm.default:
            # On the meta device, torch's own kernel works only with fake tensors. So the result is
            # made here.
            result = args[0].new_empty(len(args[0]), 8 * len(args[1]))
        else:
            result = computed(func, args, kwargs)
        held = {each.untyped_storage()._cdata for each in given}
        made = [
            each
            for each in tree_leaves(result)
            if isinstance(each, Tensor)
            and each.device == self.device
            # A result that is a view of an input is not a new tensor, so leave it out.
            and each.untyped_storage()._cdata not in held
        ]
        for each in made:
            self._hold(each)
            self._check_dtype(func, each)
        self.operations += bool(made) or (is_on_device and func._schema.is_mutable) or into
        return result

    def _copied(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Return whether the operation copies to the device; refuse a copy to the host."""
        if func not in COPIES:
            return False
        named = (each for each in (*args[1:], *kwargs.values()) if isinstance(each, torch.device))
        is_copy = func is aten.copy_.default
        source, into = (args[1], args[0].device) if is_copy else (args[0], next(named, None))
        if into is None or into == source.device:
            return False
        if into != self.device:
            raise Refused(f"the host reads from the device: {where()}")
        self.uploads += 1
        is_free = kwargs.get("non_blocking", False) or (is_copy and len(args) > 2 and args[2])
        if self.is_in_round and not is_free:
            raise Refused(f"a blocking copy to the device: {where()}")
        if self.is_in_round and not self._is_pinned(source):
            raise Refused(f"a copy to the device from memory that is not pinned: {where()}")
        return True

    def refuse_list(self, device: torch.device) -> None:
        """Refuse a copy of Python numbers to the device during a round."""
        if not self.tape.is_recording and self.is_in_round and device == self.device:
            raise Refused(f"a blocking copy of a list to the device: {where()}")

    def _pin(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        self._pinned[key] = weakref.ref(storage, lambda _: self._pinned.pop(key, None))

    def _is_pinned(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._pinned

    def _check(self, func: Any, given: list[Tensor]) -> None:
        if func in READS:
            raise Refused(f"the host waits for {func}: {where()}")
        for each in given:
            if each.device != self.device and (each.ndim > 0 or func in INDEXING):
                raise Refused(f"{func} mixes {self.device} with {each.device}: {where()}")
            if func in INDEXING and each.dtype is torch.bool and each is not given[0]:
                raise Refused(f"{func} by a mask of unknown size: {where()}")

    def _attended(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Compute attention without storing the scores, as a fused attention kernel does."""
        dtypes = {query.dtype, key.dtype, value.dtype}
        if len(dtypes) > 1 or (
            attn_mask is not None and attn_mask.dtype not in (*dtypes, torch.bool)
        ):
            raise Refused(f"attention over several dtypes: {where()}")
        if attn_mask is not None:
            torch.broadcast_shapes(attn_mask.shape, (*query.shape[:-1], key.shape[-2]))
        return query.new_empty(*query.shape[:-1], value.shape[-1])

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._storages:
            return
        size = storage.nbytes()

        def gone(_: object) -> None:
            self.live -= size
            self._storages.pop(key, None)

        self._storages[key] = weakref.ref(storage, gone)
        self.live += size
        self.peak = max(self.peak, self.live)

    def _check_dtype(self, func: Any, tensor: Tensor) -> None:
        """Refuse a buffer of another floating dtype than the model's, unless INTENDED allows it."""
        if not tensor.dtype.is_floating_point or tensor.dtype == self.dtype:
            return
        places = [place for place, _ in product_places()]
        is_intended = any(place.startswith(each) for place in places[:1] for each in INTENDED)
        if places and not is_intended and not any(each.startswith(OTHER_DTYPE) for each in places):
            raise Refused(
                f"{func} makes a buffer of {tensor.dtype} instead of {self.dtype}: {where()}"
            )


class HostLists(TorchFunctionMode):
    """A mode that sees every list that becomes a tensor on the device or is used as an index.

    On a GPU, torch copies such a list to the device. On the meta device nothing is copied, so
    the mode `StandIn` cannot see the list.
    """

    def __init__(self, mode: StandIn) -> None:
        super().__init__()
        self._mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in MADE_OF_LISTS:
            given = args[1] if func is Tensor.new_tensor else args[0] if args else None
            default = args[0].device if func is Tensor.new_tensor else "cpu"
            if not isinstance(given, Tensor):
                self._mode.refuse_list(torch.device(kwargs.get("device") or default))
        elif func in INDEXED and any(map(is_list, indices(args[1]))):
            self._mode.refuse_list(args[0].device)
        return func(*args, **kwargs)


def indices(index: Any) -> Sequence[Any]:
    """Return the parts of an index, one for each dimension, as a sequence."""
    return index if isinstance(index, tuple) else (index,)


def is_list(index: Any) -> bool:
    """Return whether torch would convert this part of an index to a tensor."""
    return isinstance(index, (list, range))


def product_places() -> Iterator[tuple[str, int]]:
    """Yield the function and line of each stack frame in specviz's code, innermost frame first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(PRODUCT):
            yield f"{code.co_filename[len(PRODUCT) + 1 :]} {code.co_qualname}", frame.f_lineno
        frame = frame.f_back


def where() -> str:
    """Return the innermost function and line of specviz's code on the call stack."""
    place, line = next(product_places(), ("outside the product", 0))
    return f"{place}, line {line}"


@cache
def makes_one(func: Any) -> bool:
    """Return whether an operation has exactly one result.

    The result is a new tensor, or the first argument after the operation has changed it.
    """
    results, arguments = func._schema.returns, func._schema.arguments
    if len(results) != 1 or str(results[0].type) != "Tensor":
        return False
    if results[0].alias_info is None:
        return not func._schema.is_mutable
    return bool(results[0].alias_info.is_write and arguments[0].alias_info is not None)


# Results that were computed before: an operation and its arguments -> size, stride, dtype and
# device of the result.
_results: dict[Any, Any] = {}


def computed(func: Any, args: Any, kwargs: Any) -> Any:
    """Return an operation's result; for known arguments, make an empty tensor of the same layout.

    This takes a tenth of the time of a meta kernel that is written in Python.
    """
    if not makes_one(func):
        return func(*args, **kwargs)
    try:
        default = torch.get_default_dtype()
        key = (func, default, described(args), described(tuple(kwargs.items())))
        known = _results.get(key)
    except TypeError:  # an argument cannot be a dictionary key
        return func(*args, **kwargs)
    is_in_place = func._schema.is_mutable
    if known is None:
        result = func(*args, **kwargs)
        if result is not args[0] or is_in_place:
            _results[key] = (result.size(), result.stride(), result.dtype, result.device)
        return result
    if is_in_place:
        return args[0]
    size, stride, dtype, device = known
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


def described(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with each tensor replaced by its size, stride, dtype and device."""
    found: list[Any] = []
    for each in arguments:
        if isinstance(each, Tensor):
            found.append((each.shape, each.stride(), each.dtype, each.device))
        elif isinstance(each, (list, tuple)) and not isinstance(each, torch.Size):
            found.append(described(each))
        else:
            found.append((type(each), each))
    return tuple(found)


class Graph:
    """A test double of a CUDA graph: a replay runs the work again and counts as one launch.

    It cannot show whether the work can be captured at all.
    """

    def __init__(self, work: Any, results: tuple[Tensor, ...]) -> None:
        self._work = work
        self._results = results

    def replay(self) -> None:
        with launches_as_one():
            for place, result in zip(self._results, self._work(), strict=True):
                place.copy_(result)


class Event:
    """A test double of a CUDA event; waiting for it is recorded as a wait."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing

    def record(self) -> None:
        """Do nothing, because recording an event costs nothing."""

    def synchronize(self) -> None:
        waited("an event")

    def elapsed_time(self, later: Event) -> float:
        return 1.0


class Stream:
    """A test double of a CUDA stream. The work of all streams runs in the order of its launches."""

    def __init__(self, device: object = None) -> None:
        self.device = device

    def wait_stream(self, other: Stream) -> None:
        """Do nothing, because all work runs in the order of its launches."""

    def synchronize(self) -> None:
        waited("a stream")


_watching: list[StandIn] = []


def waited(subject: str) -> None:
    """Record that the host waited; `subject` names what it waited for."""
    for mode in _watching:
        mode.waits.append(subject)


@contextmanager
def launches_as_one() -> Iterator[None]:
    """Count everything that is launched inside the `with` block as one operation."""
    before = [mode.operations for mode in _watching]
    yield
    for mode, count in zip(_watching, before, strict=True):
        mode.operations = count + 1


@contextmanager
def watching(mode: StandIn) -> Iterator[StandIn]:
    """Watch every operation inside the `with` block."""
    with mode:
        _watching.append(mode)
        try:
            yield mode
        finally:
            _watching.remove(mode)


def stand_in_for_cuda(patch: pytest.MonkeyPatch) -> None:
    """Make the meta device and the CPU take a GPU's code paths, with doubles of `torch.cuda`."""

    @contextmanager
    def entered(stream: Stream) -> Iterator[None]:
        yield

    def capture(graphs: GraphSet, work: Any) -> tuple[Graph, tuple[Tensor, ...]]:
        with launches_as_one():
            results = work()
        return Graph(work, results), results

    patch.setattr(accelerator, "ACCELERATORS", {"cuda", "meta", "cpu"})
    patch.setattr(GraphSet, "capture", capture)
    patch.setattr(torch.cuda, "Event", Event)
    patch.setattr(torch.cuda, "Stream", Stream)
    patch.setattr(torch.cuda, "stream", entered)
    patch.setattr(torch.cuda, "current_stream", Stream)
    patch.setattr(torch.cuda, "synchronize", lambda device=None: waited("the device"))
