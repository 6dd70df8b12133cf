"""A scheduler: jobs of all sessions take turns in the one thread that decodes.

A turn is a slice of a job: a few of its messages. Classes of work share the time by weight, so that
a sweep hardly slows another user's race but still progresses. Within a class, visitors share the
time, so that many requests bring no advantage. The jobs of one visitor take turns in rotation.

Only a job with a slot takes turns, and there are MAX_LIVE slots. If all of them are taken, the
visitor with the most slots loses one to a visitor who has none. The job without a slot continues
when a slot is free again. A job that has not shown its first round has priority. But if jobs with
priority have used several seconds while other jobs waited, the other jobs continue.

This module knows nothing of threads, of Gradio, or of what a job does. A job is an iterator of
messages; it yields None to end its turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, count
from operator import attrgetter
from typing import TypeVar

from specviz.pause import Gate
from specviz.ui.answers import error_sentence
from specviz.ui.messages import Message, encode
from specviz.ui.visitors import VisitorCounts, accounts_of

MAX_LIVE = 48  # largest number of jobs with a slot, including paused jobs
# Largest number of jobs with a slot from one address, which all students of a class may share.
LIVE_OF_VISITOR = 40
# The longest decoding time, in seconds, for which a job has priority until its first round.
YOUNG_SECONDS = 2.0
# The length of a turn of a job that has not shown its first round and therefore has priority.
YOUNG_TURN_SECONDS = 0.5
# The longest decoding time that jobs with priority, which have not shown their first round, may use
# while others wait.
AHEAD_SECONDS = 6.0
# A turn of a job with priority reduces the time that such jobs may still use. A turn of another job
# increases this time, by AHEAD_SHARE of the length of the turn.
AHEAD_SHARE = 0.5
# The longest time in seconds for which a class of work or a visitor may decode before the others,
# after an idle time. For a class of work, this time is multiplied by its weight.
OWED_SECONDS = 1.0
MAX_VISITORS = 1000  # largest number of visitors whose decoding time is remembered
Share = TypeVar("Share", bound=Hashable)
Steps = Iterator[Message | None]
MayBegin = Callable[["QueuedOrder"], bool]


@dataclass(frozen=True, slots=True)
class TurnShare:
    """The time that a class of work gets while jobs of other classes wait.

    The time is proportional to `weight`, and is divided into turns of `seconds`.
    """

    weight: float
    seconds: float  # length of one turn of a job of this class


class Work(Enum):
    """The classes of work, each with its share of the decoding time."""

    RACE = TurnShare(8, 0.03)  # a race, which a user watches round by round
    ASK = TurnShare(8, 0.25)  # a short question of a lesson
    LAB = TurnShare(1, 0.5)  # a measurement, which takes minutes


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(eq=False, slots=True)
class QueuedOrder:
    """A job in the queue, from its arrival to its last message, with all its messages."""

    title: str  # the title that other users see
    work: Work
    # The function that starts the job; None when the job has ended.
    make: Callable[[QueuedOrder], Steps] | None
    visitor: str = ""  # network address of the visitor who started the job
    # The request of the visitor. It becomes None when the job ends, except for a recording.
    request: object = None
    weight: int = 0  # approximate memory of the request in bytes; 0 when the job has ended
    # True if the job pauses before its first round, until its page resumes it
    is_held: bool = False
    is_wanted: bool = True  # False until a page has asked for the job; it does not start before
    # True for a recording: it needs no turns, and the next page that opens it reads the same
    # messages.
    is_recording: bool = False
    state: State = State.WAITING
    stop: threading.Event = field(default_factory=threading.Event)
    gate: Gate = field(default_factory=Gate)
    messages: list[str] = field(default_factory=list)
    bytes: int = 0  # bytes of all messages of the job
    seconds: float = 0.0  # seconds for which the job has decoded so far
    has_shown: bool = False  # True if the job has sent its first round
    # The time at which the job will probably end, computed from its own progress messages.
    ends: float | None = None
    limit: str = ""  # the sentence that says why this server ended the job, or ""
    # The field `number` of each other job that had a turn while this job had a slot.
    beside: set[int] = field(default_factory=set)
    number: int = field(default_factory=count().__next__)
    steps: Steps | None = None
    # Number of the job's latest turn; before its first turn, the number at which it arrived.
    last_turn: int = -1
    is_parked: bool = False  # the user has paused the job
    parked_at: float = 0.0  # time at which the user paused the job
    # Functions that are called, from any thread, when the run has news.
    listeners: list[Callable[[], None]] = field(default_factory=list)
    # Returns True while the job waits for something else than its turn, for example for a download.
    is_idle: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        if self.is_held:
            self.gate.pause()

    @property
    def has_begun(self) -> bool:
        """Return whether the job has had a turn.

        The result stays True even if another job has taken its slot since then.
        """
        return self.steps is not None

    @property
    def is_young(self) -> bool:
        """Return whether the job has priority, because a user waits for its first round.

        It has priority for at most YOUNG_SECONDS of decoding. Lab jobs have none.
        """
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
        """End the job because the server has a reason for it; the job's results are kept."""
        self.limit = self.limit or limit
        self.cancel()

    def cancel(self) -> None:
        """End the job because no page wants it any more."""
        self.stop.set()
        self.gate.release()

    def say(self, message: Message) -> None:
        """Number a message and store it.

        The last message also gets two facts that the server knows: the number of other jobs that
        ran at the same time, and the reason if the server ended the job.
        """
        if message["kind"] == "end":
            # A recording stores how many other jobs ran next to it when it was made.
            beside = max(len(self.beside), message.get("beside", 0))
            message = message | {"beside": beside, "limit": self.limit or None}
        text = encode({"seq": len(self.messages), **message})
        self.messages.append(text)
        self.bytes += len(text)
        self._tell()

    def _tell(self) -> None:
        for wake in tuple(self.listeners):
            wake()

    def finish(self) -> None:
        """Free all memory of the job except its messages."""
        self.state, self.make, self.steps, self.weight = State.DONE, None, None, 0
        self.request = self.request if self.is_recording else None
        self._tell()


