"""The runs that pages asked for: which of them wait, which run, and what each has sent so far.

A ticket is a random word from a browser. Without it nobody can see or stop the run. Pages that ask
for the same run share one job; each has its own ticket, and its own entry for the job, called a
view. The numbers of views and jobs, and the bytes of messages, are limited. This module knows
nothing of Gradio, of models, or of the content of messages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, takewhile

from specviz.errors import InputError
from specviz.pause import Gate
from specviz.ui.turns import QueuedOrder, State, Turns
from specviz.ui.visitors import VisitorCounts, account_word, accounts_of, last_of_most

# A page asks for news every few seconds. After AWAY_SECONDS without a question from it, the page
# counts as closed.
AWAY_SECONDS = 12.0
TIDY_SECONDS = 0.25
# Turns and the questions of pages call `tidy` about once a second. If nothing called it for
# ASLEEP_SECONDS, the system had suspended this process, and the pages do not count as closed.
ASLEEP_SECONDS = 5.0
# The number of seconds after which a run is dropped if its page has never asked for news.
UNHEARD_SECONDS = 5.0
KEEP_SECONDS = 60.0  # how long a finished run stays available
# Largest number of waiting runs. Only runs that a page has already asked for count.
MAX_WAITING = 64
MAX_UNHEARD = 256
MAX_PLACES = 512  # largest number of views of runs, including views of finished runs
# The largest number of views from one address, including views of shared runs and of recordings.
PLACES_OF_ADDRESS = 256
MAX_OPENINGS = 32  # largest number of recordings whose figures are not ready yet
MAX_SENT_OPENINGS = 24  # largest number of uploaded recordings whose figures are not ready yet
# Largest number of uploads from one address whose figures are not ready yet.
OPENINGS_OF_ADDRESS = 12
# Largest number of runs from one address, which all students of a class may share.
MAX_OF_ADDRESS = 56
MAX_HELD = 16
HELD_SECONDS = 20.0  # longest time that a run may be paused while other runs cannot start
MAX_RECORDINGS = 16  # largest number of recordings that are kept when no page shows them any more
MAX_BYTES = 512_000_000  # largest size in bytes of all messages of all runs
MAX_RUN_BYTES = 64_000_000
# The largest size in bytes of the messages in one answer. The page then asks for the remaining
# ones.
MAX_ANSWER_BYTES = 2_000_000
MAX_WEIGHT = 2_000_000_000  # largest memory in bytes for all uploaded recordings
# The largest memory in bytes for the uploaded recordings of one address. It is enough for two of
# the largest recordings.
WEIGHT_OF_ADDRESS = 800_000_000
TICKET_LENGTHS = range(16, 65)
GIVEN_UP = (
    "dropped before it started: the queue was full, and your address had more runs than any other; "
    "start it again in a minute"
)
GAVE_MEMORY = (
    "ended: the server lacked memory for waiting visitors, and your address had more runs than any "
    "other"
)


@dataclass(eq=False, slots=True)
class QueuePlace:
    """A page's view of a job in the queue; several pages may view the same job."""

    ticket: str
    order: QueuedOrder
    address: str
    seen: float
    is_heard: bool = False  # True if the page has asked for this run at least once
    # Number of messages that the page had received when it left a job that other pages share.
    left_at: int | None = None


