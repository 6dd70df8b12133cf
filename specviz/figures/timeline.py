"""The work of a round and its neighbours over time, with a bar for each measured span of work.

The functions turn records into a Plotly dict. Drafting, verification and the rest of a round have
one row each. The first round also has a span for the drafter's prefill. Every other worker, such as
a drafter that prepares the next round, has a row of its own. The background is shaded where such a
worker ran while the target verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from specviz.figures.labels import milliseconds, plain_text
from specviz.figures.theme import LIGHT, SMALL, Figure, base_layout, note, quiet_axis
from specviz.records import Round, Span

VERIFY = "verify"
_PARTS = {"draft": "draft_time", VERIFY: "verify_time", "host": "host_time"}
_DRAFT_PREFILL = "draft prefill"  # name of the span before the first draft of a run
_BESIDE = "beside"
_HATCHED = {"shape": "/", "fillmode": "overlay", "fgcolor": LIGHT["card"], "size": 6}
ROW_PIXELS = 24
LABEL_SHARE = 0.36  # width of a label as a share of the chart on a small screen
_FAINT = 0.3  # opacity of the neighbouring rounds


def timeline_figure(rounds: Sequence[Round], index: int) -> Figure:
    """Return the spans of the rounds in milliseconds from the start of the round `index`.

    `customdata` is the index of the span's round. The figure is empty without spans.
    """
    view = _Clock(rounds, index)
    return {"data": [view.bars(part) for part in (*_PARTS, _BESIDE)], "layout": view.layout()}


class _Clock:
    """The data of a timeline chart.

    `spans` pairs each time span with the index of its round. `rows` maps the name of each worker to
    its row in the chart.
    """

    def __init__(self, rounds: Sequence[Round], index: int) -> None:
        self.index = index
        self.spans = [(each.index, span) for each in rounds for span in each.spans]
        self.zero = min((s.start for i, s in self.spans if i == index), default=0.0)
        names = dict.fromkeys([*_PARTS, *(span.who for _, span in self.spans)])
        self.rows = {name: row for row, name in enumerate(names)}

    def at(self, seconds: float) -> float:
        """Convert a time on the lane's clock to the milliseconds of the chart's axis."""
        return round((seconds - self.zero) * 1000, 4)

    def bars(self, part: str) -> dict[str, Any]:
        own = [(i, s) for i, s in self.spans if (s.who if s.who in _PARTS else _BESIDE) == part]
        role = _PARTS.get(part, "draft_time")
        return {
            "type": "bar",
            "orientation": "h",
            "base": [self.at(span.start) for _, span in own],
            "x": [round((span.end - span.start) * 1000, 4) for _, span in own],
            "y": [self.rows[span.who] for _, span in own],
            "width": [0.62] * len(own),
            "customdata": [i for i, _ in own],
            "hovertext": [_hover(i, span) for i, span in own],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {
                "color": LIGHT[role],
                "opacity": [1 if i == self.index else _FAINT for i, _ in own],
                "line": {"width": 0},
                "pattern": _HATCHED if part == _BESIDE else {"shape": ""},
            },
            "meta": {"role": role},
        }

    def layout(self) -> dict[str, Any]:
        shared = list(self.shared())
        layout = base_layout(ROW_PIXELS * len(self.rows) + 64)
        layout["margin"] = {"l": 118, "r": 24, "t": 22, "b": 42 if shared else 26}
        layout["barmode"] = "overlay"
        layout["xaxis"] = quiet_axis(range=self.extent(), ticksuffix=" ms", nticks=5, tickangle=0)
        layout["yaxis"] = quiet_axis(
            range=[len(self.rows) - 0.4, -0.6],
            showgrid=False,
            ticklabelstandoff=6,
            tickvals=list(self.rows.values()),
            ticktext=[self.row_label(name) for name in self.rows],
        )
        layout["shapes"] = [self.shade(span) for i, span in shared if i == self.index]
        layout["annotations"] = [*self.round_labels(), self.remark(shared)]
        return layout

    def extent(self) -> list[float]:
        low = min((self.at(span.start) for _, span in self.spans), default=0.0)
        high = max((self.at(span.end) for _, span in self.spans), default=1.0)
        return [low, max(high, low + 1e-3)]

    def row_label(self, name: str) -> str:
        """Return the worker's name and its time in the selected round."""
        own = [span for i, span in self.spans if i == self.index and span.who == name]
        shown = "rest" if name == "host" else plain_text(name)
        return f"{shown}  {milliseconds(sum(s.end - s.start for s in own))}" if own else shown

    def round_labels(self) -> Iterator[dict[str, Any]]:
        """Yield a label at the start of each round.

        A neighbouring round has a label only if this label overlaps no other label.
        """
        starts: dict[int, float] = {}
        for index, span in self.spans:
            if span.who in (_DRAFT_PREFILL, *_PARTS):
                starts[index] = min(starts.get(index, self.at(span.start)), self.at(span.start))
        low, high = self.extent()
        edges = [*starts.values(), high]
        for (index, start), end in zip(starts.items(), edges[1:], strict=True):
            room = min(end - start, abs(start - starts.get(self.index, low)))
            if index != self.index and room < LABEL_SHARE * (high - low):
                continue
            text = f"round {index + 1}" if index == self.index else f"{index + 1}"
            font = {"size": SMALL, "color": LIGHT["ink" if index == self.index else "muted"]}
            is_at_edge = high - start < LABEL_SHARE * (high - low)
            x = {"x": high, "xanchor": "right"} if is_at_edge else {"x": start, "xanchor": "left"}
            place = {**x, "yref": "paper", "y": 1, "yanchor": "bottom"}
            yield note(f"<b>{text}</b>" if index == self.index else text, font=font, **place)

    def shared(self) -> Iterator[tuple[int, Span]]:
        """Yield the spans in which another worker ran while the target verified.

        The chart shades those of the selected round.
        """
        verified = [span for _, span in self.spans if span.who == VERIFY]
        for index, span in self.spans:
            if span.who in _PARTS:
                continue
            for other in verified:
                start, end = max(span.start, other.start), min(span.end, other.end)
                if start < end:
                    yield index, Span(span.who, start, end)

    def shade(self, span: Span) -> dict[str, Any]:
        x = {"x0": self.at(span.start), "x1": self.at(span.end)}
        y = {"yref": "y", "y0": self.rows[VERIFY] - 0.45, "y1": self.rows[span.who] + 0.45}
        look = {"fillcolor": LIGHT["grid"], "line": {"width": 0}, "layer": "below"}
        return {"type": "rect", **x, **y, **look}

    def remark(self, shared: list[tuple[int, Span]]) -> dict[str, Any]:
        own = [span for i, span in shared if i == self.index]
        seconds = sum(span.end - span.start for span in own)
        who = plain_text(" and ".join(dict.fromkeys(span.who for span in own)))
        text = f"{who}: {milliseconds(seconds)} of it while the target verified" if own else ""
        below = {"xref": "paper", "x": 0, "xanchor": "left", "xshift": -112}
        return note(text, yref="paper", y=0, yanchor="top", yshift=-22, **below)


def _hover(index: int, span: Span) -> str:
    return f"round {index + 1}: {plain_text(span.who)} {milliseconds(span.end - span.start)}"