class Turns:
    """All jobs that wait or run, the oldest first.

    `budgets` has, for each class of work, the seconds of decoding after which a job is ended. If
    `most_live` is 1, a job keeps the device from start to end.
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
        # Seconds of decoding of each class of work, divided by the weight of the class.
        self._used = dict.fromkeys(Work, 0.0)
        # Account (see `visitors`) -> seconds for which its jobs have decoded. An account with the
        # limits of several visitors has this sum divided by their number.
        self._used_by: dict[str, float] = {}
        # Decoding time in seconds for which young jobs may still go before other jobs.
        self._ahead = AHEAD_SECONDS
        # Seconds of decoding of each class of work since the server started.
        self.seconds = dict.fromkeys(Work, 0.0)
        # Number of jobs of each class of work that have ended since the server started.
        self.ended = dict.fromkeys(Work, 0)
        self._turn = count()
        self._lock = threading.Lock()

    @property
    def live(self) -> list[QueuedOrder]:
        """Return the jobs that have a slot."""
        with self._lock:
            return [each for each in self._orders if each.state is State.RUNNING]

    @property
    def begun(self) -> list[QueuedOrder]:
        """Return the jobs that have started and not ended, with or without a slot."""
        with self._lock:
            return [each for each in self._orders if each.state is State.RUNNING or each.has_begun]

    @property
    def missing_room(self) -> int:
        """Return how many jobs have to end before another one can start."""
        return max(0, len(self.live) + 1 - self._most_live)

    @property
    def waiting(self) -> list[QueuedOrder]:
        with self._lock:
            return [each for each in self._orders if each.state is State.WAITING]

    def seconds_left(self, order: QueuedOrder) -> float | None:
        """Return the job's expected remaining time, or None if it is unknown."""
        return None if order.ends is None else max(0.0, order.ends - self._clock())

    def held_in_the_way(self, seconds: float, lacks_memory: bool = False) -> list[QueuedOrder]:
        """Return the paused jobs whose slots or memory other jobs wait for.

        Only jobs that have been paused for at least `seconds` count.
        """
        is_full = self.missing_room or lacks_memory
        if not is_full or not any(each.is_wanted for each in self.waiting):
            return []
        limit = self._clock() - seconds
        return [each for each in self.live if each.is_parked and each.parked_at <= limit]

    def newest_of_most(self) -> QueuedOrder | None:
        """Return the newest job of the visitor who has the largest number of started jobs.

        If the visitor has lab jobs, it is the newest of these. The result is None if no visitor has
        two or more started jobs.
        """
        begun = [each for each in self.begun if not each.stop.is_set()]
        counts = VisitorCounts(each.visitor for each in begun)
        most = counts.largest()
        return None if most < 2 else _newest([e for e in begun if counts[e.visitor] == most])

    def add(self, order: QueuedOrder) -> None:
        """Add a job, which then waits for its first turn."""
        with self._lock:
            order.last_turn = next(self._turn)
            self._orders.append(order)

    def drop(self, order: QueuedOrder) -> bool:
        """Remove a job that has not started; return False if it has started already."""
        with self._lock:
            if order not in self._orders or order.state is not State.WAITING or order.has_begun:
                return False
            self._orders.remove(order)
            order.finish()
            return True

    def move(self, may_begin: MayBegin = attrgetter("is_wanted")) -> bool:
        """Give one job its turn; return False if no job can run."""
        order = self._next(may_begin)
        if order is None:
            return False
        began, said, was_young = self._clock(), len(order.messages), order.is_young
        try:
            goes_on = self._slice(order, began)
        except BaseException as error:  # an error of a job must not stop the queue
            order.say({"kind": "error", "text": error_sentence(error, "a turn")})
            goes_on = False
        seconds = self._clock() - began
        order.seconds += seconds
        budget = self._budgets[order.work]
        if goes_on and order.seconds >= budget:
            order.end(limit_words(budget))
        has_worked = not order.is_parked or len(order.messages) > said
        with self._lock:
            gained = -seconds if was_young else seconds * AHEAD_SHARE
            if len(self._orders) > 1 or gained > 0:  # the only job in the queue delays no other job
                self._ahead = max(0.0, min(AHEAD_SECONDS, self._ahead + gained))
            self._used[order.work] += seconds / order.work.value.weight
            for name, visitors in accounts_of(order.visitor).items():
                self._used_by[name] += seconds / visitors
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
        """Return the job that gets the next turn.

        Young jobs (`is_young`) get their turns first, as long as they have time left for this.
        Otherwise, the next turn goes to the class of work that has used the least time. In both
        cases, the visitor who has used the least time comes first. Among the young jobs of this
        visitor, the oldest one comes first; among other jobs, the one that has waited longest.
        """
        wanted = [each for each in self.waiting if may_begin(each)]
        with self._lock:
            ready = self._ready(wanted)
            if not ready:
                return None
            young = [each for each in ready if each.is_young and self._ahead > 0]
            if not young:
                work = owed_most(self._used, [each.work for each in ready])
                ready = [each for each in ready if each.work is work]
            visitors = [each.visitor for each in young or ready]
            visitor = owed_most(self._used_by, visitors, accounts_of)
            order = min(
                (each for each in young or ready if each.visitor == visitor),
                key=attrgetter("number" if young else "last_turn"),
            )
            if order.state is State.WAITING and not order.stop.is_set():
                self._make_place(order.visitor)
            order.state, order.last_turn = State.RUNNING, next(self._turn)
            return order

    def _ready(self, wanted: list[QueuedOrder]) -> list[QueuedOrder]:
        """Return the jobs that can run and those that may start.

        A stopped job needs no slot to send its last message.
        """
        live = self._live_by_visitor()
        ready = []
        for each in self._orders:
            if each.state is State.RUNNING:
                ready += [each] if each.can_move else []
            elif each.has_begun and each.stop.is_set():
                ready.append(each)
            elif each in wanted and self._has_room(live, each.visitor):
                ready.append(each)
        return ready

    def _live_by_visitor(self) -> VisitorCounts:
        return VisitorCounts(each.visitor for each in self._orders if each.state is State.RUNNING)

    def _has_room(self, live: VisitorCounts, visitor: str) -> bool:
        """Return whether the visitor can get a slot; `live` counts the slots of each visitor.

        The visitor can get one if a slot is free, or if another visitor has several slots and must
        return one.
        """
        if live.total() < self._most_live:
            return live[visitor] < min(self._most_live, LIVE_OF_VISITOR)
        return not live[visitor] and live.largest() > 1

    def _make_place(self, visitor: str) -> None:
        """If all slots are taken, take one from the visitor with the largest number of slots."""
        live = self._live_by_visitor()
        if live.total() < self._most_live:
            return
        most = live.largest()
        held = [
            each
            for each in self._orders
            if each.state is State.RUNNING and live[each.visitor] == most and not each.stop.is_set()
        ]
        if held:
            _newest(held).state = State.WAITING

    def _forget_visitors(self) -> None:
        """Forget the visitors who have used the least decoding time.

        A forgotten visitor who returns counts as a new visitor. This hardly changes the order of
        the turns, because only visitors who have used little decoding time are forgotten.
        """
        for visitor in sorted(self._used_by, key=self._used_by.__getitem__)[:-MAX_VISITORS]:
            del self._used_by[visitor]

    def _slice(self, order: QueuedOrder, began: float) -> bool:
        """Run one turn of the job; return whether the job needs further turns."""
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
        """Store a message of the job, and compute from it how long the job will still take."""
        order.has_shown = order.has_shown or message.get("type") == "round"
        if "seconds_left" in message:
            left = message["seconds_left"]
            order.ends = None if left is None else self._clock() + left
        order.say(message)


