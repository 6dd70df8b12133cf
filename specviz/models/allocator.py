"""How much freed memory the process keeps for its next tensors."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # names of mallopt's options in malloc.h
LARGEST_KEPT = 32 << 20  # bytes of a tensor; a larger one is given back when it is freed
MOST_KEPT = 256 << 20  # bytes


def keep_freed_memory(of_any_size: bool = False) -> bool:
    """Keep freed tensors in the process; True if this platform's allocator took the options.

    Without this, glibc gives every row of logits back to the system and gets it again, page by
    page: over a vocabulary of 49,152 up to 2,700 page faults a round, which take longer than
    its sampling. Training asks for all: it saves 200,000 page faults a step, a seventh of the time.
    On platforms without mallopt nothing happens.
    """
    some = ((_MMAP_THRESHOLD, LARGEST_KEPT), (_TRIM_THRESHOLD, MOST_KEPT))
    options = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1)) if of_any_size else some
    mallopt = _function("mallopt")
    return mallopt is not None and all(mallopt(option, value) for option, value in options)


def return_freed_memory() -> None:
    """Give all that is free back to the system, as after a model was dropped."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> Any:
    """One of glibc's; None on other platforms."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
