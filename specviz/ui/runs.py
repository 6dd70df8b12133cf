"""The runs that pages asked for: who waits, who goes on, what each has said so far.

A ticket is a random word that a browser made up; whoever does not know it can neither see nor stop
the run behind it. Several pages that ask for the very same thing see one order, each by its own
ticket. Everything is bounded: places, orders, and the bytes of what they have said. Knows nothing
of Gradio, of models or of the content of a message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, takewhile

from specviz.errors import InputError
from specviz.pause import Gate
from specviz.ui.turns import QueuedOrder, State, Turns
from specviz.ui.visitors import last_of_most

AWAY_SECONDS = 12.0  # a page asks every few seconds; after so long it is gone or asleep
TIDY_SECONDS = 0.25
ASLEEP_SECONDS = 5.0  # without a look and without a turn: this process slept, and heard nobody
UNHEARD_SECONDS = 5.0  # that a run waits for somebody to ask for it at all
KEEP_SECONDS = 60.0  # how long what is done can still be asked for
MAX_WAITING = 64  # that somebody waits for
MAX_UNHEARD = 256
MAX_PLACES = 512  # and with what is done
PLACES_OF_ADDRESS = 256  # those beside others at one run, and at recordings, among them
MAX_OPENINGS = 32  # recordings whose figures wait to be made, of which
MAX_SENT_OPENINGS = 24  # came with their questions, and
OPENINGS_OF_ADDRESS = 12  # of those from one address
MAX_OF_ADDRESS = 56  # a class shares an address; the rest of the places is for others
MAX_HELD = 16
HELD_SECONDS = 20.0  # that a run may be held while others have no room to begin
MAX_RECORDINGS = 16  # that are kept when nobody sees them any more
MAX_BYTES = 512_000_000  # of all that runs have said
MAX_RUN_BYTES = 64_000_000
MAX_ANSWER_BYTES = 2_000_000  # of messages at one look: who wants more looks again
MAX_WEIGHT = 2_000_000_000  # of all that pages have sent with their questions, as records
WEIGHT_OF_ADDRESS = 800_000_000  # two of the largest
TICKET_LENGTHS = range(16, 65)


@dataclass(eq=False, slots=True)
class QueuePlace:
    """One page's view of an order."""

    ticket: str
    order: QueuedOrder
    address: str
    seen: float
    is_heard: bool = False  # it was asked for since it was joined
    left_at: int | None = None  # how much of the order it has seen when it left a shared one


