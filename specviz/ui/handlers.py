"""What the server does when the page asks: races, forks and profiles in a queue, recordings, pairs.

The lab's own questions are answered in `ui.lab`. Errors meant for people go out as one sentence;
anything else is logged and answered with one line.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain

import gradio as gr

from specviz.errors import InputError, short
from specviz.experiments.run.forking import Fork, ForkRequest, start_fork
from specviz.experiments.run.profiling import ProfileRequest
from specviz.experiments.run.racing import Race, RaceRequest, start_race
from specviz.experiments.run.recorded_race import Replay
from specviz.figures.labels import token_name
from specviz.models.memory_estimate import Demand
from specviz.models.pair_catalog import Pair
from specviz.models.pair_check import PairReport, check_pair_sources
from specviz.models.parts import Need
from specviz.models.threads import in_decoding_thread
from specviz.pause import Gate
from specviz.records.field_types import MAX_INTEGER
from specviz.trace_diff import difference, shared_texts
from specviz.trace_diff.sentence import sentence
from specviz.trace_file.values import integer
from specviz.ui.answers import UNEXPECTED, Question, answers
from specviz.ui.batches import Message, batches
from specviz.ui.counterfactuals import counterfactual_answer
from specviz.ui.course.course import Course
from specviz.ui.forks import fork_request
from specviz.ui.lab.lab import Lab
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.pair_words import report_lines
from specviz.ui.profiles import profile_messages, profile_request
from specviz.ui.race_messages import RaceMessages
from specviz.ui.recordings import requested_trace
from specviz.ui.runs import Run, Runs
from specviz.ui.settings_form import form_demand, form_method, form_pair, race_request, refusals

log = logging.getLogger("specviz")
StartRun = Callable[[RaceRequest | ForkRequest], Race | Fork]
CheckPair = Callable[[Pair, str, str, frozenset[Need], Demand], PairReport]
MAX_CHECKS = 4  # at once: each may wait for the Hub
MAX_OPENINGS = 3  # recordings whose figures are made at once
OPENING_SECONDS = 30.0  # that others wait for their turn: a class opens the page all at once


def start_run(request: RaceRequest | ForkRequest) -> Race | Fork:
    """Load what the request needs and make it ready to be followed."""
    return start_fork(request) if isinstance(request, ForkRequest) else start_race(request)


class Handlers:
    """The page's server side; one per app, shared by all sessions.

    `start` makes the run of a request, `check` looks at a pair; tests hand in their own.
    """

    def __init__(self, start: StartRun = start_run, check: CheckPair = check_pair_sources) -> None:
        self._runs = Runs()
        self.lab = Lab(self._runs)
        self.course = Course(self._runs)
        self._start = start
        self._check = check
        self._checks = threading.BoundedSemaphore(MAX_CHECKS)
        self._openings = threading.BoundedSemaphore(MAX_OPENINGS)

    # ---- runs

    @answers
    def join(self, question: Question) -> Question:
        """Check a setting and take a place in the queue; "held": wait before the first round."""
        request, is_held = race_request(question["form"]), bool(question.get("held"))
        self._runs.join(str(question["ticket"]), request, is_held)
        return {}

    @answers
    def fork(self, question: Question) -> Question:
        """Check where a recording is to be left, and take a place in the queue."""
        self._runs.join(str(question["ticket"]), fork_request(question))
        return {}

    @answers
    def profile(self, question: Question) -> Question:
        """Check which prompts are to be profiled, and take a place in the queue."""
        self._runs.join(str(question["ticket"]), profile_request(question))
        return {}

    @answers
    def look(self, question: Question) -> Question:
        """What there is of a run: see `Runs.look`."""
        after = integer(question["after"], "after", 0, MAX_INTEGER)
        return self._runs.look(str(question["ticket"]), after)

    @answers
    def stop(self, question: Question) -> Question:
        """End a run, wherever it stands."""
        self._runs.stop(str(question["ticket"]))
        return {}

    @answers
    def hold(self, question: Question) -> Question:
        """Pause a run, let it through by one round, or let it go on: {"do": …}."""
        move, gate = GATE_MOVES.get(str(question["do"])), self._runs.gate(str(question["ticket"]))
        if move is None:
            raise InputError(
                f"do must be one of {', '.join(GATE_MOVES)}, got {short(question['do'])}"
            )
        if gate is None:
            raise InputError("run must still go on to be held, but it has ended")
        move(gate)
        return {}

    def race(self, event: gr.EventData) -> Iterator[str]:
        """Run the race behind a ticket; closing this generator frees it."""
        data = event._data if isinstance(event._data, dict) else {}
        run = self._runs.enter(str(data.get("ticket")))
        if run is None:
            return
        try:
            steps = in_decoding_thread(lambda: run_messages(run, self._start))
            with closing(steps) as messages:
                told = chain([_loading(run)], self._heard(run, messages))
                yield from batches(told, run.ticket, run.messages)
        finally:
            self._runs.leave(run)

    def _heard(self, run: Run, messages: Iterator[Message]) -> Iterator[Message]:
        """Those who wait are told how long a run says that it will take."""
        for message in messages:
            if "seconds_left" in message:
                self._runs.expect(run, message["seconds_left"])
            yield message

    # ---- recordings

    @answers
    def open(self, question: Question) -> Question:
        """Open a recording; its messages are there to look at."""
        if not self._openings.acquire(timeout=OPENING_SECONDS):
            raise InputError("other recordings are being opened: try again in a moment")
        try:
            replay = Replay(requested_trace(question))
            run = self._runs.begin(str(question["ticket"]))
            threading.Thread(target=self._play, args=(run, replay), daemon=True).start()
        except BaseException:
            self._openings.release()
            raise
        return {}

    def _play(self, run: Run, replay: Replay) -> None:
        """Every message of a recording into its run's log, where the page looks for them."""
        try:
            for _ in batches(replayed_messages(run, replay), run.ticket, run.messages):
                pass
        finally:
            self._runs.leave(run)
            self._openings.release()

    @answers
    def what_if(self, question: Question) -> Question:
        """What a round would have been with another draw."""
        return counterfactual_answer(question)

    @answers
    def diff(self, question: Question) -> Question:
        """{"a": a run, "b": another} -> {"sentence", "index"}, null where no token differs."""
        a, b = (requested_trace(question[name]) for name in ("a", "b"))
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


