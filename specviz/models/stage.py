"""The fixed places that one sequence's steps run over: its slots, their inputs, their recordings.

Knows nothing of weights. Letters: M layers, C slots, G key-value heads, D head size, W hidden size,
N tokens of a step (a power of two), E slots that it looks at (a power of two), n of the N that are
real; those behind them are padding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.models.replay import Replay, graph_pool

MOST_TOKENS = 128  # of one step: the largest tree with its root, or a lookahead window
LEAST_SLOTS = 1024  # the same for a warm-up and most runs, so that none records while it is timed
KEPT = 2  # stages that wait for the next run: one a lane


@dataclass(frozen=True, slots=True)
class StepShape:
    """What a recording is made for."""

    layers: range | None  # None: from token ids to logits
    count: int  # N
    end: int  # E
    is_tree: bool


class Stage:
    """Everything that a recorded step reads and writes, at addresses that never change."""

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
        self.buffer = torch.zeros(shape, dtype=dtype, device=device)  # [M, 1, 2 G, C, D]
        self.start = torch.zeros(1, dtype=torch.int64, device=device)
        self.token_ids = torch.zeros(MOST_TOKENS, dtype=torch.int64, device=device)
        self.position_ids = torch.zeros_like(self.token_ids)
        self.hidden = torch.zeros((MOST_TOKENS, width), dtype=dtype, device=device)
        self._seen: dict[tuple[int, int], Tensor] = {}  # [N, E] bool of trees
        self._replays: dict[StepShape, Replay] = {}
        self._pool = graph_pool(device)
        self._held: list[Tensor] = []

    def shape(
        self, layers: range | None, start: int, count: int, tree_mask: Tensor | None
    ) -> StepShape:
        """The recording that fits `count` tokens at slot `start`."""
        size = power_of_two(count)
        end = max(LEAST_SLOTS, power_of_two(start + size))
        return StepShape(layers, size, end, tree_mask is not None)

    def place(self, shape: StepShape, start: int, count: int, tree_mask: Tensor | None) -> None:
        """Say where the tokens stand and, of a tree [n, S], who sees whom."""
        self.start.fill_(start)
        if tree_mask is None:
            return
        seen, end = self.seen(shape), start + count
        below = end - tree_mask.shape[1]
        seen.zero_()
        seen[:, :below] = True
        seen[:count, below:end] = tree_mask
        seen[count:, 0] = True  # seeing nothing is NaN on some devices

    def seen(self, shape: StepShape) -> Tensor:  # [N, E]
        """Where the mask of a tree of that shape stands."""
        key = (shape.count, shape.end)
        if key not in self._seen:
            self._seen[key] = torch.zeros(key, dtype=torch.bool, device=self._device)
        return self._seen[key]

    def run(
        self, shape: StepShape, work: Callable[[], tuple[Tensor, ...]], table: Tensor
    ) -> tuple[Tensor, ...]:
        """Replay the step, recorded when it is first asked for; `table` is what `work` looks up.

        The results are overwritten by the next step.
        """
        if shape not in self._replays:
            self._held.append(table)  # a graph knows its address only
            self._replays[shape] = Replay(work, self._device, self._pool)
        return self._replays[shape]()

    def clear(self) -> None:
        """Ready for another sequence, once whatever ran here before has ended."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self.buffer.zero_()


class Stages:
    """Stages that no sequence uses now, kept for their recordings."""

    def __init__(self) -> None:
        self._free: list[Stage] = []
        self._lock = threading.RLock()  # a cache may go while one is being taken

    def __reduce__(self) -> tuple[type[Stages], tuple[()]]:
        """Pickled without any: recordings are good for one process."""
        return Stages, ()

    def take(self, slots: int) -> Stage | None:
        """One of so many slots, if there is any."""
        with self._lock:
            found = next((each for each in self._free if each.slots == slots), None)
            if found is not None:
                self._free.remove(found)
        return found

    def give(self, stage: Stage) -> None:
        with self._lock:
            self._free.append(stage)
            del self._free[:-KEPT]


def power_of_two(least: int) -> int:
    """The smallest power of two from `least` (>= 1) on.

    >>> [power_of_two(n) for n in (1, 3, 65)]
    [1, 4, 128]
    """
    return 1 << (least - 1).bit_length()
