"""Target and draft probabilities after one prefix, and the coin that judged the drafted token.

Pure: records to a Plotly dict. Knows neither the run nor the page. The number, order and roles of
the traces never change; only their arrays do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.figures.labels import probability, visible_text
from specviz.figures.law_rows import SHOWN_TOKENS, LawRow, law_rows
from specviz.figures.theme import (
    LEGEND_PIXELS,
    LIGHT,
    MONOSPACE,
    Figure,
    base_layout,
    hidden_axis,
    legend_above,
    note,
    quiet_axis,
)
from specviz.records import (
    ExtraKind,
    ExtraToken,
    Outcome,
    Position,
    ProposalKind,
    Round,
    Verdict,
)

ROW_PIXELS = 30
HEADING_PIXELS = 18  # above the legend
_RIGHT = 1.16  # room for the numbers behind the bars


def bars_figure(
    position: Position | None,
    round_: Round,
    texts: Mapping[int, str],
    temperature: float,
    child: int | None = None,
) -> Figure:
    """p and q over the tokens at `position`; below, min(1, p/q) and u of node `child`.

    At temperature 0 the raw laws are shown, for the processed ones are 0 or 1. Without a position
    (a prefix that was never examined) the bars show `child` and its siblings alone.
    """
    rows = law_rows(position, round_, child, is_raw=temperature == 0)
    has_draft = any(row.draft is not None for row in rows)
    y = max(len(rows), SHOWN_TOKENS + 1) + 0.9
    coin = _Coin.of(round_, child, y, is_drawn=temperature > 0)
    data = [
        _bars(rows, "target", [row.target for row in rows], -0.19 if has_draft else 0.0),
        _bars(rows, "draft", [row.draft for row in rows], 0.19),
        *coin.traces(),
    ]
    return {"data": data, "layout": _layout(rows, texts, coin, _title(round_, temperature, coin))}


def _title(round_: Round, temperature: float, coin: _Coin) -> str:
    if temperature == 0:
        return "Raw p and q: at temperature 0 the processed ones are 0 or 1"
    if not round_.tree.nodes:
        return "Nothing was drafted: the target drew alone"
    if not round_.tree.kind.is_lossless:
        return "A lossy rule: it asks whether p is large enough, not how often the draft proposes"
    if coin.comes_after_a_rejection:
        return "p and q before the first sibling was tried"
    if round_.tree.kind is ProposalKind.DETERMINISTIC:
        return "For the rule the draft is a point mass: it accepts with p"
    return "p and q as the rule compares them"


def _bars(
    rows: Sequence[LawRow], role: str, values: Sequence[float | None], offset: float
) -> dict[str, Any]:
    chosen = [(index, value) for index, value in enumerate(values) if value is not None]
    return {
        "type": "bar",
        "orientation": "h",
        "name": {"target": "target p", "draft": "draft q"}[role],
        "x": [value for _, value in chosen],
        "y": [index + offset for index, _ in chosen],
        "width": [0.34] * len(chosen),
        "text": [probability(value) for _, value in chosen],
        "textposition": "outside",
        "textangle": 0,
        "constraintext": "none",
        "cliponaxis": False,
        "textfont": {"size": 11, "color": LIGHT["muted"]},
        "customdata": [rows[index].node for index, _ in chosen],
        "hoverinfo": "skip",
        "marker": {"color": LIGHT[role], "line": {"width": 0}},
        "showlegend": bool(chosen),
        "meta": {"role": role},
    }


@dataclass(frozen=True, slots=True)
class _Coin:
    """The acceptance bar: shaded up to acceptance_prob, a pin at u; empty without a node.

    Without a node `extra` is the token that the target added, drawn (`is_drawn`) above temperature
    0. Neither at temperature 0 nor by a lossy rule does u decide.
    """

    verdict: Verdict | None
    extra: ExtraToken | None
    kind: ProposalKind
    is_drawn: bool
    y: float
    follows_rejection: bool

    @classmethod
    def of(cls, round_: Round, child: int | None, y: float, is_drawn: bool) -> _Coin:
        verdict = None if child is None else round_.verdicts[child]
        extra = round_.extra if child is None else None
        follows = child is not None and round_.follows_rejection(child)
        return cls(verdict, extra, round_.tree.kind, is_drawn, y, follows)

    @property
    def is_point_mass(self) -> bool:
        return self.kind is ProposalKind.DETERMINISTIC

    @property
    def is_tossed(self) -> bool:
        return self.is_drawn and self.kind.is_lossless

    @property
    def comes_after_a_rejection(self) -> bool:
        """An earlier sibling failed, so the rule compares what it left of p (and of q)."""
        is_examined = self.verdict is not None and self.verdict.outcome is not Outcome.UNREACHED
        return is_examined and self.follows_rejection

    @property
    def label(self) -> str:
        if self.verdict is None:
            return ""
        if not self.kind.is_lossless:
            return "p enough?"
        return "min(1, p/1)" if self.is_point_mass else "min(1, p/q)"

    @property
    def remark(self) -> str:
        """What the bars above do not say: a residual, a draw, or that nobody looked."""
        if self.verdict is None:
            return self._drawn
        if self.verdict.outcome is Outcome.UNREACHED:
            return "never examined: the walk ended before it"
        if not self.kind.is_lossless:
            passes = "above" if self.verdict.acceptance_prob > 0 else "below"
            return f"p is {passes} the threshold"
        if not self.comes_after_a_rejection:
            return ""
        p, q = probability(self.verdict.compared_prob), probability(self.verdict.draft_prob)
        compared = f"p {p}" if self.is_point_mass else f"p {p} with q {q}"
        return f"after the rejected sibling the rule compared {compared}"

    @property
    def _drawn(self) -> str:
        if self.extra is None or not self.is_drawn:
            return ""
        has_residual = self.extra.kind is ExtraKind.RECOVERED and self.kind.is_lossless
        law = "the residual" if has_residual else "p"
        return f"drawn from {law} with probability {probability(self.extra.prob)}"

    def traces(self) -> list[dict[str, Any]]:
        shown = [self.verdict] if self.verdict else []
        tossed = [v for v in shown if self.is_tossed and v.outcome is not Outcome.UNREACHED]
        ends = [self._end(verdict) for verdict in shown]
        return [
            self._bar("grid", [1.0 for _ in shown], 1.0, ends),
            self._bar("accepted", [v.acceptance_prob for v in shown], 0.4, []),
            self._pin([v.uniform_draw for v in tossed if v.uniform_draw is not None]),
        ]

    def _end(self, verdict: Verdict) -> str:
        if self.kind.is_lossless:
            return probability(verdict.acceptance_prob)
        return "yes" if verdict.acceptance_prob > 0 else "no"

    def _bar(self, role: str, x: list[float], opacity: float, text: list[str]) -> dict[str, Any]:
        return {
            "type": "bar",
            "orientation": "h",
            "x": x,
            "y": [self.y for _ in x],
            "width": [0.46 for _ in x],
            "text": text,
            "textposition": "outside",
            "textangle": 0,
            "constraintext": "none",
            "cliponaxis": False,
            "textfont": {"size": 11, "color": LIGHT["muted"]},
            "hoverinfo": "skip",
            "marker": {"color": LIGHT[role], "opacity": opacity, "line": {"width": 0}},
            "showlegend": False,
            "meta": {"role": role},
        }

    def _pin(self, draws: list[float]) -> dict[str, Any]:
        side = "middle left" if draws and draws[0] > 0.8 else "middle right"
        return {
            "type": "scatter",
            "mode": "lines+markers+text",
            "x": [u for u in draws for _ in range(2)],
            "y": [y for _ in draws for y in (self.y + 0.36, self.y - 0.52)],
            "text": [text for u in draws for text in ("", f" u = {u:.2f} ")],
            "textposition": side,
            "textfont": {"size": 11, "color": LIGHT["ink"]},
            "line": {"color": LIGHT["ink"], "width": 1.6},
            "marker": {"color": LIGHT["ink"], "size": [0, 8], "opacity": 1},
            "hoverinfo": "skip",
            "showlegend": False,
            "meta": {"role": "ink"},
        }


def _layout(
    rows: Sequence[LawRow], texts: Mapping[int, str], coin: _Coin, title: str
) -> dict[str, Any]:
    bottom = coin.y + 1.0
    layout = base_layout(round((bottom + 0.5) * ROW_PIXELS) + 48)
    layout["margin"] = {"l": 118, "r": 8, "t": HEADING_PIXELS + LEGEND_PIXELS, "b": 4}
    layout["barmode"] = "overlay"
    layout["xaxis"] = hidden_axis(range=[0, _RIGHT])
    layout["yaxis"] = quiet_axis(
        range=[bottom, -0.5],
        showgrid=False,
        ticklabelstandoff=6,
        tickvals=[*range(len(rows)), coin.y],
        ticktext=[*(_tick(row, texts) for row in rows), coin.label],
        tickfont={"family": MONOSPACE, "size": 12, "color": LIGHT["ink"]},
    )
    layout["showlegend"] = True
    layout["legend"] = legend_above() | {"y": 1 - HEADING_PIXELS / layout["height"]}
    above = {"xref": "paper", "x": 0, "xanchor": "left"}
    heading = note(
        title, **above, yref="paper", y=1, yanchor="bottom", yshift=LEGEND_PIXELS, xshift=-110
    )
    low = coin.y + 0.36
    remark = note(coin.remark, **above, yref="y", y=low, yanchor="top", xshift=-110)
    layout["annotations"] = [heading, remark]
    return layout


def _tick(row: LawRow, texts: Mapping[int, str]) -> str:
    if row.token_id is None:
        return "other"
    text = visible_text(texts.get(row.token_id, f"#{row.token_id}"))
    return f"<b>{text}</b>" if row.is_examined else text