def _loading(run: Run) -> Message:
    """The first message: the decoding thread may still be loading what the page begins with."""
    assert run.request is not None, "a recording is not raced"
    return {"kind": "loading", "pair": run.request.pair.title}


def run_messages(run: Run, start: StartRun) -> Generator[Message]:
    """All further messages of an order (race, fork, profile or lab), errors included."""
    try:
        assert run.request is not None, "a recording is not raced"
        if isinstance(run.request, LabOrder):
            yield from run.request.messages(run.stop)
        elif isinstance(run.request, ProfileRequest):
            yield from profile_messages(run.request, run.stop)
        else:
            yield from _followed(start(run.request), run)
    except InputError as error:
        yield {"kind": "error", "text": str(error)}
    except Exception:
        log.exception("a race failed")
        yield {"kind": "error", "text": UNEXPECTED}


def _followed(race: Race | Fork, run: Run) -> Generator[Message]:
    """A race or a fork from its header to its end; it is freed however it ends."""
    try:
        yield from RaceMessages(race, run.gate).messages(run.stop)
    finally:
        race.close()


def replayed_messages(run: Run, replay: Replay) -> Generator[Message]:
    """All messages of one recording."""
    try:
        yield from RaceMessages(replay).messages(run.stop)
    except Exception:
        log.exception("a recording could not be shown")
        yield {"kind": "error", "text": UNEXPECTED}
