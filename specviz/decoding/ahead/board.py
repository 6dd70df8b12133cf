"""The memory that holds the drafts of one run, shared by the two processes.

An answer on the line says when its content is valid. Letters: K nodes of a chain, M outcomes at
most, C committed tokens at most, V vocabulary.
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

MAX_BYTES = 2 << 30
_WORD = 8


class Board:
    """The committed tokens, the outcomes' extra tokens, and a chain per outcome.

    Row M holds the chain that was drafted when no prepared one could be used. What the host reads
    and writes is in its own memory, the rest may be on a device.
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
        self.committed, self.extra_ids = parts[0], parts[1]  # [C], [M + 1] (one to spare)
        self.token_ids = parts[2].view(rows, length)  # [M + 1, K]
        logits = torch.frombuffer(
            memory, dtype=torch.float32, count=distributions, offset=_WORD * ids
        )
        self.logits = logits.view(rows, length, -1)  # [M + 1, K, V]
        if device is not None and device.type == "cuda":
            self.extra_ids = torch.empty(rows, dtype=torch.int64, pin_memory=True)
            self.token_ids = self.token_ids.to(device)
            self.logits = torch.empty(self.logits.shape, device=device)
        # plain memory, read without a copy from the device
        self._committed = _words(self.committed)
        self._extra_ids = _words(self.extra_ids)

    def commit(self, token_ids: Sequence[int], start: int) -> None:
        """Write committed tokens from index `start` on."""
        self._committed[start : start + len(token_ids)] = array("q", token_ids)

    def extras(self, count: int) -> list[int]:
        """Extra tokens of the first outcomes, on the host."""
        return self._extra_ids[:count].tolist()

    def chain(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Tokens [K] and the logits that they were drawn from [K, V], as copies."""
        return self.token_ids[row, :length].clone(), self.logits[row, :length].clone()


def board_bytes(setting: Setting) -> int:
    """Size of a run's board; InputError if it is above MAX_BYTES."""
    ids, distributions = _sizes(setting)
    size = _WORD * ids + 4 * distributions
    if size > MAX_BYTES:
        raise InputError(
            f"fan_out must leave the prepared drafts below {MAX_BYTES >> 30} GiB, got "
            f"{setting.fan_out} with draft_length {setting.draft_length}: {size / 2**30:.1f} GiB"
        )
    return size


def shared_file(size: int) -> int:
    """The descriptor of a new file without a name; on Linux it is in memory."""
    if hasattr(os, "memfd_create"):
        # not multiprocessing.shared_memory: it lies in /dev/shm, of which a container has 64 MB,
        # and a board of K 16, fan_out 4 and 49,152 tokens takes 217
        descriptor = os.memfd_create("drafts")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def _words(token_ids: Tensor) -> memoryview:
    """The memory of a tensor of integers."""
    view = memoryview(token_ids.numpy())  # type: ignore[arg-type]
    return view.cast("B").cast("q")


def _sizes(setting: Setting) -> tuple[int, int]:
    """How many integers and how many floats."""
    rows, length = setting.most_outcomes + 1, setting.draft_length
    chains = rows * length
    return setting.capacity + rows + chains, chains * setting.vocab_size
