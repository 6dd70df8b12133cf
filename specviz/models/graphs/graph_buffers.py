"""Tensors at fixed addresses that a sequence's CUDA graphs read and write: its cache and inputs.

Letters: M layers, C slots, G key-value heads, D head size, W hidden size, n tokens of a step,
N = n rounded up to a power of two (those behind the n are padding), E slots that a step sees, also
a power of two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.models.cache import SlotCache
from specviz.models.graphs.captured_work import CapturedWork, GraphSet

MOST_TOKENS = 128  # of one step: the largest tree with its root, or a lookahead window
LEAST_SLOTS = 1024  # the same for a warm-up and most runs, so that none captures while it is timed
KEPT = 2  # sets of buffers that wait for the next run: one a lane


@dataclass(frozen=True, slots=True)
class StepShape:
    """What one graph is captured for."""

    layers: range | None  # None: from token ids to logits
    count: int  # N
    end: int  # E
    is_tree: bool
    tapped: tuple[int, ...] = ()  # layers whose hidden states it hands out


class GraphBuffers:
    """Everything that a sequence's graphs read and write, at addresses that never change."""

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
        # zeros, not memory as it is: a hidden slot weighs nothing, but nothing times NaN is NaN
        shape = (layers, 1, 2 * key_heads, slots, head_size)
        self.keys_values = torch.zeros(shape, dtype=dtype, device=device)  # [M, 1, 2 G, C, D]
        self.start = torch.zeros(1, dtype=torch.int64, device=device)
        self.token_ids = torch.zeros(MOST_TOKENS, dtype=torch.int64, device=device)
        self.position_ids = torch.zeros_like(self.token_ids)
        self.hidden = torch.zeros((MOST_TOKENS, width), dtype=dtype, device=device)
        self._masks: dict[tuple[int, int], Tensor] = {}  # [N, E] bool of trees
        self._graphs: dict[StepShape, CapturedWork] = {}
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
        """The shape whose graph fits `count` tokens at slot `start`."""
        size = power_of_two(count)
        end = max(LEAST_SLOTS, power_of_two(start + size))
        return StepShape(layers, size, end, tree_mask is not None, tapped)

    def write_step(
        self, shape: StepShape, start: int, count: int, tree_mask: Tensor | None
    ) -> None:
        """Write where the tokens stand and, of a tree [n, S], which slots each of them sees."""
        self.start.fill_(start)
        if tree_mask is None:
            return
        mask, end = self.mask(shape), start + count
        below = end - tree_mask.shape[1]
        mask.zero_()
        mask[:, :below] = True
        mask[:count, below:end] = tree_mask
        mask[count:, 0] = True  # seeing nothing is NaN on some devices

    def mask(self, shape: StepShape) -> Tensor:  # [N, E]
        """Where the mask of a tree of that shape is kept, True = attend."""
        key = (shape.count, shape.end)
        if key not in self._masks:
            self._masks[key] = torch.zeros(key, dtype=torch.bool, device=self._device)
        return self._masks[key]

    def capture(
        self, shape: StepShape, work: Callable[[], tuple[Tensor, ...]], table: Tensor
    ) -> None:
        """Capture `work` for that shape; `table` is the rotary table that it looks positions up in.

        The inputs must make sense, for the work runs on them.
        """
        self._tables.append(table)  # a graph knows its address only
        self._graphs[shape] = CapturedWork(work, self._set)

    def has(self, shape: StepShape) -> bool:
        return shape in self._graphs

    def run(self, shape: StepShape) -> tuple[Tensor, ...]:
        """Replay the graph of that shape. The results are overwritten by the next step."""
        return self._graphs[shape]()

    def clear(self) -> None:
        """Ready for another sequence, once whatever ran here before has ended."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self.keys_values.zero_()


class FreeBuffers:
    """Buffers that no sequence uses now, kept for the graphs that were captured on them.

    Remembers what kinds of step the model has run, so that the graphs of the next sequence can be
    captured before it begins.
    """

    def __init__(self) -> None:
        self._free: list[GraphBuffers] = []
        self._most: dict[tuple[range | None, bool], int] = {}  # N by layers and is_tree
        self._lock = threading.RLock()  # a cache may be collected while buffers are being taken

    def __reduce__(self) -> tuple[type[FreeBuffers], tuple[()]]:
        """Pickled without any: graphs are good for one process."""
        return FreeBuffers, ()

    def take(self, slots: int) -> GraphBuffers | None:
        """Buffers of so many slots, if there are any."""
        with self._lock:
            found = next((each for each in self._free if each.slots == slots), None)
            if found is not None:
                self._free.remove(found)
        return found

    def expect(self, layers: range | None, count: int, is_tree: bool) -> None:
        """Steps of up to `count` tokens are to come."""
        size = power_of_two(max(2, count))  # after a chain that passed, a draft runs two tokens
        with self._lock:
            self._most[layers, is_tree] = max(size, self._most.get((layers, is_tree), 0))

    def expected(self, slots: int, tapped: tuple[int, ...]) -> list[StepShape]:
        """The shapes of all steps that a sequence of so many slots may come to.

        Whole forwards hand out the states of the layers `tapped`.
        """
        with self._lock:
            kinds = list(self._most.items())
        powers = [1 << i for i in range(slots.bit_length())]
        return [
            StepShape(layers, count, end, is_tree, tapped if layers is None else ())
            for (layers, is_tree), most in kinds
            for count in powers
            if count <= most
            for end in powers
            if end >= LEAST_SLOTS
        ]

    def give(self, buffers: GraphBuffers) -> None:
        """Keep these for the next sequence; beyond KEPT the oldest go."""
        with self._lock:
            self._free.append(buffers)
            del self._free[:-KEPT]


class GraphCache(SlotCache):
    """A sequence's cache in `buffers` of its own, which go back to `free`; `capacity` slots.

    More than one row finds no room there: those are held as in any other cache.
    """

    def __init__(
        self, layers: int, capacity: int, buffers: GraphBuffers, free: FreeBuffers
    ) -> None:
        super().__init__(layers, capacity)
        self.buffers: GraphBuffers | None = buffers
        self.free = free
        self._buffer = buffers.keys_values
        self._slots = capacity

    def _open(self, start: int, end: int, like: Tensor) -> None:
        if self.buffers is not None and like.shape[0] > 1:
            self.buffers, self._buffer, self._slots = None, None, 0
        super()._open(start, end, like)


class GraphSlots:
    """The slots of one captured step: N tokens from `buffers.start` on, below slot E.

    Where they start is read on the device at each replay.
    """

    rows = 1

    def __init__(self, buffers: GraphBuffers, count: int, end: int) -> None:
        self.count = count
        self.end = end
        keys, values = buffers.keys_values.narrow(3, 0, end).chunk(2, dim=2)
        self._layers, self._keys, self._values = buffers.keys_values.unbind(), keys, values
        device = buffers.keys_values.device
        self._slot_ids = buffers.start + torch.arange(count, device=device)  # [N]

    def write(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """See `Slots.write`."""
        self._layers[layer].index_copy_(2, self._slot_ids, keys_values)
        return self._keys[layer], self._values[layer]

    def is_free(self, tree_mask: Tensor | None) -> bool:
        """Never: behind the tokens there are slots that nobody must see."""
        return False

    def visible(self, tree_mask: Tensor | None, device: torch.device) -> Tensor:  # [N, E]
        """The mask of a tree, which covers all E; else all slots up to a token's own."""
        if tree_mask is not None:
            return tree_mask
        return torch.arange(self.end, device=device) <= self._slot_ids[:, None]


def power_of_two(least: int) -> int:
    """The smallest power of two from `least` (>= 1) on.

    >>> [power_of_two(n) for n in (1, 3, 65)]
    [1, 4, 128]
    """
    return 1 << (least - 1).bit_length()
