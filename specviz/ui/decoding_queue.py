"""The queue of all sessions and the one thread that decodes: each turn is a call in that thread.

On a GPU each order keeps the device from its beginning to its end: recorded graphs were never run
by turns.
"""

from __future__ import annotations

import threading
import time

from specviz.environment import Environment
from specviz.models.files.loading import resolve_device
from specviz.models.memory import free_bytes, give_back
from specviz.models.threads import begin_in_decoding_thread
from specviz.ui.runs import Runs
from specviz.ui.turns import MAX_LIVE, QueuedOrder, Turns, Work

LEAST_FREE_BYTES = 1_000_000_000
REST_SECONDS = 1.0  # until pages that have gone are looked for where nobody moves and nobody asks
GIVE_BACK_SECONDS = 5.0  # between two times that what runs have freed goes back to the system
# seconds of decoding that an order may take: where the page is one's own, where strangers use it
BUDGETS = {Work.RACE: 1800.0, Work.ASK: 120.0, Work.LAB: 14_400.0}
PUBLIC_BUDGETS = {Work.RACE: 120.0, Work.ASK: 20.0, Work.LAB: 300.0}


def has_room() -> bool:
    """Whether the caches of another run find room beside those of the runs that go on."""
    free = free_bytes(resolve_device("cpu"))
    return free is None or free >= LEAST_FREE_BYTES


class DecodingQueue:
    """One per app."""

    def __init__(self) -> None:
        budgets = PUBLIC_BUDGETS if Environment.read().is_public else BUDGETS
        is_cpu = resolve_device("auto").type == "cpu"
        self.turns = Turns(budgets, MAX_LIVE if is_cpu else 1)
        self.runs = Runs(self.turns)
        self._lock = threading.Lock()
        self._is_posted = self._is_asked = self._is_resting = False
        self._gave_back = time.monotonic()

    @property
    def states(self) -> dict[str, int]:
        """How many orders wait, go on or are held."""
        live = self.turns.live
        held = sum(each.is_parked and each.gate.is_paused for each in live)
        waiting = len(self.turns.waiting)
        return {"waiting": waiting, "running": len(live) - held, "held": held}

    def wake(self) -> None:
        """Somebody may be able to move."""
        with self._lock:
            self._is_asked = True
            self._post()

    def end_all(self, why: str, seconds: float) -> None:
        """End what goes on with what it has measured; returns when it has, or after so long."""
        for order in self.turns.live:
            order.end(why)
        self.wake()
        latest = time.monotonic() + seconds
        while self.turns.live and time.monotonic() < latest:
            time.sleep(0.02)

    def _may_begin(self, order: QueuedOrder) -> bool:
        """Where somebody waits for it, and others leave it room in memory."""
        return order.is_wanted and (not self.turns.live or has_room())

    def _post(self) -> None:
        if not self._is_posted:
            self._is_posted = True
            begin_in_decoding_thread(self._move)

    def _move(self) -> None:
        """One turn, then the next one behind whatever else has to be done in that thread."""
        with self._lock:
            self._is_asked = False
        self.runs.tidy()
        has_moved = self.turns.move(self._may_begin)
        if time.monotonic() >= self._gave_back + GIVE_BACK_SECONDS:
            give_back()
            self._gave_back = time.monotonic()
        with self._lock:
            self._is_posted = False
            if has_moved or self._is_asked:
                self._post()
            elif self.runs.has_places and not self._is_resting:
                self._rest()

    def _rest(self) -> None:
        self._is_resting = True
        rest = threading.Timer(REST_SECONDS, self._end_rest)
        rest.daemon = True  # the process ends without it
        rest.start()

    def _end_rest(self) -> None:
        self._is_resting = False
        self.wake()
