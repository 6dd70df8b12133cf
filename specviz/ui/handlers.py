"""The server's answers to the page's questions: races, forks, profiles, recordings, pairs.

`ui.lab` answers the questions of the lab. If an error is meant for users, the answer is the text of
the error. Any other error is logged, and the answer is one general sentence.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
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
from specviz.slices import InSlices, Stopped, stoppable
from specviz.trace_diff import difference, shared_texts
from specviz.trace_diff.sentence import sentence
from specviz.ui.answers import Question, answers, asker, error_sentence
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
from specviz.ui.recordings import requested_recording, requested_trace
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
# Returns a function that downloads the missing files, or None if all files are on this machine.
Fetching = Callable[["Request"], Callable[[], None] | None]
MAX_CHECKS = 4  # largest number of pairs checked at the same time; each check may wait for the Hub
FETCHERS = 2  # largest number of downloads at the same time
ASKED = 8  # largest number of serving engines that answer in races at the same time
OPENED = ("golden", "file")  # kinds of recordings; one recording of each kind is prepared at a time
# number of seconds for which messages are collected, to send them in one answer
BATCH_SECONDS = 0.05
# State of a run -> how long `Handlers.hear` waits for news of the run, in seconds.
PATIENCE = {State.RUNNING.value: 3.0, State.WAITING.value: 0.5}
Request = RaceRequest | ForkRequest | ProfileRequest | LabOrder
T = TypeVar("T")
# Type of request -> the title of its run, which other users read. Jobs of the lab or of a lesson
# have their own title.
TITLES: dict[type, str] = {
    RaceRequest: "a race",
    ForkRequest: "a fork",
    ProfileRequest: "a profile",
}


def start_run(request: RaceRequest | ForkRequest) -> Race | Fork:
    """Load the models that the request needs, and return a run that is ready to start."""
    return start_fork(request) if isinstance(request, ForkRequest) else start_race(request)


class Handlers:
    """The server side of the page; one object per app, shared by all sessions.

    `start` makes the run of a request, `check` inspects a pair, and `fetching` returns a function
    that downloads the request's files. Tests replace them.
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
        self.preloading: Future[None] | None = None  # completes when the default pair is loaded
        self._checks = threading.BoundedSemaphore(MAX_CHECKS)
        self._fetches = ThreadPoolExecutor(FETCHERS, thread_name_prefix="fetching")
        self._asking = ThreadPoolExecutor(ASKED, thread_name_prefix="asking")
        # One thread for each kind, so that the app's own recordings need not wait for uploaded
        # files.
        self._openings = {
            kind: ThreadPoolExecutor(1, thread_name_prefix=f"opening-{kind}") for kind in OPENED
        }

    @answers
    def join(self, question: Question) -> Question:
        """Check the setting in the question and add its race to the queue.

        If the question has "held", the race waits before its first round. `raced_servers` reads the
        field "servers".
        """
        servers = raced_servers(question.get("servers"))
        if servers and self._lent is not None:
            raise InputError(
                "server must be left empty, because this page borrows its GPU for one call at a "
                "time"
            )
        request = replace(race_request(question["form"]), servers=servers)
        return self.take(question, request, bool(question.get("held")))

    @answers
    def fork(self, question: Question) -> Question:
        """Check the round at which the fork leaves a recording, and add the fork to the queue."""
        parent = requested_recording(dict(question), asker(question))
        request = fork_request(question, parent.trace)
        return self.take(question, request, weight=parent.weight)

    @answers
    def profile(self, question: Question) -> Question:
        """Check which prompts the question names, and add their acceptance profile to the queue."""
        return self.take(question, profile_request(question))

    def take(
        self, question: Question, request: Request, is_held: bool = False, weight: int = 0
    ) -> Question:
        """Add a request to the queue under the question's ticket.

        `weight` is the size in bytes of a recording that the request holds.
        """
        order = QueuedOrder(
            title=title_of(request),
            work=work_of(request),
            make=lambda order: self._messages(order, request),
            visitor=asker(question),
            request=request,
            weight=weight,
            is_held=is_held,
        )
        self._runs.join(str(question["ticket"]), order)
        self.queue.wake()
        return {}

    def _fetch(self, order: QueuedOrder, request: Request) -> Steps:
        """Yield None until the files of the request's pair are here; other jobs run meanwhile."""
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
        """Yield a serving engine's events until the job stops, and None while none has arrived.

        Another thread reads the events, so that the clock of the engine's lane excludes the turns
        of other jobs.
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
        """Yield the messages of a run, which decodes here or in the process that borrows a GPU."""
        call, start = self._lent, self._start
        if call is None:
            ask = partial(self._ask, order)
            own = lambda: _steps(order, request, start, ask)  # noqa: E731
            return run_messages(order, request, self._fetch, own)
        steps = lambda: lent_messages(call, order.stop, request, start)  # noqa: E731
        return run_messages(order, request, self._fetch, steps)

    @answers
    def look(self, question: Question) -> Question:
        """Return what is new in a run: see `Runs.look`. The first question lets the run start."""
        after = whole_between(question["after"], "'after'", 0, MAX_INTEGER)
        found = self._runs.look(str(question["ticket"]), after)
        self.queue.wake()
        return found

    @answers
    def stop(self, question: Question) -> Question:
        """End a run in any state; if other pages watch it, it continues for them."""
        self._runs.stop(str(question["ticket"]))
        self.queue.wake()
        return {}

    @answers
    def hold(self, question: Question) -> Question:
        """Pause a run, let a paused run do one round, or resume it, as the question's "do" says."""
        move = GATE_MOVES.get(str(question["do"]))
        if move is None:
            raise InputError(
                f"'do' must be one of {', '.join(GATE_MOVES)}, got {short(question['do'])}"
            )
        if self._lent is not None:
            raise InputError(
                "this run cannot be paused, because this page borrows its GPU for one call at a "
                "time"
            )
        if not self._runs.hold(str(question["ticket"]), move):
            raise InputError("this run cannot be paused, because it has ended")
        self.queue.wake()
        return {}

    async def hear(self, question: Question) -> Question:
        """Return the same answer as `look`, but wait a moment for news first.

        Messages that arrive together are sent together. The wait uses no thread, and it calls
        `look` only when something may have changed. A visitor who has used up the budget of
        processor time gets news less often.
        """
        began, visitor = time.monotonic(), ""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        ticket = ""

        def wake() -> None:
            # The call fails if the server has already closed its event loop.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(news.set)

        if isinstance(question, dict):
            ticket, visitor = str(question.get("ticket")), asker(question)
            if question.get("after"):
                await asyncio.sleep(BATCH_SECONDS)
            if spending.is_over(visitor):
                await asyncio.sleep(max(PATIENCE.values()))
        with self._runs.listening(ticket, wake):
            while True:
                news.clear()
                reply = self._charged_look(question, visitor)
                left = began + PATIENCE.get(reply.get("state", ""), 0.0) - time.monotonic()
                if reply["error"] or reply["messages"] or left <= 0:
                    return reply
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), left)

    def _charged_look(self, question: Question, visitor: str) -> Question:
        spent = time.thread_time()
        reply: Question = self.look(question)
        spending.add(visitor, time.thread_time() - spent)
        return reply

    @answers
    def open(self, question: Question) -> Question:
        """Open a recording; the page then reads its messages like those of a run."""
        recording = requested_recording(question, asker(question))
        kind, _ = recorded = _recorded(question)
        order = QueuedOrder(
            title="a recording",
            work=Work.RACE,
            make=None,
            visitor=asker(question),
            request=recorded,
            weight=recording.weight,
            is_recording=True,
        )
        if self._runs.begin(str(question["ticket"]), order):
            self._openings[kind].submit(_play, order, Replay(recording.trace))
        self.queue.wake()
        return {}

    @answers
    def what_if(self, question: Question) -> Question:
        """Return what a round would be with other random draws; see `counterfactual_answer`."""
        return counterfactual_answer(question)

    @answers
    def diff(self, question: Question) -> Question:
        """Find the first token at which the runs "a" and "b" differ.

        The answer is {"sentence": a description, "index": of the token, or null if none differs}.
        """
        a, b = (requested_trace(question[name], asker(question)) for name in ("a", "b"))
        found = difference(a, b)
        index = None if found is None else found.index
        text = sentence(found, shared_texts(a, b), ("this run", "the other"), token_name)
        return {"sentence": text, "index": index}

    @answers
    def check(self, question: Question) -> Question:
        """Report what is known about the form's pair before its weights are fetched.

        The answer is {"lines": […], "refusals": {method: sentence}}.
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
    """Return what identifies a recording: its kind, and its name or a hash of its content."""
    if "golden" in question:
        return "golden", str(question["golden"])
    return "file", hashlib.sha256(question["data"].encode()).hexdigest()


def title_of(request: Request) -> str:
    """Return the title of a run, which other users read."""
    return request.title if isinstance(request, LabOrder) else TITLES[type(request)]


def work_of(request: Request) -> Work:
    """Return a request's class of work, which decides how its run takes turns with other jobs."""
    if isinstance(request, LabOrder):
        return request.work
    return Work.LAB if isinstance(request, ProfileRequest) else Work.RACE


