"""A race as messages for the page: each event once, with the figures that belong to it.

Knows records and figures; nothing of queues, Gradio or the browser's side. Kinds of message:
`loading`, `header`, `event`, `summary`, `end`; the page's modules say what they do with each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from specviz.decoding.race import Lane, LaneEvent
from specviz.experiments.run.forking import Fork
from specviz.experiments.run.racing import Race
from specviz.experiments.run.recorded_race import Replay
from specviz.experiments.run.recorder import mentioned_ids
from specviz.figures.bars import bars_figure
from specviz.figures.depth import depth_figure
from specviz.figures.mask import mask_figure
from specviz.figures.residual import residual_figure
from specviz.figures.speedup import speedup_figure
from specviz.figures.time_split import time_split_figure
from specviz.figures.timeline import timeline_figure
from specviz.figures.tree import tree_figure
from specviz.metrics import RunMeter
from specviz.pause import Gate, in_turns
from specviz.records import BaselineStep, FinishReason, Prefill, Round
from specviz.trace_file import encode_prefill, encode_round, encode_step, encode_trace
from specviz.ui.batches import Message
from specviz.ui.figure_delta import Figure, delta
from specviz.ui.note_words import remark

SUMMARY_SECONDS = 0.25
STOPPED = FinishReason.STOPPED.value


class RaceMessages:
    """Follows one race through a gate; `stop` is asked after every event."""

    def __init__(self, race: Race | Replay | Fork, gate: Gate | None = None) -> None:
        self._gate = gate or Gate()
        self._race = race
        self._summary_seconds = math.inf if isinstance(race, Replay) else SUMMARY_SECONDS
        self._meter = RunMeter(race.header.config.temperature)
        self._texts: dict[int, str] = {}
        self._templates: dict[str, Figure] = {}
        self._last_id: int | None = None
        self._last_rounds: list[Round] = []  # at most three
        self._finishes: list[FinishReason] = []

    def messages(self, stop: Any) -> Iterator[Message]:
        """All messages, from the header to the end; numbers on the way while a race is live."""
        yield {"kind": "header", "trace": encode_trace(self._race.header)}
        shown = time.monotonic()
        for event in in_turns(self._race, self._gate):
            yield self._event(event)
            if stop.is_set():
                break
            if time.monotonic() - shown >= self._summary_seconds:
                yield self._summary("summary")
                shown = time.monotonic()
        yield self._summary("end") | {"reason": self._reason()}

    def _reason(self) -> str:
        both_ended = len(self._finishes) == len(Lane)
        return self._finishes[-1].value if both_ended else STOPPED

    # ---- one event

    def _event(self, event: LaneEvent) -> Message:
        message = {"kind": "event", "lane": event.lane.value, "clock": event.clock}
        return message | {"texts": self._new_texts(event)} | self._record(event)

    def _new_texts(self, event: LaneEvent) -> dict[int, str]:
        new = {
            i: self._race.token_text(i) for i in mentioned_ids(event.event) if i not in self._texts
        }
        self._texts |= new
        return new

    def _record(self, event: LaneEvent) -> Message:
        is_baseline = event.lane is Lane.BASELINE
        match event.event:
            case Prefill() as prefill:
                add = self._meter.add_baseline_prefill if is_baseline else self._meter.add_prefill
                add(prefill)
                if not is_baseline:
                    self._last_id = prefill.extra.token_id
                return {"type": "prefill", "record": encode_prefill(prefill)}
            case BaselineStep() as step:
                self._meter.add_baseline_step(step)
                return {"type": "step", "record": encode_step(step)}
            case Round() as round_:
                self._meter.add_round(round_)
                said = [remark(note) for note in round_.notes]
                message = {"type": "round", "record": encode_round(round_), "remarks": said}
                return message | self._figures(round_)
            case FinishReason() as finish:
                self._finishes.append(finish)
                ended = self._meter.add_baseline_finish if is_baseline else self._meter.add_finish
                ended(finish)
                return {"type": "finish", "record": finish.value}

    # ---- figures

    def _figures(self, round_: Round) -> Message:
        """The tree, its mask, the bars of every node and of the extra token (last), timelines.

        A timeline shows the next round too: that of the round before comes again, by its index.
        """
        tree = tree_figure(round_, self._texts, self._last_id)
        mask = mask_figure(round_, self._texts, self._last_id)
        nodes = [node.parent for node in round_.tree.nodes]
        bars = [self._bars(round_, parent, child) for child, parent in enumerate(nodes)]
        if round_.extra is not None:
            bars.append(self._bars(round_, round_.extra.parent, None))
        self._last_id = (round_.emitted_ids or (self._last_id,))[-1]
        templates: Message = {}
        timelines = self._timelines(round_)
        message = {
            "tree": self._pack("tree", tree, templates),
            "mask": self._pack("mask", mask, templates),
            "bars": [self._pack("bars", each, templates) for each in bars],
            "residuals": {
                each.parent: self._pack("residual", residual_figure(each, self._texts), templates)
                for each in round_.positions
                if each.residual_probs
            },
            "timelines": {i: self._pack("timeline", f, templates) for i, f in timelines.items()},
        }
        return message | ({"templates": templates} if templates else {})

    def _timelines(self, round_: Round) -> dict[int, Figure]:
        self._last_rounds = [*self._last_rounds[-2:], round_]
        last = self._last_rounds
        figures = {round_.index: timeline_figure(last[-2:], round_.index)}
        if len(last) > 1:
            figures[last[-2].index] = timeline_figure(last, last[-2].index)
        return figures

    def _bars(self, round_: Round, parent: int, child: int | None) -> Figure:
        position = next((p for p in round_.positions if p.parent == parent), None)
        temperature = self._race.header.config_of(round_.index).temperature
        return bars_figure(position, round_, self._texts, temperature, child)

    def _pack(self, name: str, figure: Figure, new: Message) -> Figure:
        """The figure's difference from the first one of its name, which goes into `new` whole."""
        if name not in self._templates:
            self._templates[name] = new[name] = figure
        return delta(self._templates[name], figure)

    # ---- numbers so far

    def _summary(self, kind: str) -> Message:
        meter, totals = self._meter, self._meter.totals
        return {
            "kind": kind,
            "summary": asdict(meter.summary()),
            "figures": {
                "speedup": speedup_figure(meter.points, meter.theory_band),
                "times": time_split_figure(totals),
                "depth": depth_figure(totals.acceptance_by_depth, totals.acceptance_rate),
            },
        }
