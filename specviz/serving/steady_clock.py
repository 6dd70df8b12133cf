"""A clock for readings of servers that never jumps, even if someone sets the machine's clock."""

from __future__ import annotations

import time

# Seconds since 1970 at the start of this process, so that a page can still compare its times after
# the app was started again.
_START = time.time() - time.monotonic()


def steady_time() -> float:
    """Return the seconds since 1970, by the machine's clock at the start of this process."""
    return _START + time.monotonic()