def files_to_fetch(request: Request) -> Callable[[], None] | None:
    """Return a function that downloads the files of the request's pair.

    The result is None if all files are on this machine. A job of the lab needs the target and the
    draft. Raises InputError for an invalid source.
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
    """Yield all messages of a job (race, fork, profile or lab), including its errors."""
    yield {"kind": "loading", "pair": request.pair.title}
    try:
        yield from fetch(order, request)
        yield from own_threads(stoppable(steps(), order.stop))
    except Stopped:
        yield {"kind": "end", "reason": "stopped"}
    except Exception as error:
        yield {"kind": "error", "text": error_sentence(error, "a run")}


def run_alone(request: Request, start: StartRun) -> Generator[Message]:
    """Yield all messages of a request except `loading`; this function runs in a separate process.

    All files of the models must already be on this machine.
    """
    order = QueuedOrder(title=title_of(request), work=Work.RACE, make=None)
    steps = run_messages(order, request, lambda *_: iter(()), lambda: _steps(order, request, start))
    for message in steps:
        if message is not None and message["kind"] != "loading":
            yield message


def _steps(order: QueuedOrder, request: Request, start: StartRun, ask: Ask = iter) -> Steps:
    """Return the steps of a request; a measurement that takes minutes runs in short slices."""
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
    """Yield the messages of a race or fork from the header to the end; always free its memory."""
    race = start(request)
    try:
        yield from RaceMessages(race, order.gate, ask).messages(order.stop)
    finally:
        race.close()


def _play(order: QueuedOrder, replay: Replay) -> None:
    """Write every message of a recording into its log, from which pages read them."""
    began = time.thread_time()
    try:
        for message in RaceMessages(replay).messages(order.stop):
            if message is not None:
                order.say(message)
    # A library may raise an error that is no Exception. The page must still get an answer.
    except BaseException as error:
        order.say({"kind": "error", "text": error_sentence(error, "a recording")})
    finally:
        order.finish()
        spending.add(order.visitor, time.thread_time() - began)
