"""A race as messages for the page: each event once; a round also has its figures (tree, bars, …).

Kinds of message: `header`, `warning`, `event` (with the name of its lane), `asking` (a server
begins to answer in its lane), `summary`, `end`. `handlers.run_messages` adds `loading` and `error`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from specviz.decoding.race import LaneEvent
from specviz.experiments.run.engine_lane import EngineEvent
from specviz.experiments.run.forking import Fork
from specviz.experiments.run.racing import Race, RaceRequest
from specviz.experiments.run.recorded_race import Replay
from specviz.experiments.run.recorder import mentioned_ids
from specviz.figures.bars import bars_figure
from specviz.figures.depth import depth_figure
from specviz.figures.mask import mask_figure
from specviz.figures.moment_sentences import round_sentences
from specviz.figures.residual import residual_figure
from specviz.figures.speedup import speedup_figure
from specviz.figures.time_split import time_split_figure
from specviz.figures.timeline import timeline_figure
from specviz.figures.tree import tree_drawing
from specviz.metrics import RunMeter
from specviz.metrics.rounded_copy import rounded_copy_words
from specviz.models.files.loading import DTYPES
from specviz.models.pair_check import draft_bytes
from specviz.pause import Gate, in_turns
from specviz.records import (
    EngineReport,
    EngineToken,
    Event,
    FinishReason,
    LaneKind,
    Position,
    Prefill,
    Round,
    TokenStep,
    ToldOrigins,
    Trace,
)
from specviz.trace_file import encode, encode_trace
from specviz.ui.messages import Message
from specviz.ui.note_words import remark
from specviz.ui.race_line import race_line

Figure = dict[str, Any]
Ask = Callable[[Iterator[EngineEvent]], Iterable[EngineEvent | None]]
SUMMARY_SECONDS = 0.25
# While other work uses the processor, a run waits. If it waited for at least this share of its
# time, its measured times are less reliable.
MUCH_WAITED = 0.15
STOPPED = FinishReason.STOPPED.value


def _spared(request: RaceRequest) -> int | None:
    """Return the size in bytes of the draft model, which a method without a draft does not need.

    The result is None if the size is unknown.
    """
    pair = request.pair
    return draft_bytes(pair, DTYPES[request.dtype]) if pair.is_here and pair.draft else None


class _Busy:
    """A meter of how long the decoding thread waits because other work uses the processor."""

    def __init__(self) -> None:
        self._wall = self._own = 0.0
        self.begin()

    def begin(self) -> None:
        self._began = time.perf_counter(), time.thread_time()

    def end(self) -> None:
        self._wall += time.perf_counter() - self._began[0]
        self._own += time.thread_time() - self._began[1]

    @property
    def waited(self) -> float | None:
        """Return the share of time that the thread waited; None if it is too small to matter."""
        share = 1 - self._own / self._wall if self._wall > 0 else 0.0
        return share if share >= MUCH_WAITED else None


class RaceMessages:
    """The messages of one race. With `gate`, a user can pause the race.

    `ask` wraps the events of a server, so that reading never blocks: it yields each event that has
    arrived, and None while none is ready.
    """

    def __init__(
        self, race: Race | Replay | Fork, gate: Gate | None = None, ask: Ask = iter
    ) -> None:
        self._gate = gate or Gate()
        self._ask = ask
        self._race = race
        self._summary_seconds = math.inf if isinstance(race, Replay) else SUMMARY_SECONDS
        self._meter = RunMeter(race.header)
        self._main = race.header.main.name
        self._texts: dict[int, str] = {}
        self._templates: dict[str, Figure] = {}
        self._is_cut = False  # True if the user stopped the run while a server was answering
        self._last_id: int | None = None
        self._last_rounds: list[Round] = []  # the newest rounds, at most three

    def messages(self, stop: Any) -> Iterator[Message | None]:
        """Yield all messages, with a `summary` now and then while the race runs.

        It yields None while the user has paused the race. The numbers of a paused race include its
        last round. `stop` is checked after every event.
        """
        request = self._race.request if isinstance(self._race, Race) else None
        line = None if request is None else race_line(request)
        further = {"command": line, "draft_bytes": None if request is None else _spared(request)}
        yield {"kind": "header", "trace": encode_trace(self._header)} | further
        if isinstance(self._race, Race) and self._race.warning:
            yield {"kind": "warning", "text": self._race.warning}
        began, spent = time.monotonic(), 0.0
        busy = _Busy()
        for event in in_turns(self._race, self._gate, self._main):
            if event is None:
                yield None
                began = time.monotonic()
                busy.begin()
                continue
            busy.end()
            message = self._event(event)
            # the turns of other jobs are not counted in the seconds of this job
            spent += time.monotonic() - began
            yield message
            if stop.is_set():
                break
            is_held = self._gate.is_paused and event.lane == self._main
            if is_held or spent >= self._summary_seconds:
                yield self._summary("summary")
                spent = 0.0
            began = time.monotonic()
            busy.begin()
        if isinstance(self._race, Race):
            yield from self._server_lanes(self._race, stop)
        measured = {"waited": self._waited(busy), "beside": self._race.header.beside}
        ending = {"reason": self._reason(), "cut": self._is_cut} | measured
        yield self._summary("end") | ending

    def _waited(self, busy: _Busy) -> float | None:
        """Return the share of the race's time in which other work on the processor made it wait.

        It is the larger of two numbers: the one in the race's header, and the one that this process
        measured. A thread that uses a GPU also waits for the GPU, so only a run on a CPU is
        measured.
        """
        recorded = self._race.header.waited
        is_measured = self._header.device.startswith("cpu") and not isinstance(self._race, Replay)
        found = busy.waited if is_measured else None
        return max(filter(None, (recorded, found)), default=None)

    def _server_lanes(self, race: Race, stop: Any) -> Iterator[Message | None]:
        """Ask one server after the other, and yield each token as it arrives.

        When `stop` is set, the tokens so far are kept.
        """
        for server in race.request.servers:
            if stop.is_set():
                return
            yield self._summary("summary")
            yield {"kind": "asking", "lane": server.lane}
            for event in self._ask(race.ask(server, stop)):
                if isinstance(event, EngineReport):
                    race.take(server.lane, event)
                    yield self._summary("summary")
                else:
                    yield None if event is None else self._taken(race, server.lane, event)
            if self._meter.lanes[server.lane].finish is None:
                yield self._taken(race, server.lane, FinishReason.STOPPED)
            self._is_cut |= stop.is_set()

    def _taken(self, race: Race, lane: str, event: EngineEvent) -> Message:
        taken = race.take(lane, event)
        assert taken is not None
        return self._event(taken)

    @property
    def _header(self) -> Trace:
        """Return the race's trace without events, with the texts of the prompt's tokens.

        The page shows these texts. A recording already has them.
        """
        header = self._race.header
        if header.token_texts:
            return header
        texts = tuple((i, self._race.token_text(i)) for i in sorted(set(header.prompt_ids)))
        return replace(header, token_texts=texts)

    def _reason(self) -> str:
        """Return why the main lane ended.

        The result is "stopped" if a lane that runs here, not on a serving engine, has not ended.
        """
        finish = self._meter.lanes[self._main].finish
        own = [x.name for x in self._race.header.lanes if x.kind is not LaneKind.ENGINE]
        all_ended = all(self._meter.lanes[name].finish for name in own)
        return finish.value if finish and all_ended else STOPPED

    def _event(self, event: LaneEvent) -> Message:
        self._meter.add(event.lane, event.event)
        message = {"kind": "event", "lane": event.lane, "clock": event.clock}
        is_main = event.lane == self._main
        return message | {"texts": self._new_texts(event)} | self._record(event.event, is_main)

    def _new_texts(self, event: LaneEvent) -> dict[int, str]:
        new = {
            i: self._race.token_text(i) for i in mentioned_ids(event.event) if i not in self._texts
        }
        self._texts |= new
        return new

    def _record(self, event: Event, is_main: bool) -> Message:
        """Return the record of an event; for a round of the main lane, add its figures."""
        match event:
            case Prefill():
                if is_main:
                    self._last_id = event.extra.token_id
                return {"type": "prefill", "record": encode(event)}
            case TokenStep():
                return {"type": "step", "record": encode(event)}
            case EngineToken():
                return {"type": "arrival", "record": encode(event)}
            case ToldOrigins():
                return {"type": "origins", "record": [each.value for each in event.origins]}
            case Round():
                message = {"type": "round", "record": encode(event)}
                return message | self._shown(event) if is_main else message
            case FinishReason():
                return {"type": "finish", "record": event.value}

    def _shown(self, round_: Round) -> Message:
        """Return the sentences and figures about a round that the page shows."""
        sentences = asdict(round_sentences(round_, self._temperature(round_) == 0))
        remarks = [remark(note) for note in round_.notes]
        return {"remarks": remarks, "sentences": sentences} | self._figures(round_)

    def _temperature(self, round_: Round) -> float:
        return self._race.header.config_of(round_.index).temperature

    def _figures(self, round_: Round) -> Message:
        """Return the round's figures: the tree, its mask, the bars of every node, the timelines.

        The bars of the extra token come last. A timeline also shows the next round, so the timeline
        of the previous round is sent again, under that round's index.
        """
        tree = tree_drawing(round_, self._texts, self._last_id)
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
                each.parent: self._pack("residual", self._residual(round_, each), templates)
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
        return bars_figure(position, round_, self._texts, self._temperature(round_), child)

    def _residual(self, round_: Round, position: Position) -> Figure:
        extra = round_.extra
        own = None if extra is None or extra.parent != position.parent else extra.token_id
        return residual_figure(position, self._texts, own)

    def _pack(self, name: str, figure: Figure, new: Message) -> Figure:
        """Return only the parts of `figure` that differ from the first figure of this name.

        If `figure` is the first one itself, also add it to `new`, the figures to send as a whole.
        """
        if name not in self._templates:
            self._templates[name] = new[name] = figure
        return delta(self._templates[name], figure)

    def _summary(self, kind: str) -> Message:
        meter, totals = self._meter, self._meter.totals
        summary = meter.summary()
        return {
            "kind": kind,
            "summary": asdict(summary),
            "copy_words": rounded_copy_words(self._race.header.config, summary.cost_ratio),
            "drafter_cache_bytes": self._race.header.main.drafter_cache_bytes,
            "engines": {
                each.name: encode(each.engine) for each in self._race.header.lanes if each.engine
            },
            "figures": {
                "speedup": speedup_figure(meter.points, meter.theory_band),
                "times": time_split_figure(totals),
                "depth": depth_figure(totals.acceptance_by_depth, totals.acceptance_rate),
            },
        }


def delta(template: Figure, figure: Figure) -> Figure:
    """Return the parts of `figure` that differ from `template`.

    Both are Plotly figures with the same number and order of Plotly traces. The parts are keys of
    each Plotly trace and of the layout. Layout and style are therefore sent once, and only arrays
    are sent again.
    `assets/player/shared/round.js` restores the figures.

    >>> delta({"data": [{"x": [1], "mode": "lines"}], "layout": {"height": 9}},
    ...       {"data": [{"x": [2], "mode": "lines"}], "layout": {"height": 9}})
    {'data': [{'x': [2]}], 'layout': {}}
    """
    traces = zip(template["data"], figure["data"], strict=True)
    return {
        "data": [_changed(old, new) for old, new in traces],
        "layout": _changed(template["layout"], figure["layout"]),
    }


def _changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    missing = dict.fromkeys(old.keys() - new.keys())
    return missing | {key: value for key, value in new.items() if old.get(key) != value}
