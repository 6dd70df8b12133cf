"""Keep Python's garbage collector from running during timed rounds.

A collection of the oldest generation visits every object. After the libraries and a pair are loaded
there are 540,000 objects, and a collection took 0.6 to 1.3 s on two busy cores. Every half minute
such a collection happened during a timed round. The clock of the lane with that round jumped ahead,
so the other lane ran alone until its clock had caught up.
"""

from __future__ import annotations

import gc


def settle() -> None:
    """Collect unused objects now, and exclude the objects in use from all later collections."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def collect_all() -> None:
    """Collect all unused objects, such as a dropped model, even those that `settle` excluded."""
    is_settled = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.collect()
    if is_settled:
        gc.freeze()
