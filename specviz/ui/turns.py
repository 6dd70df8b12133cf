"""Who moves next: orders of all sessions take turns in the one thread that decodes.

A turn is a slice of an order: a few of its messages. Time is dealt between classes of work by their
shares, so that a person's race hardly notices somebody's sweep, and the sweep still gets on. Inside
a class it is dealt between visitors, so that nobody gains by asking for much at once; of one
visitor every order has a turn before any has a second one. Orders that have not shown their first
round go before all that, unless they are so many that others would wait for seconds. Knows nothing
of threads, of Gradio or of what an order does: an order is an iterator of messages, and None where
it gave way.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from operator import attrgetter
from typing import TypeVar

from specviz.pause import Gate
from specviz.ui.answers import told
from specviz.ui.messages import Message, encode

MAX_LIVE = 48  # orders that have begun, held ones among them
LIVE_OF_VISITOR = 40  # a class shares an address; the rest of the room is for others
YOUNG_SECONDS = 2.0  # of decoding, in which an order goes before others to its first round
YOUNG_TURN_SECONDS = 0.5  # until it has shown that
AHEAD_SECONDS = 6.0  # that young orders may take at once while others wait, and
AHEAD_SHARE = 0.5  # that they gain with each second of others
OWED_SECONDS = 1.0  # at the most, to a class of weight 1 or to a visitor
MAX_VISITORS = 1000  # whose time is remembered
Share = TypeVar("Share", bound=Hashable)
Steps = Iterator[Message | None]
MayBegin = Callable[["QueuedOrder"], bool]


@dataclass(frozen=True, slots=True)
class TurnShare:
    """How a class of work is served: its part of the time while others wait, and its turns."""

    weight: float
    seconds: float  # of a turn


class Work(Enum):
    """Kinds of work."""

    RACE = TurnShare(8, 0.03)  # somebody watches it round by round
    ASK = TurnShare(8, 0.25)  # a short question of a lesson
    LAB = TurnShare(1, 0.5)  # minutes of measuring


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(eq=False, slots=True)
class QueuedOrder:
    """One piece of work from its place in the queue to its last message, and all that it said."""

    title: str  # what others are told of it
    work: Work
    make: Callable[[QueuedOrder], Steps] | None  # None once it has ended
    visitor: str = ""  # who asked for it: an address
    request: object = None  # what was asked for, None once it has ended
    weight: int = 0  # bytes that the request takes, roughly; 0 once it has ended
    is_held: bool = False  # it waits before its first round
    is_wanted: bool = True  # somebody asked how it goes: before that it is not begun
    is_recording: bool = False  # it needs no turns, and serves whoever opens it next
    state: State = State.WAITING
    stop: threading.Event = field(default_factory=threading.Event)
    gate: Gate = field(default_factory=Gate)
    messages: list[str] = field(default_factory=list)
    bytes: int = 0  # of the messages
    seconds: float = 0.0  # of decoding
    has_shown: bool = False  # its first round, or its result
    ends: float | None = None  # likely, as its own progress told last
    limit: str = ""  # why it was ended by this server
    beside: set[int] = field(default_factory=set)  # numbers of those that had turns meanwhile
    number: int = field(default_factory=count().__next__)
    steps: Steps | None = None
    last_turn: int = -1  # its number among all turns, at first that of its arrival
    is_parked: bool = False  # it stands before its gate
    parked_at: float = 0.0  # since when
    is_idle: Callable[[], bool] | None = None  # while it waits, for a download or so, others move

    def __post_init__(self) -> None:
        if self.is_held:
            self.gate.pause()

    @property
    def is_young(self) -> bool:
        """Whether somebody waits for the first of it, which will not take long."""
        return self.work is not Work.LAB and not self.has_shown and self.seconds < YOUNG_SECONDS

    @property
    def turn_seconds(self) -> float:
        return YOUNG_TURN_SECONDS if self.is_young else self.work.value.seconds

    @property
    def can_move(self) -> bool:
        is_waiting = self.is_idle is not None and self.is_idle()
        is_held = self.is_parked and self.gate.is_paused
        return self.stop.is_set() or not (is_held or is_waiting)

    def end(self, limit: str) -> None:
        """This server ends it, and says why; what was measured is kept."""
        self.limit = self.limit or limit
        self.cancel()

    def cancel(self) -> None:
        """Nobody wants it any more."""
        self.stop.set()
        self.gate.release()

    def say(self, message: Message) -> None:
        """Number a message and keep it; the last one tells what else is known of the run."""
        if message["kind"] == "end":
            beside = max(len(self.beside), message.get("beside", 0))  # or as recorded
            message = message | {"beside": beside, "limit": self.limit or None}
        text = encode({"seq": len(self.messages), **message})
        self.messages.append(text)
        self.bytes += len(text)

    def finish(self) -> None:
        """Free what it held, but for what it has said."""
        self.state, self.make, self.steps, self.weight = State.DONE, None, None, 0
        self.request = self.request if self.is_recording else None


class Turns:
    """All orders that wait or go on, oldest first.

    `budgets`: seconds of decoding after which an order of a class is ended. `most_live`: with 1
    each order keeps the device from its beginning to its end.
    """

    def __init__(
        self,
        budgets: dict[Work, float],
        most_live: int = MAX_LIVE,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._budgets = budgets
        self._most_live = most_live
        self._clock = clock
        self._orders: list[QueuedOrder] = []
        self._used = dict.fromkeys(Work, 0.0)  # each class's seconds over its share
        self._used_by: dict[str, float] = {}  # seconds of visitors
        self._ahead = AHEAD_SECONDS  # that young orders may take before others
        self.seconds = dict.fromkeys(Work, 0.0)  # of decoding, since the server began
        self.ended = dict.fromkeys(Work, 0)  # orders, since then
        self._turn = count()
        self._lock = threading.Lock()

    @property
    def live(self) -> list[QueuedOrder]:
        """Those that have begun."""
        with self._lock:
            return [each for each in self._orders if each.state is State.RUNNING]

    @property
    def missing_room(self) -> int:
        """How many have to end before another one begins."""
        return max(0, len(self.live) + 1 - self._most_live)

    @property
    def waiting(self) -> list[QueuedOrder]:
        with self._lock:
            return [each for each in self._orders if each.state is State.WAITING]

    def seconds_left(self, order: QueuedOrder) -> float | None:
        """How long it will likely go on, None where it does not say."""
        return None if order.ends is None else max(0.0, order.ends - self._clock())

    def held_in_the_way(self, seconds: float) -> list[QueuedOrder]:
        """Those that have been held for so long while others cannot begin for want of room."""
        if not self.missing_room or not any(each.is_wanted for each in self.waiting):
            return []
        limit = self._clock() - seconds
        return [each for each in self.live if each.is_parked and each.parked_at <= limit]

    def add(self, order: QueuedOrder) -> None:
        """The order waits for its first turn."""
        with self._lock:
            order.last_turn = next(self._turn)
            self._orders.append(order)

    def drop(self, order: QueuedOrder) -> bool:
        """An order that has not begun goes; False where it has."""
        with self._lock:
            if order not in self._orders or order.state is not State.WAITING:
                return False
            self._orders.remove(order)
            order.finish()
            return True

    def move(self, may_begin: MayBegin = attrgetter("is_wanted")) -> bool:
        """Give one order its turn; False where nobody can move."""
        order = self._next(may_begin)
        if order is None:
            return False
        began, said, was_young = self._clock(), len(order.messages), order.is_young
        try:
            goes_on = self._slice(order, began)
        except Exception as error:
            order.say({"kind": "error", "text": told(error, "a turn")})
            goes_on = False
        seconds = self._clock() - began
        order.seconds += seconds
        budget = self._budgets[order.work]
        if goes_on and order.seconds >= budget:
            order.end(limit_words(budget))
        has_worked = not order.is_parked or len(order.messages) > said
        with self._lock:
            gained = -seconds if was_young else seconds * AHEAD_SHARE
            if len(self._orders) > 1 or gained > 0:  # whoever is alone keeps nobody waiting
                self._ahead = max(0.0, min(AHEAD_SECONDS, self._ahead + gained))
            self._used[order.work] += seconds / order.work.value.weight
            self._used_by[order.visitor] += seconds
            self.seconds[order.work] += seconds
            self.ended[order.work] += not goes_on
            for each in self._orders:
                if has_worked and each is not order and each.state is State.RUNNING:
                    each.beside.add(order.number)
            if not goes_on:
                self._orders.remove(order)
                order.finish()
                self._forget_visitors()
        return True

    def _next(self, may_begin: MayBegin) -> QueuedOrder | None:
        """A young order, else one of the class that is owed most; of the visitor who is."""
        wanted = [each for each in self.waiting if may_begin(each)]
        with self._lock:
            ready = self._ready(wanted)
            if not ready:
                return None
            young = [each for each in ready if each.is_young and self._ahead > 0]
            if not young:
                work = owed_most(self._used, [each.work for each in ready])
                ready = [each for each in ready if each.work is work]
            visitor = owed_most(self._used_by, [each.visitor for each in young or ready])
            order = min(
                (each for each in young or ready if each.visitor == visitor),
                key=attrgetter("number" if young else "last_turn"),
            )
            order.state, order.last_turn = State.RUNNING, next(self._turn)
            return order

    def _ready(self, wanted: list[QueuedOrder]) -> list[QueuedOrder]:
        """Those that can move, and of those that are to begin as many as there is room for."""
        live = Counter(each.visitor for each in self._orders if each.state is State.RUNNING)
        ready = []
        for each in self._orders:
            if each.state is State.RUNNING:
                ready += [each] if each.can_move else []
            elif each in wanted and self._has_room(live, each.visitor):
                ready.append(each)
                live[each.visitor] += 1
        return ready

    def _has_room(self, live: Counter[str], visitor: str) -> bool:
        of_one = min(self._most_live, LIVE_OF_VISITOR)
        return live.total() < self._most_live and live[visitor] < of_one

    def _forget_visitors(self) -> None:
        """Those who have had least, and would be owed no more than a new one."""
        for visitor in sorted(self._used_by, key=self._used_by.__getitem__)[:-MAX_VISITORS]:
            del self._used_by[visitor]

    def _slice(self, order: QueuedOrder, began: float) -> bool:
        """Whether the order goes on after it."""
        if order.steps is None:
            assert order.make is not None
            order.steps = order.make(order)
        while True:
            try:
                message = next(order.steps)
            except StopIteration:
                return False
            if message is not None:
                self._heard(order, message)
            is_parked = message is None and order.gate.is_paused
            if is_parked and not order.is_parked:
                order.parked_at = self._clock()
            order.is_parked = is_parked
            if message is None or self._clock() >= began + order.turn_seconds:
                return True

    def _heard(self, order: QueuedOrder, message: Message) -> None:
        """Those who wait are told how long an order says that it will take."""
        order.has_shown = order.has_shown or message.get("type") == "round"
        if "seconds_left" in message:
            left = message["seconds_left"]
            order.ends = None if left is None else self._clock() + left
        order.say(message)


def owed_most(used: dict[Share, float], those: Sequence[Share]) -> Share:
    """Of those who want something now, the one who has `used` least.

    Who asked for nothing while others worked is owed a moment, and not all that time.

    >>> used = {"worked": 60.0, "slept": 0.0}
    >>> owed_most(used, ["worked", "slept"]), used["slept"]
    ('slept', 59.0)
    """
    most = max(used.get(each, 0.0) for each in those)
    for each in those:
        used[each] = max(used.get(each, 0.0), most - OWED_SECONDS)
    return min(those, key=used.__getitem__)


def limit_words(seconds: float) -> str:
    """What a run is told that has used up its time."""
    return (
        f"ended after {seconds:g} s of decoding, the limit of this server; "
        "what was measured is kept"
    )
