"""The queue of all sessions, and the one thread that decodes.

The jobs take turns in this thread; one turn decodes a small part of one job.

On a GPU, one job at a time uses the device from its start to its end, because CUDA graphs were
never tested with several jobs that take turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from specviz.environment import Environment
from specviz.models.files.loading import resolve_device
from specviz.models.memory import free_bytes, give_back
from specviz.models.threads import begin_in_decoding_thread
from specviz.ui.answers import log_fault
from specviz.ui.runs import Runs
from specviz.ui.turns import MAX_LIVE, QueuedOrder, Turns, Work

LEAST_FREE_BYTES = 1_000_000_000
REST_SECONDS = 1.0  # seconds between checks for pages that have disconnected, while nothing runs
GIVE_BACK_SECONDS = 5.0  # shortest time between two returns of freed memory to the system
# Class of work -> seconds of decoding that one of its jobs may take. PUBLIC_BUDGETS has the limits
# on a public server.
BUDGETS = {Work.RACE: 1800.0, Work.ASK: 120.0, Work.LAB: 14_400.0}
PUBLIC_BUDGETS = {Work.RACE: 120.0, Work.ASK: 20.0, Work.LAB: 300.0}


def has_room() -> bool:
    """Return whether enough memory is left for the KV caches of one more run."""
    free = free_bytes(resolve_device("cpu"))
    return free is None or free >= LEAST_FREE_BYTES


class DecodingQueue:
    """The queue of all jobs that decode; the app has one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        budgets = PUBLIC_BUDGETS if Environment.read().is_public else BUDGETS
        is_cpu = resolve_device("auto").type == "cpu"
        self.turns = Turns(budgets, MAX_LIVE if is_cpu else 1)
        self.runs = Runs(self.turns, lacks_memory=self._lacks_memory)
        self._lock = threading.Lock()
        self._is_posted = self._is_asked = self._is_resting = False
        self._gave_back = clock()
        # Time at which the latest turn was scheduled; None if no turn is scheduled or running.
        self._due: float | None = None

    @property
    def states(self) -> dict[str, int]:
        """Return how many jobs are waiting, running and paused."""
        live = self.turns.live
        held = sum(each.is_parked and each.gate.is_paused for each in live)
        waiting = len(self.turns.waiting)
        return {"waiting": waiting, "running": len(live) - held, "held": held}

    @property
    def turn_age(self) -> float:
        """Return the seconds since the latest turn was scheduled.

        The result is 0 if no turn is scheduled or running.
        """
        with self._lock:
            return 0.0 if self._due is None else self._clock() - self._due

    def wake(self) -> None:
        """Schedule a turn of the decoding thread, because some job may be able to continue."""
        with self._lock:
            self._is_asked = True
            self._post()

    def end_all(self, why: str, seconds: float) -> None:
        """End the running jobs, which keep their results so far.

        Wait at most `seconds` for them.
        """
        for order in self.turns.begun:
            order.end(why)
        self.wake()
        latest = time.monotonic() + seconds
        while self.turns.begun and time.monotonic() < latest:
            time.sleep(0.02)

    def _may_begin(self, order: QueuedOrder) -> bool:
        """Return whether the job may start: a page waits for it, and enough memory is left."""
        return order.is_wanted and not self._lacks_memory()

    def _lacks_memory(self) -> bool:
        """Return whether a new run must wait until running ones free memory.

        If no run is in progress, the result is False.
        """
        return bool(self.turns.live) and not has_room()

    def _post(self) -> None:
        if not self._is_posted:
            self._is_posted = True
            self._due = self._clock()
            begin_in_decoding_thread(self._move)

    def _move(self) -> None:
        """Run one turn, then schedule the next one behind other work that waits for the thread."""
        with self._lock:
            self._is_asked = False
        has_moved = False
        try:
            self.runs.tidy()
            has_moved = self.turns.move(self._may_begin)
            if self._clock() >= self._gave_back + GIVE_BACK_SECONDS:
                give_back()
                self._gave_back = self._clock()
        except BaseException as error:  # after an error of one turn, the next turn must still run
            log_fault(error, "a turn of the queue")
        with self._lock:
            self._is_posted, self._due = False, None
            if has_moved or self._is_asked:
                self._post()
            elif self.runs.has_places and not self._is_resting:
                self._rest()

    def _rest(self) -> None:
        self._is_resting = True
        rest = threading.Timer(REST_SECONDS, self._end_rest)
        rest.daemon = True  # A daemon timer does not keep the process alive
        rest.start()

    def _end_rest(self) -> None:
        self._is_resting = False
        self.wake()
