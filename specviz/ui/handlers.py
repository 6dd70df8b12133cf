"""What the server does when the page asks: take a place, look, stop, race.

Knows Gradio's calling rules only by the shape of its functions. Errors meant for people go out as
one sentence; anything else is logged here and told as one line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from specviz.errors import InputError
from specviz.experiments.racing import Race, RaceRequest, start_race
from specviz.ui.batches import Message, batches
from specviz.ui.race_messages import RaceMessages
from specviz.ui.runs import Run, Runs
from specviz.ui.settings_form import race_request

log = logging.getLogger("specviz")
StartRace = Callable[[RaceRequest], Race]
UNEXPECTED = "Something went wrong on the server; its log says what."


class Handlers:
    """The page's server side; one per app, shared by all sessions.

    `start` makes the race of a request; tests hand in races of their own.
    """

    def __init__(self, start: StartRace = start_race) -> None:
        self._runs = Runs()
        self._start = start

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
