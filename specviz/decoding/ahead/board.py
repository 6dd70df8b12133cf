"""The board: shared memory in which the drafting process leaves its drafts for the decoder.

The board itself does not say which drafts on it are ready. The messages between the two processes
say this. In shapes, K is the number of tokens of a drafted chain, M the largest number of possible
outcomes of one verification, C the largest number of committed tokens and V the size of the
vocabulary.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.ahead.order import Setting
from specviz.errors import InputError
from specviz.models.accelerator import host_buffer, is_accelerator

MAX_BYTES = 2 << 30
_WORD = 8


class Board:
    """The tables of one run that the decoder and the drafting process share.

    The tables hold the committed tokens and one drafted chain for each possible outcome of the
    verification. For each outcome they also hold its extra token, which follows the accepted part
    of the chain. If no prepared chain fits the outcome, the draft model writes a new chain to the
    last row of the tables. The host reads and writes `committed` and `extra_ids`, so these two are
    in host memory. The other tables can be on a GPU.
    """

    def __init__(
        self,
        setting: Setting,
        memory: mmap.mmap | None = None,
        device: torch.device | None = None,
    ) -> None:
        rows, length = setting.most_outcomes + 1, setting.draft_length
        self.fresh_row = rows - 1
        ids, distributions = _sizes(setting)
        if memory is None:
            memory = mmap.mmap(-1, board_bytes(setting))
        words = torch.frombuffer(memory, dtype=torch.int64, count=ids)
        parts = words.split_with_sizes((setting.capacity, rows, rows * length))
        # Shapes: `committed` is [C] and `extra_ids` is [M + 1]. The last entry of `extra_ids` is
        # unused.
        self.committed, self.extra_ids = parts[0], parts[1]
        self.token_ids = parts[2].view(rows, length)  # [M + 1, K]
        logits = torch.frombuffer(
            memory, dtype=torch.float32, count=distributions, offset=_WORD * ids
        )
        self.logits = logits.view(rows, length, -1)  # [M + 1, K, V]
        if device is not None and is_accelerator(device):
            self.extra_ids = host_buffer(rows, torch.int64, device)
            self.token_ids = self.token_ids.to(device)
            self.logits = torch.empty(self.logits.shape, device=device)
        # `_committed` and `_extra_ids` are views of host memory, so reading them needs no copy from
        # the device.
        self._committed = _words(self.committed)
        self._extra_ids = _words(self.extra_ids)

    def commit(self, token_ids: Sequence[int], start: int) -> None:
        self._committed[start : start + len(token_ids)] = array("q", token_ids)

    def extras(self, count: int) -> list[int]:
        return self._extra_ids[:count].tolist()

    def chain(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Return copies of a chain's tokens [K], and of the logits [K, V] that predicted them."""
        return self.token_ids[row, :length].clone(), self.logits[row, :length].clone()


def board_bytes(setting: Setting) -> int:
    """Return the size of a run's shared tables in bytes, or raise InputError above MAX_BYTES."""
    ids, distributions = _sizes(setting)
    size = _WORD * ids + 4 * distributions
    if size > MAX_BYTES:
        raise InputError(
            f"fan_out must be lower: the prepared drafts must fit into {MAX_BYTES >> 30} GiB, got "
            f"{setting.fan_out}, which needs {size / 2**30:.1f} GiB with draft_length "
            f"{setting.draft_length}"
        )
    return size


def shared_file(size: int) -> int:
    """Create a file without a name and return its descriptor. On Linux its content is in memory."""
    if hasattr(os, "memfd_create"):
        # This function does not use multiprocessing.shared_memory, because that needs /dev/shm,
        # which has only 64 MB in a container. A board with K = 16, fan_out = 4 and a vocabulary of
        # 49,152 tokens takes 217 MB.
        descriptor = os.memfd_create("drafts")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def _words(token_ids: Tensor) -> memoryview:
    view = memoryview(token_ids.numpy())  # type: ignore[arg-type]
    return view.cast("B").cast("q")


def _sizes(setting: Setting) -> tuple[int, int]:
    """Return how many integers and how many floats the shared tables of a run contain."""
    rows, length = setting.most_outcomes + 1, setting.draft_length
    chains = rows * length
    return setting.capacity + rows + chains, chains * setting.vocab_size
