"""A batch of prompts, decoded without drafts and then with them, shown sequence by sequence.

Kinds of message: `progress`, `batch` (all rounds of all sequences), `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.decoding.batch import BatchStep
from specviz.decoding.drafters.registry import method_named
from specviz.errors import whole_between
from specviz.experiments.run.batch_race import BatchRace, BatchRequest, warm_up_rows
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.models.pair_catalog import Pair
from specviz.records import BASELINE, SPECULATIVE, Round, Trace, prompt_text
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.lab.lab_sweeps import checked_sweep
from specviz.ui.messages import Message


@dataclass(frozen=True, slots=True)
class PointBatch(LabOrder):
    """A job that picks one point of a sweep and decodes the first batch of that point."""

    title: ClassVar[str] = "a batch"

    setting: SweepSetting

    @property
    def pair(self) -> Pair:
        return self.setting.pair

    def messages(self, stop: threading.Event) -> Generator[Message]:
        first, *_ = rows = self.setting.groups[0]
        prompts = tuple(row.prompt for row in rows)
        yield from batch_messages(BatchRequest(first, prompts, self.setting.batch), stop)


def batch_order(question: Mapping[str, Any]) -> PointBatch:
    """Return the job that decodes the first batch of one point of a sweep.

    The question is {"file": the sweep, "picked": the index of the point in the sweep's plan}.

    Raises InputError if the file is no sweep, or if the index is outside the plan.
    """
    plan = checked_sweep(question.get("file")).plan
    picked = whole_between(question.get("picked"), "picked", 0, len(plan.places) - 1)
    return PointBatch(plan.setting_at(plan.places[picked]))


def batch_messages(request: BatchRequest, stop: threading.Event) -> Generator[Message]:
    """Decode a batch without and with drafts, and yield the messages of both runs.

    A stopped run sends no result, because the cost of a batch is known only when all its sequences
    have ended.
    """
    warm_up_rows(request.rows, request.options)
    steps: dict[str, list[dict[str, Any]]] = {BASELINE: [], SPECULATIVE: []}
    with closing(BatchRace(request)) as race:
        for lane, taken in steps.items():
            for step in until_stopped(race.run_lane(lane), stop):
                taken.append(_step(step))
                yield {"kind": "progress", "done": len(taken), "lane": lane}
        traces = race.traces()
    if stop.is_set():
        yield {"kind": "end", "reason": "stopped"}
        return
    config = request.first.config
    yield {
        "kind": "batch",
        "model": request.first.pair.model_name("target"),
        "drafter": method_named(config.method).title,
        "length": config.draft_length,
        "rows": [_row(trace) for trace in traces],
        # The first step is the prefill, which the page does not show.
        "plain": steps[BASELINE][1:],
        "steps": steps[SPECULATIVE][1:],
    }
    yield {"kind": "end", "reason": "done"}


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
    """Return a round's guesses, their outcomes, and the tokens that the round emitted."""
    return {
        "guesses": [texts[node.token_id] for node in record.tree.nodes],
        "outcomes": [verdict.outcome.value for verdict in record.verdicts],
        "written": [texts[each] for each in record.emitted_ids],
    }