class Runs:
    """All runs of this server, the oldest first; the scheduler `turns` runs those that decode."""

    def __init__(
        self,
        turns: Turns,
        clock: Callable[[], float] = time.monotonic,
        lacks_memory: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start without runs; `lacks_memory` returns whether memory is too short for a new run."""
        self._turns = turns
        self._clock = clock
        self._lacks_memory = lacks_memory
        # Time at which a visitor without a run began to wait for memory; None if nobody waits.
        self._short_since: float | None = None
        self._lock = threading.RLock()
        self._places: dict[str, QueuePlace] = {}
        self._tidied = -TIDY_SECONDS
        # The recordings that pages opened last. They stay in memory for the next page that asks.
        self._recordings: list[QueuedOrder] = []

    def join(self, ticket: str, order: QueuedOrder) -> None:
        """Queue a job under a ticket, or share a job that answers the same request.

        Raises InputError if the ticket is not new, or if the server or the visitor already has the
        largest allowed number of runs.
        """
        with self._lock:
            self.tidy()
            self._check_ticket(ticket, order.visitor)
            same = self._same(order)
            if same is None:
                self._check_room(order.visitor)
                self._check_weight(order)
                order.is_wanted = False
                self._turns.add(order)
            self._places[ticket] = QueuePlace(ticket, same or order, order.visitor, self._clock())

    def begin(self, ticket: str, order: QueuedOrder) -> bool:
        """Open a recording, which needs no turn because nothing decodes.

        Returns False if the same recording is already open, so that the page can use it.
        """
        with self._lock:
            self.tidy()
            self._check_ticket(ticket, order.visitor)
            same = self._same(order)
            if same is None:
                self._check_openings(order)
                self._check_weight(order)
                order.state = State.RUNNING
                self._recordings = [*self._kept_recordings(), order]
            self._places[ticket] = QueuePlace(ticket, same or order, order.visitor, self._clock())
            return same is None

    def _check_ticket(self, ticket: str, address: str) -> None:
        if len(ticket) not in TICKET_LENGTHS or ticket in self._places:
            least, most = TICKET_LENGTHS[0], TICKET_LENGTHS[-1]
            raise InputError(
                f"ticket must be a random text of {least} to {most} characters that no other run "
                f"has, got {len(ticket)} characters"
            )
        for name, visitors in accounts_of(address).items() if address else ():
            near = [each for each in self._places.values() if name in accounts_of(each.address)]
            most = PLACES_OF_ADDRESS * visitors
            if not self._free_place(near, most):
                raise InputError(
                    f"{most} runs from your {account_word(visitors)} are open: try again in a "
                    "minute"
                )
        places = list(self._places.values())
        if not self._free_place(places, MAX_PLACES) and not self._take_from_most(places, address):
            raise InputError(f"{MAX_PLACES} runs are open on this server: try again in a minute")

    def _free_place(self, places: list[QueuePlace], most: int) -> bool:
        """Return whether one more view fits, so that `places` has at most `most` views.

        If necessary, views of finished runs are removed first.
        """
        over = max(0, len(places) + 1 - most)
        done = [each for each in places if not is_active(each)][:over]
        for each in done:
            del self._places[each.ticket]
        return len(done) == over

    def _take_from_most(self, places: list[QueuePlace], address: str) -> bool:
        """Remove the newest view of the address that has the largest number of views.

        This happens only if that address has more views than `address` would have with one more.
        Returns whether a view was removed.
        """
        addresses = {each.ticket: each.address for each in places}
        if last := last_of_most(addresses, addresses, address):
            self._leave(self._places.pop(last))
        return bool(last)

    def _check_openings(self, order: QueuedOrder) -> None:
        """Raise InputError if the server is already opening too many recordings.

        Uploaded recordings have a lower limit, because they may be large.
        """
        opening = [each for each in self._recordings if each.state is State.RUNNING]
        sent = [each for each in opening if each.weight]
        near = VisitorCounts(each.visitor for each in sent)[order.visitor] if order.visitor else 0
        is_full = len(sent) >= MAX_SENT_OPENINGS or near >= OPENINGS_OF_ADDRESS
        if len(opening) >= MAX_OPENINGS or (order.weight and is_full):
            raise InputError("other recordings are being opened: try again in a moment")
        self._check_bytes()

    def _check_weight(self, order: QueuedOrder) -> None:
        if not order.weight:
            return
        orders = self._orders()
        taken = sum(each.weight for each in orders)
        near = sum(each.weight for each in orders if each.visitor == order.visitor)
        is_near_full = order.visitor and near and near + order.weight > WEIGHT_OF_ADDRESS
        if is_near_full or taken + order.weight > MAX_WEIGHT:
            raise InputError(
                "uploaded recordings use all the memory that this server has for them: try again "
                "in a minute"
            )

    def _same(self, order: QueuedOrder) -> QueuedOrder | None:
        """Return a job for the same request that is neither paused nor stopped.

        The result is None if there is no such job.
        """
        if order.is_held or order.request is None:
            return None
        for each in self._orders():
            if not each.stop.is_set() and each.gate.is_open and each.request == order.request:
                return each
        return None

    def _check_room(self, address: str) -> None:
        """Raise InputError if too many runs wait or run, in total or from this address."""
        places = [each for each in self._places.values() if not each.order.is_recording]
        active = [each for each in places if is_active(each)]
        unheard = [each for each in active if not each.is_heard]
        # If too many jobs wait for the first question of their page, drop the oldest ones.
        for each in unheard[: len(unheard) + 1 - MAX_UNHEARD]:
            self._leave(each)
        for name, visitors in accounts_of(address).items() if address else ():
            near = [each for each in filter(is_active, active) if name in accounts_of(each.address)]
            most = MAX_OF_ADDRESS * visitors
            if len(near) >= most:
                for each in [each for each in near if not each.is_heard][:1]:
                    self._leave(each)
                    near.remove(each)
            if len(near) >= most:
                raise InputError(
                    f"{most} runs from your {account_word(visitors)} are running already: try "
                    "again in a minute"
                )
        heard = [each for each in active if each.is_heard]
        waiting = [each for each in heard if is_unbegun(each.order)]
        is_full = len({each.order for each in waiting}) >= MAX_WAITING
        if is_full and not self._give_up_from_most(heard, waiting, address):
            raise InputError(f"{MAX_WAITING} runs are waiting already: try again in a minute")
        self._check_bytes()

    def _give_up_from_most(
        self, active: list[QueuePlace], waiting: list[QueuePlace], address: str
    ) -> bool:
        """Drop the newest waiting run of the address that has the largest number of runs.

        This happens only if that address has more runs than `address` would have with one more, and
        if no other page sees the run. Returns whether a run was dropped.
        """
        owners = {each.ticket: each.address for each in active}
        counts = VisitorCounts(owners.values())
        most = counts.largest()
        alone = [
            each.ticket
            for each in waiting
            if counts[each.address] == most and len(self._watchers(each.order)) == 1
        ]
        last = last_of_most(owners, alone, address)
        if not last:
            return False
        order = self._places[last].order
        if self._turns.drop(order):
            order.say({"kind": "error", "text": GIVEN_UP})
        return True

    def stop(self, ticket: str) -> None:
        """Close a page's view of its run; the run itself ends if no other page shows it."""
        with self._lock:
            place = self._places.get(ticket)
            if place is not None and is_active(place):
                self._leave(place)

    def _leave(self, place: QueuePlace) -> None:
        order = place.order
        others = [each for each in self._watchers(order) if each is not place]
        if others:
            place.left_at = len(order.messages)
        elif not self._turns.drop(order):
            order.cancel()

    def hold(self, ticket: str, move: Callable[[Gate], None]) -> bool:
        """Pause, step or resume the running job of a ticket; return False if there is no such job.

        Raises InputError if other pages see the job, because it would pause for them as well. A
        paused job accepts no further pages.
        """
        with self._lock:
            place = self._places.get(ticket)
            if place is None or not is_active(place) or is_unbegun(place.order):
                return False
            pages = len(self._watchers(place.order))
            if pages > 1:
                raise InputError(
                    f"{pages} pages show this run, so it cannot be paused for one of them; start "
                    "it again to have a run of your own"
                )
            move(place.order.gate)
            return True

    @contextmanager
    def listening(self, ticket: str, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake`, from any thread, whenever the run of this ticket has news."""
        with self._lock:
            place = self._places.get(ticket)
        listeners = place.order.listeners if place else []
        listeners.append(wake)
        try:
            yield
        finally:
            listeners.remove(wake)

    def look(self, ticket: str, after: int) -> dict[str, object]:
        """Return a run's state, the number of runs that start before it, and its new messages.

        The new messages begin at the index `after`. `running` describes the other run that must end
        first: {"title", "seconds_left"}. The seconds are None if they are unknown. `running` also
        has "has_given" if this run has lost its slot to a visitor who had none. It has
        "lacks_memory" if a slot is free but too little memory. `pages` is the number of pages that
        show this run, and `beside` is the number of other runs in progress.
        """
        with self._lock:
            place = self._places.get(ticket)
            if place is None:
                return _answer("unknown")
            place.seen, place.is_heard, place.order.is_wanted = self._clock(), True, True
            self.tidy()
            order = place.order
            # The state must be read before the messages. An answer with the state "finished" then
            # always has the last message.
            state = order.state
            there = order.messages[max(0, after) : place.left_at]
            messages = _first(there)
            if len(messages) < len(there):
                return _answer(State.RUNNING.value, messages=messages)
            if place.left_at is not None:
                return _answer("done", messages=messages)
            # A run that started earlier and now waits has lost its slot to another visitor.
            has_given = state is State.WAITING and order.has_begun
            reasons = {
                "has_given": has_given,
                "lacks_memory": state is State.WAITING and self._lacks_memory(),
            }
            is_waiting = state is State.WAITING
            ahead = max(any(reasons.values()), self._ahead(order)) if is_waiting else 0
            others = [each for each in self._turns.live if each is not order and each.can_move]
            return _answer(
                state.value,
                ahead=ahead,
                running=self._awaited(reasons) if ahead else None,
                messages=messages,
                pages=1 if order.is_recording else len(self._watchers(order)),
                beside=0 if order.is_recording else len(others),
            )

    def _ahead(self, order: QueuedOrder) -> int:
        """Return the number of runs before this one.

        They are the waiting runs that start earlier, and the running ones that must end to free
        slots.
        """
        waiting = [each for each in self._turns.waiting if each.is_wanted]
        at = waiting.index(order) if order in waiting else len(waiting)
        return self._turns.missing_room + at

    def _awaited(self, reasons: Mapping[str, bool]) -> dict[str, object] | None:
        """Describe the running job that will probably end first, and why this run waits for it."""
        live = self._turns.live
        if not live:
            return None
        first = min(live, key=lambda each: each.ends or float("inf"))
        described: dict[str, object] = {
            "title": first.title,
            "seconds_left": self._turns.seconds_left(first),
        }
        return described | {name: True for name, holds in reasons.items() if holds}

    @property
    def has_places(self) -> bool:
        """Return whether some page has a view of a run, so that `tidy` may have work to do."""
        return bool(self._places)

    def tidy(self) -> None:
        """Close the views of pages that are gone, forget finished runs, and enforce the limits."""
        with self._lock:
            now = self._clock()
            if now - self._tidied < TIDY_SECONDS:
                return
            if now - self._tidied > ASLEEP_SECONDS:
                for place in filter(is_active, self._places.values()):
                    place.seen = now if place.is_heard else place.seen
            self._tidied = now
            for place in tuple(self._places.values()):
                if not is_active(place):
                    if place.seen < now - KEEP_SECONDS:
                        del self._places[place.ticket]
                elif place.seen < now - (AWAY_SECONDS if place.is_heard else UNHEARD_SECONDS):
                    self._leave(place)
                    del self._places[place.ticket]
            self._end_held()
            self._end_large()

    def _end_held(self) -> None:
        held = [each for each in self._orders() if each.is_parked and each.gate.is_paused]
        for each in held[: max(0, len(held) - MAX_HELD)]:
            each.end(f"ended: {MAX_HELD} runs are held on this server, and this was the oldest")

        others = [each for each in self._turns.waiting if each.is_wanted]
        lacks_memory = bool(others) and self._lacks_memory()
        for each in self._turns.held_in_the_way(HELD_SECONDS, lacks_memory):
            each.end(f"ended: others wait, and it was held for {HELD_SECONDS:g} s")
        self._end_for_memory(others if lacks_memory else [])

    def _end_for_memory(self, waiting: list[QueuedOrder]) -> None:
        """End a run if visitors without any run have waited for memory for HELD_SECONDS.

        The ended run is one of the visitor with the largest number of runs; see
        `Turns.newest_of_most`.
        """
        having = {each.visitor for each in self._turns.live}
        if all(each.visitor in having for each in waiting):
            self._short_since = None
            return
        now = self._clock()
        if self._short_since is None:
            self._short_since = now
        if now - self._short_since >= HELD_SECONDS:
            self._short_since = now
            if order := self._turns.newest_of_most():
                order.end(GAVE_MEMORY)

    def _end_large(self) -> None:
        for each in self._orders():
            if each.bytes > MAX_RUN_BYTES and each.state is State.RUNNING:
                each.end(f"ended: its record has more than {MAX_RUN_BYTES // 10**6} MB")
        if self.bytes > MAX_BYTES:
            self._make_room()

    @property
    def bytes(self) -> int:
        """Return the bytes of all messages of all runs."""
        return sum(each.bytes for each in self._orders())

    def _check_bytes(self) -> None:
        self._make_room()
        if self.bytes > MAX_BYTES:
            raise InputError(
                "this server has no memory left for another run: try again in a minute"
            )

    def _make_room(self) -> None:
        """Free memory: remove finished runs, the oldest first, then end a paused run."""
        for place in tuple(self._places.values()):
            if self.bytes <= MAX_BYTES:
                return
            if not is_active(place):
                del self._places[place.ticket]
                self._recordings = [each for each in self._recordings if each is not place.order]
        for each in self._orders():
            if each.is_parked and self.bytes > MAX_BYTES:
                each.end("ended: this server has no memory left for held runs")
                return

    def _kept_recordings(self) -> list[QueuedOrder]:
        """Return the recordings to keep in memory: the newest ones, and the unfinished ones.

        A recording is unfinished while its figures are not ready.
        """
        done = [each for each in self._recordings if each.state is State.DONE]
        gone = done[: max(0, len(done) + 1 - MAX_RECORDINGS)]
        return [each for each in self._recordings if each not in gone]

    def _orders(self) -> list[QueuedOrder]:
        seen = (each.order for each in self._places.values())
        return list(dict.fromkeys([*self._recordings, *seen]))

    def _watchers(self, order: QueuedOrder) -> list[QueuePlace]:
        return [each for each in self._places.values() if each.order is order and is_active(each)]


def is_unbegun(order: QueuedOrder) -> bool:
    """Return whether the job still waits for its first turn."""
    return order.state is State.WAITING and not order.has_begun


def is_active(place: QueuePlace) -> bool:
    """Return whether the job has not ended and its page still wants it."""
    return place.left_at is None and place.order.state is not State.DONE


def _first(messages: list[str]) -> list[str]:
    """Return as many messages as fit into one answer to the page, but at least one."""
    sizes = accumulate(map(len, messages))
    count = sum(1 for _ in takewhile(lambda size: size <= MAX_ANSWER_BYTES, sizes))
    return messages[: max(1, count)]


def _answer(state: str, **known: object) -> dict[str, object]:
    """Return the answer to a page that asks about its run.

    `known` has the values of some fields. All other fields get their defaults.
    """
    nothing: dict[str, object] = {
        "ahead": 0,
        "running": None,
        "messages": [],
        "pages": 0,
        "beside": 0,
    }
    return {"state": state} | nothing | known
