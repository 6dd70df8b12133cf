"""What the server does when the page asks: take a place, look, stop, race.

Knows Gradio's calling rules only by the shape of its functions. Errors meant for people go out as
one sentence; anything else is logged here and told as one line.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from specviz.errors import InputError
from specviz.experiments.racing import Race, RaceRequest, start_race
from specviz.experiments.replay import Replay
from specviz.models.pair import Pair
from specviz.models.pair_check import PairReport, check_pair_sources
from specviz.models.parts import Need
from specviz.ui.batches import Message, batches
from specviz.ui.counterfactuals import told_counterfactual
from specviz.ui.method_offer import refusals
from specviz.ui.opening import asked_trace
from specviz.ui.pair_words import report_lines
from specviz.ui.race_messages import RaceMessages
from specviz.ui.runs import Run, Runs
from specviz.ui.settings_form import form_method, form_pair, race_request

log = logging.getLogger("specviz")
StartRace = Callable[[RaceRequest], Race]
CheckPair = Callable[[Pair, str, str, frozenset[Need]], PairReport]
MAX_CHECKS = 4  # at once: each may wait for the Hub
MAX_OPENINGS = 3  # recordings whose figures are made at once
UNEXPECTED = "Something went wrong on the server; its log says what."


class Handlers:
    """The page's server side; one per app, shared by all sessions.

    `start` makes the race of a request, `check` looks at a pair; tests hand in their own.
    """

    def __init__(
        self, start: StartRace = start_race, check: CheckPair = check_pair_sources
    ) -> None:
        self._runs = Runs()
        self._start = start
        self._check = check
        self._checks = threading.BoundedSemaphore(MAX_CHECKS)
        self._openings = threading.BoundedSemaphore(MAX_OPENINGS)

    def join(self, question: dict[str, Any]) -> dict[str, Any]:
        """Check a setting and take a place in the queue: {"error": sentence or None}."""
        try:
            self._runs.join(str(question["ticket"]), race_request(question["form"]))
        except InputError as error:
            return {"error": str(error)}
        except Exception:
            log.exception("joining the queue failed")
            return {"error": UNEXPECTED}
        return {"error": None}

    def look(self, question: dict[str, Any]) -> dict[str, Any]:
        return self._runs.look(str(question["ticket"]), int(question["after"]))

    def stop(self, question: dict[str, Any]) -> dict[str, Any]:
        self._runs.stop(str(question["ticket"]))
        return {}

    def open(self, question: dict[str, Any]) -> dict[str, Any]:
        """Open a recording; its messages are there to look at: {"error": sentence or None}."""
        if not self._openings.acquire(blocking=False):
            return {"error": "other recordings are being opened: try again in a moment"}
        try:
            replay = Replay(asked_trace(question))
            run = self._runs.begin(str(question["ticket"]))
        except InputError as error:
            self._openings.release()
            return {"error": str(error)}
        except Exception:
            self._openings.release()
            log.exception("opening a recording failed")
            return {"error": UNEXPECTED}
        threading.Thread(target=self._play, args=(run, replay), daemon=True).start()
        return {"error": None}

    def _play(self, run: Run, replay: Replay) -> None:
        """Every message of a recording into its run's log, where the page looks for them."""
        try:
            for _ in batches(replayed_messages(run, replay), run.ticket, run.messages):
                pass
        finally:
            self._runs.leave(run)
            self._openings.release()

    def what_if(self, question: dict[str, Any]) -> dict[str, Any]:
        """What a round would have been with another draw, or {"error": sentence}."""
        try:
            return {"error": None} | told_counterfactual(question)
        except InputError as error:
            return {"error": str(error)}
        except Exception:
            log.exception("a counterfactual failed")
            return {"error": UNEXPECTED}

    def check(self, question: dict[str, Any]) -> dict[str, Any]:
        """What is known of the form's pair before its weights are fetched.

        {"lines": […], "refusals": {method: sentence}, "error": sentence or None}
        """
        if not self._checks.acquire(blocking=False):
            return {"error": "other pairs are being checked: try again in a moment"}
        try:
            return self._report(question["form"])
        except InputError as error:
            return {"error": str(error)}
        except Exception:
            log.exception("checking a pair failed")
            return {"error": UNEXPECTED}
        finally:
            self._checks.release()

    def _report(self, form: dict[str, Any]) -> dict[str, Any]:
        pair, needs = form_pair(form), form_method(form).needs
        report = self._check(pair, str(form["device"]), str(form["dtype"]), needs)
        return {"error": None, "lines": report_lines(report), "refusals": refusals(pair)}

    def race(self, event: gr.EventData) -> Iterator[str]:
        """Run the race behind a ticket; closing this generator frees it."""
        run = self._runs.enter(str(event._data.get("ticket")))
        if run is None:
            return
        try:
            with closing(race_messages(run, self._start)) as messages:
                yield from batches(messages, run.ticket, run.messages)
        finally:
            self._runs.leave(run)


def race_messages(run: Run, start: StartRace) -> Generator[Message]:
    """All messages of one run, errors included."""
    try:
        assert run.request is not None, "a recording is not raced"
        yield {"kind": "loading", "pair": run.request.pair.title}
        race = start(run.request)
        try:
            yield from RaceMessages(race).messages(run.stop)
        finally:
            race.close()
    except InputError as error:
        yield {"kind": "error", "text": str(error)}
    except Exception:
        log.exception("a race failed")
        yield {"kind": "error", "text": UNEXPECTED}


def replayed_messages(run: Run, replay: Replay) -> Generator[Message]:
    """All messages of one recording."""
    try:
        yield from RaceMessages(replay).messages(run.stop)
    except Exception:
        log.exception("a recording could not be shown")
        yield {"kind": "error", "text": UNEXPECTED}
