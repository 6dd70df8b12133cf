"""What the server does when the page asks: races, forks and profiles by turns, recordings, pairs.

The lab's own questions are answered in `ui.lab`. Errors meant for people go out as one sentence;
anything else is logged and answered with one line.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError, short, whole_between
from specviz.experiments.run.forking import Fork, ForkRequest, start_fork
from specviz.experiments.run.profiling import ProfileRequest
from specviz.experiments.run.racing import Race, RaceRequest, demand_of, start_race
from specviz.experiments.run.recorded_race import Replay
from specviz.figures.labels import token_name
from specviz.models.memory_estimate import Demand
from specviz.models.pair_catalog import Pair
from specviz.models.pair_check import PairReport, check_pair_sources
from specviz.models.pair_fetching import fetch_pair, hub_sources
from specviz.models.parts import Need
from specviz.models.threads import own_threads
from specviz.pause import Gate
from specviz.records.field_types import MAX_INTEGER
from specviz.slices import InSlices, Stopped, heeding
from specviz.trace_diff import difference, shared_texts
from specviz.trace_diff.sentence import sentence
from specviz.ui.answers import Question, answers, asker, told
from specviz.ui.counterfactuals import counterfactual_answer
from specviz.ui.course.course import Course
from specviz.ui.decoding_queue import DecodingQueue
from specviz.ui.forks import fork_request
from specviz.ui.lab.lab import Lab
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.pair_words import report_lines
from specviz.ui.profiles import profile_messages, profile_request
from specviz.ui.race_messages import Ask, RaceMessages
from specviz.ui.recordings import requested_trace
from specviz.ui.room import Rooms
from specviz.ui.serving import Serving
from specviz.ui.settings_form import (
    form_demand,
    form_method,
    form_pair,
    race_request,
    raced_servers,
    refusals,
)
from specviz.ui.spending import spending
from specviz.ui.turns import QueuedOrder, State, Steps, Work
from specviz.ui.zero_gpu import lent, lent_messages

StartRun = Callable[[RaceRequest | ForkRequest], Race | Fork]
CheckPair = Callable[[Pair, str, str, frozenset[Need], Demand], PairReport]
Fetching = Callable[["Request"], Callable[[], None] | None]  # None: all is here
MAX_CHECKS = 4  # at once: each may wait for the Hub
FETCHERS = 2  # downloads at once
ASKED = 8  # servers of races at once
RECORD_BYTES = 5  # of a trace in memory, for each character of its file
PACKED = "H4sI"  # how a compressed file begins in base64; it ends with its whole size
OPENED = ("golden", "file")  # recordings; of each kind the figures of one are made at once
BATCH_SECONDS = 0.05  # in which messages wait for company
# how long a page's question waits for something new, by the state of its run
PATIENCE = {State.RUNNING.value: 3.0, State.WAITING.value: 0.5}
Request = RaceRequest | ForkRequest | ProfileRequest | LabOrder
T = TypeVar("T")
# what others are told of a run; an order of the lab or of a lesson tells it itself
TITLES: dict[type, str] = {
    RaceRequest: "a race",
    ForkRequest: "a fork",
    ProfileRequest: "a profile",
}


def start_run(request: RaceRequest | ForkRequest) -> Race | Fork:
    """Load what the request needs and make it ready to be followed."""
    return start_fork(request) if isinstance(request, ForkRequest) else start_race(request)


class Handlers:
    """The page's server side; one per app, shared by all sessions.

    `start` makes the run of a request, `check` looks at a pair, `fetching` brings its files; tests
    hand in their own.
    """

    def __init__(
        self,
        start: StartRun = start_run,
        check: CheckPair = check_pair_sources,
        fetching: Fetching | None = None,
    ) -> None:
        self._fetching = fetching or files_to_fetch
        self.queue = DecodingQueue()
        self._runs = self.queue.runs
        self.lab = Lab(self.take)
        self.course = Course(self.take)
        self.rooms = Rooms()
        self.serving = Serving()
        self._start = start
        self._check = check
        self._lent = lent(run_alone)
        self.preloading: Future[None] | None = None  # of what the page begins with
        self._checks = threading.BoundedSemaphore(MAX_CHECKS)
        self._fetches = ThreadPoolExecutor(FETCHERS, thread_name_prefix="fetching")
        self._asking = ThreadPoolExecutor(ASKED, thread_name_prefix="asking")
        # recordings of the app wait for nobody's files
        self._openings = {
            kind: ThreadPoolExecutor(1, thread_name_prefix=f"opening-{kind}") for kind in OPENED
        }

    # ---- runs

    @answers
    def join(self, question: Question) -> Question:
        """Check a setting and take a place in the queue.

        "held": wait before the first round; "servers": see `raced_servers`.
        """
        servers = raced_servers(question.get("servers"))
        if servers and self._lent is not None:
            raise InputError("server must be left out where a GPU is lent by the call")
        request = replace(race_request(question["form"]), servers=servers)
        return self.take(question, request, bool(question.get("held")))

    @answers
    def fork(self, question: Question) -> Question:
        """Check where a recording is to be left, and take a place in the queue."""
        return self.take(question, fork_request(question))

    @answers
    def profile(self, question: Question) -> Question:
        """Check which prompts are to be profiled, and take a place in the queue."""
        return self.take(question, profile_request(question))

    def take(self, question: Question, request: Request, is_held: bool = False) -> Question:
        """Give what was asked for a place in the queue, by the question's ticket."""
        order = QueuedOrder(
            title=title_of(request),
            work=work_of(request),
            make=lambda order: self._messages(order, request),
            visitor=asker(question),
            request=request,
            weight=weight_of(question),
            is_held=is_held,
        )
        self._runs.join(str(question["ticket"]), order)
        self.queue.wake()
        return {}

    def _fetch(self, order: QueuedOrder, request: Request) -> Steps:
        """None until the files of the request's pair are here: others move meanwhile."""
        fetch = self._fetching(request)
        if fetch is None:
            return
        fetched = self._fetches.submit(fetch)
        fetched.add_done_callback(lambda _: self.queue.wake())
        order.is_idle = lambda: not fetched.done()
        while order.is_idle() and not order.stop.is_set():
            yield None
        if order.stop.is_set():
            raise Stopped
        fetched.result()

    def _ask(self, order: QueuedOrder, events: Iterator[T]) -> Iterator[T | None]:
        """What a server answers, until the order is to stop; None while there is nothing new.

        A thread of its own reads it, so that nobody's turn is counted by its clock.
        """
        came: deque[T] = deque()

        def read() -> None:
            for each in events:
                came.append(each)
                self.queue.wake()

        asked = self._asking.submit(read)
        asked.add_done_callback(lambda _: self.queue.wake())
        order.is_idle = lambda: not (came or asked.done())
        is_over = False
        while not is_over:
            is_over = asked.done() or order.stop.is_set()
            while came:
                yield came.popleft()
            yield None
        if not asked.cancel() and asked.done():
            asked.result()

    def _messages(self, order: QueuedOrder, request: Request) -> Steps:
        """Decoded in this process, or in the one that the GPU is lent to."""
        call, start = self._lent, self._start
        if call is None:
            ask = partial(self._ask, order)
            own = lambda: _steps(order, request, start, ask)  # noqa: E731
            return run_messages(order, request, self._fetch, own)
        steps = lambda: lent_messages(call, order.stop, request, start)  # noqa: E731
        return run_messages(order, request, self._fetch, steps)

    @answers
    def look(self, question: Question) -> Question:
        """What there is of a run: see `Runs.look`. What is asked for the first time may begin."""
        after = whole_between(question["after"], "after", 0, MAX_INTEGER)
        found = self._runs.look(str(question["ticket"]), after)
        self.queue.wake()
        return found

    @answers
    def stop(self, question: Question) -> Question:
        """End a run, wherever it stands; one that others see goes on without this page."""
        self._runs.stop(str(question["ticket"]))
        self.queue.wake()
        return {}

    @answers
    def hold(self, question: Question) -> Question:
        """Pause a run, let it through by one round, or let it go on: {"do": …}."""
        move = GATE_MOVES.get(str(question["do"]))
        if move is None:
            raise InputError(
                f"do must be one of {', '.join(GATE_MOVES)}, got {short(question['do'])}"
            )
        if self._lent is not None:
            raise InputError("run must be on a device of this server's own: it cannot be held")
        if not self._runs.hold(str(question["ticket"]), move):
            raise InputError("run must still go on to be held, but it has ended")
        self.queue.wake()
        return {}

    async def hear(self, question: Question) -> Question:
        """As `look`, once there is something new, or after a moment: a page asks again and again.

        What comes in a moment comes together. Nobody waits in a thread.
        """
        began = time.monotonic()
        if isinstance(question, dict) and question.get("after"):
            await asyncio.sleep(BATCH_SECONDS)
        while True:
            reply = self.look(question)
            patience = PATIENCE.get(reply.get("state", ""), 0.0)
            if reply["error"] or reply["messages"] or time.monotonic() - began >= patience:
                return reply
            await asyncio.sleep(BATCH_SECONDS)

    # ---- recordings

    @answers
    def open(self, question: Question) -> Question:
        """Open a recording; its messages are there to look at."""
        trace = requested_trace(question, asker(question))
        kind, _ = recorded = _recorded(question)
        order = QueuedOrder(
            title="a recording",
            work=Work.RACE,
            make=None,
            visitor=asker(question),
            request=recorded,
            weight=weight_of(question),
            is_recording=True,
        )
        if self._runs.begin(str(question["ticket"]), order):
            self._openings[kind].submit(_play, order, Replay(trace))
        self.queue.wake()
        return {}

    @answers
    def what_if(self, question: Question) -> Question:
        """What a round would have been with another draw."""
        return counterfactual_answer(question)

    @answers
    def diff(self, question: Question) -> Question:
        """{"a": a run, "b": another} -> {"sentence", "index"}, null where no token differs."""
        a, b = (requested_trace(question[name], asker(question)) for name in ("a", "b"))
        found = difference(a, b)
        index = None if found is None else found.index
        text = sentence(found, shared_texts(a, b), ("this run", "the other"), token_name)
        return {"sentence": text, "index": index}

    # ---- pairs

    @answers
    def check(self, question: Question) -> Question:
        """What is known of the form's pair before its weights are fetched.

        {"lines": […], "refusals": {method: sentence}}
        """
        if not self._checks.acquire(blocking=False):
            raise InputError("other pairs are being checked: try again in a moment")
        try:
            return self._report(question["form"])
        finally:
            self._checks.release()

    def _report(self, form: Question) -> Question:
        pair, needs = form_pair(form), form_method(form).needs
        device, dtype = str(form["device"]), str(form["dtype"])
        report = self._check(pair, device, dtype, needs, form_demand(form))
        return {"lines": report_lines(report), "refusals": refusals(pair)}


