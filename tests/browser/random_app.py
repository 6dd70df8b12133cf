"""The page over random races instead of models: `python tests/ui/random_app.py PORT`.

For tests of the page alone. What a race does is said by its request: `draft_length` and `branching`
shape the trees, `max_new_tokens` is the number of rounds.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from random_traces import not_started, random_trace  # noqa: E402

from specviz.decoding.race import Event, LaneEvent, race  # noqa: E402
from specviz.experiments.racing import RaceRequest  # noqa: E402
from specviz.records import Trace  # noqa: E402
from specviz.ui.handlers import Handlers  # noqa: E402
from specviz.ui.page import build_page, launch_options  # noqa: E402

HOSTILE = {
    "<b>": '<img src=x onerror="window.pwned=1">',
    "&amp;": "</script><script>window.pwned=1</script>",
    "${pwned()}": "${window.pwned=1}",
    "internationalisation": "\\`${alert(1)}{{this}}",
}
PAUSE_SECONDS = 0.003  # per event: a race of 200 rounds takes a few seconds


class RandomRace:
    """Plays a random trace as if it were decoded now."""

    def __init__(self, request: RaceRequest) -> None:
        config = request.config
        self._trace: Trace = random_trace(
            seed=config.seed,
            rounds=config.max_new_tokens,
            branching=config.branching,
            kind=config.tree_kind,
            draft_length=config.draft_length,
            temperature=config.temperature,
        )
        self._texts = {i: HOSTILE.get(text, text) for i, text in self._trace.token_texts}
        self.header = replace(not_started(self._trace), prompt=request.prompt)

    def __iter__(self) -> Iterator[LaneEvent]:
        for event in race(self._baseline(), self._speculative()):
            time.sleep(PAUSE_SECONDS)
            yield event

    def _baseline(self) -> Iterator[Event]:
        trace = self._trace
        assert trace.baseline_prefill and trace.baseline_finish
        yield trace.baseline_prefill
        yield from trace.baseline_steps
        yield trace.baseline_finish

    def _speculative(self) -> Iterator[Event]:
        assert self._trace.prefill and self._trace.finish
        yield self._trace.prefill
        yield from self._trace.rounds
        yield self._trace.finish

    def token_text(self, token_id: int) -> str:
        return self._texts[token_id]

    def close(self) -> None:
        pass


if __name__ == "__main__":
    page = build_page(Handlers(start=RandomRace))  # type: ignore[arg-type]
    page.launch(server_name="127.0.0.1", server_port=int(sys.argv[1]), **launch_options())