class Runs:
    """All runs of this server, oldest first; `turns` moves those that decode."""

    def __init__(self, turns: Turns, clock: Callable[[], float] = time.monotonic) -> None:
        self._turns = turns
        self._clock = clock
        self._lock = threading.RLock()
        self._places: dict[str, QueuePlace] = {}
        self._tidied = -TIDY_SECONDS
        self._recordings: list[
            QueuedOrder
        ] = []  # the last ones that were opened, for who asks next

    # ---- to begin and to end

    def join(self, ticket: str, order: QueuedOrder) -> None:
        """Take a place for the order, or beside those who see the same one.

        InputError where the ticket is not new, or there is no place left.
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
        """A recording is opened: it waits for no one. False where one that is here serves."""
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
            raise InputError("ticket must be a new random word")
        near = [each for each in self._places.values() if address and each.address == address]
        if not self._free_place(near, PLACES_OF_ADDRESS):
            raise InputError(
                f"{PLACES_OF_ADDRESS} runs of your address are open: try again in a minute"
            )
        places = list(self._places.values())
        if not self._free_place(places, MAX_PLACES) and not self._take_from_most(places, address):
            raise InputError(f"{MAX_PLACES} runs are open on this server: try again in a minute")

    def _free_place(self, places: list[QueuePlace], most: int) -> bool:
        """Whether there is one among so many; what is done goes for it."""
        over = max(0, len(places) + 1 - most)
        done = [each for each in places if not is_active(each)][:over]
        for each in done:
            del self._places[each.ticket]
        return len(done) == over

    def _take_from_most(self, places: list[QueuePlace], address: str) -> bool:
        """Whether the address that has most places, and more than this one, has given its last."""
        addresses = {each.ticket: each.address for each in places}
        if last := last_of_most(addresses, addresses, address):
            self._leave(self._places.pop(last))
        return bool(last)

    def _check_openings(self, order: QueuedOrder) -> None:
        """InputError where there is no room; those of the app have more than those that are sent,
        which may be large.
        """
        opening = [each for each in self._recordings if each.state is State.RUNNING]
        sent = [each for each in opening if each.weight]
        near = sum(each.visitor == order.visitor for each in sent) if order.visitor else 0
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
            raise InputError("recordings that were sent take all the room: try again in a minute")

    def _same(self, order: QueuedOrder) -> QueuedOrder | None:
        """An order for the same that is not held, and that nobody has ended."""
        if order.is_held or order.request is None:
            return None
        for each in self._orders():
            if not each.stop.is_set() and each.gate.is_open and each.request == order.request:
                return each
        return None

    def _check_room(self, address: str) -> None:
        """InputError where all places are taken, or this address's."""
        places = [each for each in self._places.values() if not each.order.is_recording]
        active = [each for each in places if is_active(each)]
        unheard = [each for each in active if not each.is_heard]
        for each in unheard[: len(unheard) + 1 - MAX_UNHEARD]:  # junk pushes out junk
            self._leave(each)
        near = [each for each in active if each.address == address] if address else []
        if len(near) >= MAX_OF_ADDRESS:
            for each in [each for each in near if not each.is_heard][:1]:
                self._leave(each)
                near.remove(each)
        if len(near) >= MAX_OF_ADDRESS:
            raise InputError(
                f"{MAX_OF_ADDRESS} runs of your address go on already: try again in a minute"
            )
        heard = [each for each in active if each.is_heard]
        waiting = {each.order for each in heard if each.order.state is State.WAITING}
        if len(waiting) >= MAX_WAITING:
            raise InputError(f"{MAX_WAITING} runs are waiting already: try again in a minute")
        self._check_bytes()

    def stop(self, ticket: str) -> None:
        """This page wants its run no more: it ends, unless other pages see it too."""
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

    # ---- to hold

    def hold(self, ticket: str, move: Callable[[Gate], None]) -> bool:
        """Work the gate of a run that goes on; False where there is none.

        InputError where others see it too: they would be held with it. Nobody can join meanwhile.
        """
        with self._lock:
            place = self._places.get(ticket)
            if place is None or not is_active(place) or place.order.state is not State.RUNNING:
                return False
            pages = len(self._watchers(place.order))
            if pages > 1:
                raise InputError(
                    f"{pages} pages see this run: it cannot be held for one of them; "
                    "start it again to have one of your own"
                )
            move(place.order.gate)
            return True

    # ---- to look

    def look(self, ticket: str, after: int) -> dict[str, object]:
        """Where the run stands: its state, how many are ahead, its messages from `after` on.

        `running` is what it waits for: {"title", "seconds_left": None where that is not known};
        `pages` is how many see this run, `beside` how many others go on.
        """
        with self._lock:
            place = self._places.get(ticket)
            if place is None:
                return _answer("unknown")
            place.seen, place.is_heard, place.order.is_wanted = self._clock(), True, True
            self.tidy()
            order = place.order
            state = order.state  # before its messages: a run that is done has its last one
            there = order.messages[max(0, after) : place.left_at]
            messages = _first(there)
            if len(messages) < len(there):
                return _answer(State.RUNNING.value, messages=messages)
            if place.left_at is not None:
                return _answer("done", messages=messages)
            ahead = self._ahead(order) if state is State.WAITING else 0
            others = [each for each in self._turns.live if each is not order and each.can_move]
            return _answer(
                state.value,
                ahead=ahead,
                running=self._awaited() if ahead else None,
                messages=messages,
                pages=1 if order.is_recording else len(self._watchers(order)),
                beside=0 if order.is_recording else len(others),
            )

    def _ahead(self, order: QueuedOrder) -> int:
        """How many have to end, or to begin and end, before it."""
        waiting = [each for each in self._turns.waiting if each.is_wanted]
        at = waiting.index(order) if order in waiting else len(waiting)
        return self._turns.missing_room + at

    def _awaited(self) -> dict[str, object] | None:
        """Of those that go on the one that will likely end first."""
        live = self._turns.live
        if not live:
            return None
        first = min(live, key=lambda each: each.ends or float("inf"))
        return {"title": first.title, "seconds_left": self._turns.seconds_left(first)}

    # ---- bounds

    @property
    def has_places(self) -> bool:
        """Whether there is anything that `tidy` may free."""
        return bool(self._places)

    def tidy(self) -> None:
        """Pages that are gone leave their runs, what is done is forgotten, and bounds are kept."""
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

        for each in self._turns.held_in_the_way(HELD_SECONDS):
            each.end(f"ended: others wait, and it was held for {HELD_SECONDS:g} s")

    def _end_large(self) -> None:
        for each in self._orders():
            if each.bytes > MAX_RUN_BYTES and each.state is State.RUNNING:
                each.end(f"ended: its record has more than {MAX_RUN_BYTES // 10**6} MB")
        if self.bytes > MAX_BYTES:
            self._make_room()

    @property
    def bytes(self) -> int:
        """Of all that runs have said."""
        return sum(each.bytes for each in self._orders())

    def _check_bytes(self) -> None:
        """InputError where there is no room for what another run will say."""
        self._make_room()
        if self.bytes > MAX_BYTES:
            raise InputError("runs take all the room of this server: try again in a minute")

    def _make_room(self) -> None:
        """What is done goes first, the oldest before others, then runs that are held."""
        for place in tuple(self._places.values()):
            if self.bytes <= MAX_BYTES:
                return
            if not is_active(place):
                del self._places[place.ticket]
                self._recordings = [each for each in self._recordings if each is not place.order]
        for each in self._orders():
            if each.is_parked and self.bytes > MAX_BYTES:
                each.end("ended: this server has no more room for runs that are held")
                return

    def _kept_recordings(self) -> list[QueuedOrder]:
        """The last ones, and those that are still being made."""
        done = [each for each in self._recordings if each.state is State.DONE]
        gone = done[: max(0, len(done) + 1 - MAX_RECORDINGS)]
        return [each for each in self._recordings if each not in gone]

    def _orders(self) -> list[QueuedOrder]:
        seen = (each.order for each in self._places.values())
        return list(dict.fromkeys([*self._recordings, *seen]))

    def _watchers(self, order: QueuedOrder) -> list[QueuePlace]:
        return [each for each in self._places.values() if each.order is order and is_active(each)]


def is_active(place: QueuePlace) -> bool:
    """Whether the page still wants an order that has not ended."""
    return place.left_at is None and place.order.state is not State.DONE


def _first(messages: list[str]) -> list[str]:
    """As many as an answer takes, and one at least."""
    sizes = accumulate(map(len, messages))
    count = sum(1 for _ in takewhile(lambda size: size <= MAX_ANSWER_BYTES, sizes))
    return messages[: max(1, count)]


def _answer(state: str, **known: object) -> dict[str, object]:
    """What a page is told of a run."""
    nothing: dict[str, object] = {
        "ahead": 0,
        "running": None,
        "messages": [],
        "pages": 0,
        "beside": 0,
    }
    return {"state": state} | nothing | known