GATE_MOVES: dict[str, Callable[[Gate], None]] = {
    "pause": Gate.pause,
    "advance": Gate.advance,
    "resume": Gate.resume,
}


def _recorded(question: Question) -> tuple[str, str]:
    """What tells a recording from all others: its kind, and its name or its content."""
    if "golden" in question:
        return "golden", str(question["golden"])
    return "file", hashlib.sha256(question["data"].encode()).hexdigest()


def weight_of(question: Question) -> int:
    """Bytes that a recording which came with the question, and was read, takes as records."""
    data = question.get("data")
    if not isinstance(data, str):
        return 0
    is_packed = data.startswith(PACKED)
    size = int.from_bytes(base64.b64decode(data[-8:])[-4:], "little") if is_packed else len(data)
    return RECORD_BYTES * size


def title_of(request: Request) -> str:
    """What others are told of a run."""
    return request.title if isinstance(request, LabOrder) else TITLES[type(request)]


def work_of(request: Request) -> Work:
    """How it takes turns with others."""
    if isinstance(request, LabOrder):
        return request.work
    return Work.LAB if isinstance(request, ProfileRequest) else Work.RACE


def files_to_fetch(request: Request) -> Callable[[], None] | None:
    """What brings the files of the request's pair, None where they are all here.

    Of an order of the lab those of the target and the draft; InputError for a source that is none.
    """
    pair = request.pair
    if isinstance(request, LabOrder):
        needs = frozenset({Need.DRAFT} if pair.draft else ())
        return partial(fetch_pair, pair, needs=needs) if hub_sources(pair, needs) else None
    needs = method_named(request.config.method).needs
    if not hub_sources(pair, needs):
        return None
    return partial(
        fetch_pair, pair, request.device, request.dtype, needs, demand_of(request.config)
    )


