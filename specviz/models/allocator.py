"""Keep freed memory in this process, so that its next tensors can use it."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # option numbers of mallopt, from malloc.h
# The largest size in bytes of a freed tensor whose memory stays in the process.
LARGEST_KEPT = 32 << 20
MOST_KEPT = 256 << 20  # largest number of bytes of freed memory that the process keeps


def keep_freed_memory(of_any_size: bool = False) -> bool:
    """Keep the memory of freed tensors in the process.

    Return whether the allocator of the C library supports this.

    Without this call, glibc returns the memory of every freed tensor of logits to the operating
    system, and requests it again page by page. With a vocabulary of 49,152, each round of decoding
    then has up to 2,700 page faults, which take longer than the sampling. Training passes
    `of_any_size`, which keeps the memory of tensors of any size. That avoids 200,000 page faults
    per training step, which take a seventh of the step's time. On platforms without mallopt this
    function does nothing.
    """
    some = ((_MMAP_THRESHOLD, LARGEST_KEPT), (_TRIM_THRESHOLD, MOST_KEPT))
    options = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1)) if of_any_size else some
    mallopt = _function("mallopt")
    return mallopt is not None and all(mallopt(option, value) for option, value in options)


def return_freed_memory() -> None:
    """Return all free memory to the operating system, for example after a model was dropped."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
