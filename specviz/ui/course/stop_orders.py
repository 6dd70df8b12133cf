"""The job of a lesson about when to end a draft: every fixed length, and the adaptive length.

The bundled pair decodes at temperature 0, so the text is the same with every length, and the rounds
are the same in every pass. The job's messages are `progress`, then `stops` and `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.decoding.draft_lengths import ADAPTIVE, FIXED
from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.prompts import held_out_prompts
from specviz.records import BASELINE, SPECULATIVE, Round, TokenStep
from specviz.slices import giving_way, until_stopped
from specviz.ui.course.pair_orders import PairOrder
from specviz.ui.messages import Message
from specviz.ui.turns import Work

TASKS = ("story", "code")
LONGEST = 8
TOKENS = 96
PASSES = 5
# the length policy and the draft length of each run
RUNS = (*((FIXED.name, length) for length in range(1, LONGEST + 1)), (ADAPTIVE.name, LONGEST))


@dataclass(frozen=True, slots=True)
class StopsOrder(PairOrder):
    """A job that decodes one prompt of each task with each fixed length and the adaptive length.

    The message `stops` has the rounds of each run of the first pass. `seconds` has a list for each
    pass: the typical time of a round with 0, 1, … drafted tokens. Without a draft, a round takes as
    long as a step of the baseline.
    """

    work: ClassVar[Work] = Work.LAB  # queued like the lab's measurements: it takes a while

    def messages(self, stop: threading.Event) -> Generator[Message]:
        plan = [(task, *run) for _ in range(PASSES) for task in TASKS for run in RUNS]
        rows: list[dict[str, Any]] = []
        times: list[dict[int, list[float]]] = []
        for at, (row, taken) in enumerate(
            until_stopped((self._run(*each) for each in plan), stop), start=1
        ):
            if at % (len(TASKS) * len(RUNS)) == 1:
                times.append({})
            for drafted, seconds in taken:
                times[-1].setdefault(drafted, []).append(seconds)
            rows.append(row)
            yield {"kind": "progress", "done": at, "points": len(plan)}
        if len(rows) == len(plan):
            yield {
                "kind": "stops",
                "rows": rows[: len(TASKS) * len(RUNS)],
                "seconds": [[_typical(each[n]) for n in range(LONGEST + 1)] for each in times],
            }
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}

    def _run(
        self, task: str, policy: str, length: int
    ) -> tuple[dict[str, Any], list[tuple[int, float]]]:
        """Return the row of one run, and a pair for each of its rounds and plain steps.

        A pair is the number of drafted tokens and the seconds.
        """
        config = method_named("draft-model").usual(
            length, length_policy=policy, temperature=0.0, max_new_tokens=TOKENS
        )
        race = start_race(RaceRequest(self.measured, held_out_prompts(task)[0], config, task))
        try:
            # One run of the baseline for each task and pass is enough.
            plain = race.run_lane(BASELINE) if policy == ADAPTIVE.name else ()
            steps = [each for each in giving_way(plain) if isinstance(each, TokenStep)]
            events = giving_way(race.run_lane(SPECULATIVE))
            rounds = [each for each in events if isinstance(each, Round)]
        finally:
            race.close()
        drafts = [each for each in rounds if each.tree.nodes]
        shown = [_round(each, race.token_text) for each in rounds]
        return {"task": task, "policy": policy, "K": length, "rounds": shown}, [
            *((0, step.seconds) for step in steps),
            *((len(each.tree.nodes), each.work_seconds) for each in drafts),
        ]


def _typical(seconds: list[float]) -> float:
    """Return the lower quartile of the seconds of several rounds.

    The median would be too high, because other work on the machine only makes rounds slower.
    """
    return sorted(seconds)[len(seconds) // 4]


def _round(event: Round, text: Callable[[int], str]) -> dict[str, Any]:
    return {
        "draft": [text(node.token_id) for node in event.tree.nodes],
        "kept": len(event.accepted),
        "extra": text(event.extra.token_id) if event.extra else None,
    }


def stops_order(_: Mapping[str, Any]) -> StopsOrder:
    return StopsOrder(pair_named(BUNDLED))