def _newest(orders: Sequence[QueuedOrder]) -> QueuedOrder:
    """Return the newest lab job, or the newest job if there is no lab job.

    Lab jobs give up a slot first, because nobody watches them round by round.
    """
    return max(orders, key=lambda each: (each.work is Work.LAB, each.number))


def owed_most(
    used: dict[Share, float],
    those: Sequence[Share],
    accounts: Callable[[Share], Iterable[Share]] = lambda each: (each,),
) -> Share:
    """Return the item of `those` that has used the least time; `used` holds seconds by account.

    An item is a visitor or a class of work. If it has several accounts, the one with the largest
    time counts. An account that was idle keeps an advantage of at most OWED_SECONDS: `owed_most`
    raises its time to OWED_SECONDS less than the largest one.

    >>> used = {"worked": 60.0, "slept": 0.0}
    >>> owed_most(used, ["worked", "slept"]), used["slept"]
    ('slept', 59.0)
    """
    names = {each: tuple(accounts(each)) for each in those}
    known = set(chain(*names.values()))
    most = max(used.get(name, 0.0) for name in known)
    for name in known:
        used[name] = max(used.get(name, 0.0), most - OWED_SECONDS)
    return min(those, key=lambda each: max(used[name] for name in names[each]))


def limit_words(seconds: float) -> str:
    """Return the sentence that says that a run was ended because it had used its decoding time."""
    return (
        f"ended after {seconds:g} s of decoding, the limit of this server; "
        "what was measured is kept"
    )
