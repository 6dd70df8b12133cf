"""A lesson's batch: a few texts decoded together, first plain and then with drafts.

Kinds of message: `progress`, `batch` (all rounds of all rows), `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.decoding.batch import BatchStep
from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.batch_race import BatchRace, BatchRequest, warm_up_rows
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import BUNDLED, Pair, pair_named
from specviz.prompts import held_out_rows
from specviz.records import BASELINE, SPECULATIVE, Round, Trace, prompt_text
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message
from specviz.ui.turns import Work

ROWS = 4
TOKENS = 28  # of each row
LENGTH = 4  # guesses of each row in a round
TEMPERATURE = 0.7  # so that rows are not equally lucky


@dataclass(frozen=True, slots=True)
class BatchOrder(LabOrder):
    """When stopped, it tells nothing: what a batch takes is known when all its rows have ended."""

    title: ClassVar[str] = "a lesson"
    work: ClassVar[Work] = Work.ASK

    request: BatchRequest

    @property
    def pair(self) -> Pair:
        return self.request.first.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        warm_up_rows(self.request.rows)
        steps: dict[str, list[dict[str, Any]]] = {BASELINE: [], SPECULATIVE: []}
        with closing(BatchRace(self.request)) as race:
            for lane, taken in steps.items():
                for step in until_stopped(race.run_lane(lane), stop):
                    taken.append(_step(step))
                    yield {"kind": "progress", "done": len(taken), "lane": lane}
            traces = race.traces()
        if stop.is_set():
            yield {"kind": "end", "reason": "stopped"}
            return
        config = self.request.first.config
        yield {
            "kind": "batch",
            "model": self.pair.model_name("target"),
            "drafter": method_named(config.method).title,
            "length": config.draft_length,
            "rows": [_row(trace) for trace in traces],
            "plain": steps[BASELINE][1:],  # behind the prefill
            "steps": steps[SPECULATIVE][1:],
        }
        yield {"kind": "end", "reason": "done"}


def batch_order(_: Mapping[str, Any]) -> BatchOrder:
    """Of the pair that comes with the app: its draft is lucky often enough, and not always."""
    config = method_named("draft-model").usual(
        LENGTH, max_new_tokens=TOKENS, temperature=TEMPERATURE
    )
    prompts = held_out_rows("story", ROWS)
    first = RaceRequest(pair_named(BUNDLED), prompts[0], config, "story")
    return BatchOrder(BatchRequest(first, prompts))


def _step(step: BatchStep) -> dict[str, Any]:
    rows = len({each.row for each in step.events})
    return {"seconds": step.seconds, "rows": rows, "tokens": step.tokens, "padding": step.padding}


def _row(trace: Trace) -> dict[str, Any]:
    texts = dict(trace.token_texts)
    assert trace.prefill is not None
    return {
        "prompt": prompt_text(trace.prompt),
        "first": texts[trace.prefill.extra.token_id],
        "rounds": [_round(each, texts) for each in trace.rounds],
    }


def _round(record: Round, texts: Mapping[int, str]) -> dict[str, Any]:
    """Its guesses with what became of them, and the token that the target added, if any."""
    return {
        "guesses": [texts[node.token_id] for node in record.tree.nodes],
        "outcomes": [verdict.outcome.value for verdict in record.verdicts],
        "written": [texts[each] for each in record.emitted_ids],
    }