def run_messages(
    order: QueuedOrder,
    request: Request,
    fetch: Callable[[QueuedOrder, Request], Steps],
    steps: Callable[[], Steps],
) -> Steps:
    """All messages of an order (race, fork, profile or lab), errors included."""
    yield {"kind": "loading", "pair": request.pair.title}
    try:
        yield from fetch(order, request)
        yield from own_threads(heeding(steps(), order.stop))
    except Stopped:
        yield {"kind": "end", "reason": "stopped"}
    except Exception as error:
        yield {"kind": "error", "text": told(error, "a run")}


def run_alone(request: Request, start: StartRun) -> Generator[Message]:
    """All messages of a request whose files are here; nobody else decodes in this process."""
    order = QueuedOrder(title=title_of(request), work=Work.RACE, make=None)
    steps = run_messages(order, request, lambda *_: iter(()), lambda: _steps(order, request, start))
    for message in steps:
        if message is not None and message["kind"] != "loading":
            yield message


def _steps(order: QueuedOrder, request: Request, start: StartRun, ask: Ask = iter) -> Steps:
    """What measures for minutes moves in slices."""
    if isinstance(request, LabOrder):
        measure = partial(request.messages, order.stop)
    elif isinstance(request, ProfileRequest):
        measure = partial(profile_messages, request, order.stop)
    else:
        return _followed(start, request, order, ask)
    return InSlices(measure, order.stop) if order.work is Work.LAB else measure()


def _followed(
    start: StartRun, request: RaceRequest | ForkRequest, order: QueuedOrder, ask: Ask
) -> Steps:
    """A race or a fork from its header to its end; it is freed however it ends."""
    race = start(request)
    try:
        yield from RaceMessages(race, order.gate, ask).messages(order.stop)
    finally:
        race.close()


def _play(order: QueuedOrder, replay: Replay) -> None:
    """Every message of a recording into its log, where pages look for them."""
    began = time.thread_time()
    try:
        for message in RaceMessages(replay).messages(order.stop):
            if message is not None:
                order.say(message)
    except Exception as error:
        order.say({"kind": "error", "text": told(error, "a recording")})
    finally:
        order.finish()
        spending.add(order.visitor, time.thread_time() - began)
