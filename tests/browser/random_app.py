"""The app with random races instead of models: `PORT=7861 python -m tests.browser.random_app`.

Tests of the page alone use it, because every shape of tree and text occurs and the speed is known.
"""

import os
import time
from collections.abc import Iterator

from specviz.decoding.race import LaneEvent
from specviz.environment import Environment
from specviz.experiments.run.racing import RaceRequest
from specviz.models.memory_estimate import MemoryEstimate
from specviz.models.pair_check import PairReport
from specviz.models.text.vocabulary import Relation
from specviz.ui import decoding_queue
from specviz.ui.handlers import Handlers
from specviz.ui.page import build_page, launch_options
from specviz.ui.room import Rooms
from tests.ui.random_race import RandomRace

HOSTILE = {
    "<b>": '<img src=x onerror="window.pwned=1">',
    "&amp;": "</script><script>window.pwned=1</script>",
    "${pwned()}": "${window.pwned=1}",
    "internationalisation": "\\`${alert(1)}{{this}}",
}
PAUSE_SECONDS = 0.003  # pause after each event, so that a race of 200 rounds takes a few seconds


class HostileRace(RandomRace):
    """A race whose tokens try to run as code in the browser."""

    def __init__(self, request: RaceRequest) -> None:
        super().__init__(request)
        self.texts = {i: HOSTILE.get(text, text) for i, text in self.texts.items()}

    def __iter__(self) -> Iterator[LaneEvent]:
        for event in super().__iter__():
            time.sleep(PAUSE_SECONDS)
            yield event
        print(f"ended {time.time()}", flush=True)


def known_pair(*_: object) -> PairReport:
    """Return a report on a model pair, with lines of every kind: good, plain, warning, problem."""
    return PairReport(
        device="cpu",
        dtype="float32",
        vocabulary=Relation.DIFFERENT,
        shared_tokens=0.5,
        bytes_needed=10**9,
        memory=MemoryEstimate(10**9, 0, 0, 0),
        bytes_free=2 * 10**9,
        download_bytes=10**9,
        gated=True,
        instruct=True,
        problems=("<b>no model</b>",),
        warnings=("it is slow",),
    )


if __name__ == "__main__":
    decoding_queue.MAX_LIVE = 1  # the app decodes one run at a time, as on a GPU
    handlers = Handlers(start=HostileRace, check=known_pair, fetching=lambda _: None)  # type: ignore[arg-type]
    handlers.rooms = Rooms(look_seconds=0.1)
    page = build_page(handlers)
    page.launch(**launch_options(Environment(port=int(os.environ["PORT"])), handlers))
