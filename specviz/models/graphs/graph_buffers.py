"""The tensors at fixed addresses that a sequence's CUDA graphs read and write.

These tensors are the KV cache and the inputs of a forward pass. In shapes, M is the number of
layers, C the number of slots, G the number of key-value heads, D the head size, W the hidden size,
n the number of tokens of a forward pass, N is n rounded up to a power of two (the rest is padding),
S the number of slots that a tree mask covers and E the number of slots that a forward pass sees,
rounded up by `slots_seen`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.models.accelerator import is_accelerator, pinned
from specviz.models.cache import SlotCache
from specviz.models.graphs.captured_work import CapturedWork, GraphSet
from specviz.models.sequence_work import HostNumbers, Numbers, SequenceWork

# The largest number of tokens in a captured forward pass: enough for the largest tree with its
# root, and for a lookahead window.
MOST_TOKENS = 128
# The smallest number of cache slots for which CUDA graphs are captured. The warm-up and most runs
# need no more slots. They therefore use the same graphs, and no capture happens during a timed run.
LEAST_SLOTS = 1024
# number of unused sets of buffers that are kept for later sequences, one per lane of a race
KEPT = 2
# The largest number of kinds of work whose graphs are kept. A run needs one or two kinds of work. A
# run with other settings needs other kinds.
KEPT_KINDS = 8


@dataclass(frozen=True, slots=True)
class StepShape:
    """The properties of a forward pass: passes with equal properties replay the same graph."""

    # The layers that run; None means the whole model, from token ids to logits.
    layers: range | None
    count: int  # N, the number of tokens, padding included
    end: int  # E, the number of slots that the tokens see
    is_tree: bool
    tapped: tuple[int, ...] = ()  # layers whose hidden states the graph also returns


@dataclass(frozen=True, slots=True)
class WorkKind:
    """A piece of work, how many random draws it gets, and the shapes and dtypes of its inputs."""

    work: SequenceWork
    draws: int  # number of random draws that the host passes to the work
    inputs: tuple[tuple[torch.Size, torch.dtype], ...]

    @classmethod
    def of(cls, work: SequenceWork, numbers: HostNumbers, inputs: Sequence[Tensor]) -> WorkKind:
        shapes = tuple((each.shape, each.dtype) for each in inputs)
        return cls(work, len(numbers.draws), shapes)

    @property
    def alike(self) -> tuple[WorkKind, ...]:
        """Return the kinds of work that other rounds of the same run may need instead of this kind.

        For example, a round may run two tokens that the draft's cache lacks instead of one.
        """
        return tuple(replace(self, work=work) for work in self.work.alike)


@dataclass(frozen=True, slots=True)
class WorkShape:
    """The properties of a piece of work: work with equal properties replays the same graph."""

    kind: WorkKind
    end: int  # E, the number of slots that the tokens see


class WorkPlaces:
    """The input tensors that the graphs of one kind of work read."""

    def __init__(self, kind: WorkKind, device: torch.device) -> None:
        count = 1 + kind.work.wholes
        self._packed = torch.zeros(count + kind.draws, dtype=torch.int64, device=device)
        whole = Numbers.views(self._packed, count)
        self.start = whole.wholes[:1]  # the number of cached tokens before the first forward pass
        self.numbers = replace(whole, wholes=whole.wholes[1:])
        self.inputs: list[Tensor] = []
        self._alike: defaultdict[torch.dtype, list[int]] = defaultdict(list)
        for index, (shape, dtype) in enumerate(kind.inputs):
            self.inputs.append(torch.zeros(shape, dtype=dtype, device=device))
            self._alike[dtype].append(index)

    def fill(self, start: int, numbers: HostNumbers, inputs: Sequence[Tensor]) -> None:
        """Write the inputs that the next replay of the graph reads.

        The function makes one copy for all numbers, and one copy for all tensors of each dtype.
        """
        packed = HostNumbers((start, *numbers.wholes), numbers.draws).packed()
        self._packed.copy_(pinned(packed, self._packed.device), non_blocking=True)
        for indices in self._alike.values():
            torch._foreach_copy_([self.inputs[i] for i in indices], [inputs[i] for i in indices])


class GraphBuffers:
    """All tensors that the graphs of a sequence read and write. Their addresses never change."""

    def __init__(
        self,
        layers: int,
        key_heads: int,
        head_size: int,
        width: int,
        slots: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.slots = slots
        self._device = device
        # Use zeros instead of uninitialised memory: attention gives a hidden slot the weight 0, but
        # if the slot contains NaN, 0 times NaN is NaN.
        shape = (layers, 1, 2 * key_heads, slots, head_size)
        self.keys_values = torch.zeros(shape, dtype=dtype, device=device)  # [M, 1, 2 G, C, D]
        self.start = torch.zeros(1, dtype=torch.int64, device=device)
        self.token_ids = torch.zeros(MOST_TOKENS, dtype=torch.int64, device=device)
        self.position_ids = torch.zeros_like(self.token_ids)
        self.hidden = torch.zeros((MOST_TOKENS, width), dtype=dtype, device=device)
        self._masks: dict[tuple[int, int], Tensor] = {}  # [N, E] bool, the masks of draft trees
        self._graphs: dict[StepShape | WorkShape, CapturedWork] = {}
        self._places: dict[WorkKind, WorkPlaces] = {}
        self._set = GraphSet(device)
        self._tables: list[Tensor] = []

    def shape(
        self,
        layers: range | None,
        start: int,
        count: int,
        tree_mask: Tensor | None,
        tapped: tuple[int, ...],
    ) -> StepShape:
        """Return the properties of the graph that can run `count` tokens from slot `start` on."""
        size = power_of_two(count)
        return StepShape(layers, size, slots_seen(start + size), tree_mask is not None, tapped)

    def write_step(
        self, shape: StepShape, start: int, count: int, tree_mask: Tensor | None
    ) -> None:
        """Write the inputs of the next pass: its first slot and, for a tree, its mask [n, S]."""
        self.start.fill_(start)
        if tree_mask is None:
            return
        mask, end = self.mask(shape), start + count
        below = end - tree_mask.shape[1]
        mask.zero_()
        mask[:, :below] = True
        mask[:count, below:end] = tree_mask
        # Padding tokens must see some slot, because on some devices a token that sees no slot gives
        # NaN.
        mask[count:, 0] = True

    def mask(self, shape: StepShape) -> Tensor:  # [N, E]
        """Return the mask tensor for trees of this shape; True means that a token sees a slot."""
        key = (shape.count, shape.end)
        if key not in self._masks:
            self._masks[key] = torch.zeros(key, dtype=torch.bool, device=self._device)
        return self._masks[key]

    def places(self, kind: WorkKind) -> WorkPlaces:
        """Return the input tensors for this kind of work."""
        if kind not in self._places:
            self._places[kind] = WorkPlaces(kind, self._device)
        return self._places[kind]

    def forget_all_but(self, kinds: Sequence[WorkKind]) -> None:
        """Drop the graphs and input tensors of all kinds of work except those in `kinds`."""
        self._places = {kind: each for kind, each in self._places.items() if kind in kinds}
        self._graphs = {
            shape: graph
            for shape, graph in self._graphs.items()
            if isinstance(shape, StepShape) or shape.kind in kinds
        }

    def capture(
        self, shape: StepShape | WorkShape, work: Callable[[], tuple[Tensor, ...]], table: Tensor
    ) -> None:
        """Capture `work` as the graph for this shape. `table` is the rotary table that it reads.

        The capture also runs the work, so the inputs in the buffers must be valid.
        """
        # The list keeps the table alive, because the graph knows only the table's address.
        self._tables.append(table)
        self._graphs[shape] = CapturedWork(work, self._set)

    def has(self, shape: StepShape | WorkShape) -> bool:
        return shape in self._graphs

    def run(self, shape: StepShape | WorkShape) -> tuple[Tensor, ...]:
        """Replay the graph for this shape. The next forward pass overwrites the results."""
        return self._graphs[shape]()

    def clear(self) -> None:
        """Wait until the device has finished its work.

        Then set the cache to zero for another sequence.
        """
        if is_accelerator(self._device):
            torch.cuda.synchronize(self._device)
        self.keys_values.zero_()


class FreeBuffers:
    """The buffers of a model that no sequence uses now, kept because graphs use their addresses.

    This object also remembers which kinds of forward passes the model has run. The graphs of the
    next sequence can then be captured before it starts.
    """

    def __init__(self) -> None:
        self._free: list[GraphBuffers] = []
        # (layers, is_tree) -> largest number of tokens in such a forward pass so far, padding
        # included
        self._most: dict[tuple[range | None, bool], int] = {}
        # the kinds of work that later sequences may need, the newest last
        self._kinds: list[WorkKind] = []
        # A thread may take this lock twice: while it takes buffers, a cache may be freed and return
        # its buffers.
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[type[FreeBuffers], tuple[()]]:
        """Pickle without buffers, because a graph is valid only in the process that captured it."""
        return FreeBuffers, ()

    def take(self, slots: int) -> GraphBuffers | None:
        """Return unused buffers with this number of slots, or None if there are none."""
        with self._lock:
            found = next((each for each in self._free if each.slots == slots), None)
            if found is not None:
                self._free.remove(found)
        return found

    def expect(self, layers: range | None, count: int, is_tree: bool) -> None:
        """Remember that later sequences will need forward passes of up to `count` tokens."""
        # The smallest size is 2, because a draft model runs two tokens at once after a round that
        # accepted its whole chain.
        size = power_of_two(max(2, count))
        with self._lock:
            self._most[layers, is_tree] = max(size, self._most.get((layers, is_tree), 0))

    def expected(self, slots: int, tapped: tuple[int, ...]) -> list[StepShape]:
        """Return the shapes of all forward passes that the next sequence may need.

        The sequence has a cache of `slots` slots. Passes through all layers return the hidden
        states of the layers `tapped`.
        """
        with self._lock:
            kinds = list(self._most.items())
        powers = [1 << i for i in range(slots.bit_length())]
        return [
            StepShape(layers, count, end, is_tree, tapped if layers is None else ())
            for (layers, is_tree), most in kinds
            for count in powers
            if count <= most
            for end in all_slots_seen(slots)
        ]

    def expect_work(self, kind: WorkKind) -> None:
        """Remember that later sequences will need this kind of work.

        Only the newest KEPT_KINDS kinds are remembered.
        """
        newest = (*kind.alike, kind)
        with self._lock:
            self._kinds = [*(each for each in self._kinds if each not in newest), *newest]
            del self._kinds[:-KEPT_KINDS]

    def expected_work(self, slots: int) -> list[WorkShape]:
        """Return the shapes of all work that a sequence with the given number of slots may need."""
        with self._lock:
            kinds = list(self._kinds)
        return [WorkShape(kind, end) for kind in kinds for end in all_slots_seen(slots)]

    def give(self, buffers: GraphBuffers) -> None:
        """Store the buffers of a sequence that has ended, so that the next sequence can use them.

        If there are more than KEPT sets of unused buffers, the oldest set is dropped.
        """
        with self._lock:
            self._free.append(buffers)
            del self._free[:-KEPT]


class GraphCache(SlotCache):
    """The cache of one sequence, with `capacity` slots in `buffers` at fixed addresses.

    When the sequence ends, `free` keeps the buffers for later sequences. The buffers have space for
    a single row. If several rows are written, the cache stores them in usual memory instead.
    """

    def __init__(
        self, layers: int, capacity: int, buffers: GraphBuffers, free: FreeBuffers
    ) -> None:
        super().__init__(layers, capacity)
        self.buffers: GraphBuffers | None = buffers
        self.free = free
        self._buffer = buffers.keys_values
        self._slots = capacity

    def _open(self, start: int, end: int, shape: tuple[int, int, int], like: Tensor) -> None:
        if self.buffers is not None and shape[0] > 1:
            self.buffers, self._buffer, self._slots = None, None, 0
        super()._open(start, end, shape, like)


class GraphSlots:
    """The slots of one captured forward pass: N slots from `start` [1] on, all before slot E.

    Each replay reads `start` again from the memory of the device.
    """

    rows = 1

    def __init__(self, buffers: GraphBuffers, start: Tensor, count: int, end: int) -> None:
        self.count = count
        self.end = end
        keys, values = buffers.keys_values.narrow(3, 0, end).chunk(2, dim=2)
        self._layers, self._keys, self._values = buffers.keys_values.unbind(), keys, values
        device = buffers.keys_values.device
        self._slot_ids = start + torch.arange(count, device=device)  # [N]

    def write(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        self._layers[layer].index_copy_(2, self._slot_ids, keys_values)
        return self._keys[layer], self._values[layer]

    def is_free(self, tree_mask: Tensor | None) -> bool:
        """Return False: a captured pass needs a mask, which hides the slots after its tokens."""
        return False

    def visible(self, tree_mask: Tensor | None, device: torch.device) -> Tensor:  # [N, E]
        """Return which slots each token sees.

        Without `tree_mask`, a token sees all slots up to its own. A given `tree_mask` [N, S]
        decides which of the last S slots a token sees; the token sees all slots before them.
        """
        slots = torch.arange(self.end, device=device)
        if tree_mask is None:
            return slots <= self._slot_ids[:, None]
        covered = tree_mask.shape[1]
        if covered == self.end:
            return tree_mask
        columns = slots - (self._slot_ids[-1:] + 1 - covered)  # [E]
        seen = tree_mask[:, columns.clamp(0, covered - 1)] & (columns < covered)
        return seen | (columns < 0)


def captured_slots(capacity: int) -> int:
    """Return how many slots the cache of a sequence of `capacity` tokens has, padding included.

    >>> captured_slots(100), captured_slots(1000)
    (1024, 2048)
    """
    return max(LEAST_SLOTS, power_of_two(capacity + MOST_TOKENS))


def slots_seen(least: int) -> int:
    """Return how many slots a captured pass sees if it needs at least `least` (>= 1) slots.

    The result is a power of two, or halfway between two of them. So each doubling needs only two
    graphs. If `least` is at least LEAST_SLOTS, the result is less than 1.5 times `least`.

    >>> [slots_seen(n) for n in (1, 1025, 1537, 5000)]
    [1024, 1536, 2048, 6144]
    """
    above = power_of_two(max(LEAST_SLOTS, least))
    between = above // 4 * 3
    return between if max(LEAST_SLOTS, least) <= between else above


def all_slots_seen(slots: int) -> list[int]:
    """Return every value of `slots_seen` up to `slots`, which is a power of two.

    >>> all_slots_seen(4096)
    [1024, 1536, 2048, 3072, 4096]
    """
    powers = [1 << i for i in range(LEAST_SLOTS.bit_length() - 1, slots.bit_length())]
    between = [power // 4 * 3 for power in powers[1:]]
    return sorted(powers + between)


def power_of_two(least: int) -> int:
    """Return the smallest power of two that is at least `least` (>= 1).

    >>> [power_of_two(n) for n in (1, 3, 65)]
    [1, 4, 128]
    """
    return 1 << (least - 1).bit_length()
