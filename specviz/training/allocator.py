"""Keeps freed memory in the process, so that a training step does not fetch it anew.

Without this, glibc returns every large tensor to the system: about 200,000 page faults a step, a
seventh of the time. Knows nothing of tensors.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of mallopt's options in malloc.h


def keep_freed_memory() -> bool:
    """True if this platform's allocator took both options; elsewhere nothing happens."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(mallopt and mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, -1))
