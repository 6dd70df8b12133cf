"""Target and draft probabilities after one prefix, what both have in common, and the draw.

Pure: records to a Plotly dict. Knows neither the run nor the page. The number, order, roles and
parts of the traces never change; only their arrays do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.figures.coin import Coin
from specviz.figures.distribution_rows import (
    SHOWN_TOKENS,
    DistributionRow,
    distribution_rows,
    has_own_distribution,
)
from specviz.figures.labels import NO_BREAK, compared, percent, visible_text
from specviz.figures.overlap import Overlap
from specviz.figures.theme import (
    LIGHT,
    MONOSPACE,
    SMALL,
    Figure,
    base_layout,
    legend_above,
    probability_bars,
    quiet_axis,
)
from specviz.records import Position, ProposalKind, Round

ROW_PIXELS = 30
BAR_WIDTH = 0.28  # of a row
ROOMY_ROWS = 6  # as many as share the height while the draft's alone show
_LEAST_SUM = 1e-5  # what the six digits of a recorded distribution can lose


def bars_figure(
    position: Position | None,
    round_: Round,
    texts: Mapping[int, str],
    temperature: float,
    child: int | None = None,
) -> Figure:
    """p and q over the tokens at `position`, their overlap as an area; below, min(1, p/q) and u of
    node `child`.

    At temperature 0 the raw distributions are shown, for the processed ones are 0 or 1; so is q
    where the rule takes every guess as certain. Without a position (a prefix that was never
    examined) the bars show `child` and its siblings alone.

    A chart cannot wrap text, so `meta` of the layout has the heading and the remark for the page to
    show above and below it. For the time before p is known it has `drafted`: the heading, and the
    columns and the axis of the draft's bars alone.
    """
    rows = distribution_rows(position, round_, child, is_raw=temperature == 0)
    has_draft = any(row.draft is not None for row in rows)
    y = max(len(rows), SHOWN_TOKENS + 1) + 0.9
    coin = Coin.of(round_, child, y, is_drawn=temperature > 0)
    texts_of = [compared(row.target, row.draft) for row in rows]
    p, q = [row.target for row in rows], [row.draft for row in rows]
    target = _bars(rows, "target", p, [own for own, _ in texts_of], -0.19 if has_draft else 0.0)
    draft = _bars(rows, "draft", q, [own for _, own in texts_of], 0.19)
    overlap = Overlap.of(position, round_, child, rows, is_drawn=temperature > 0)
    layout = _layout(rows, texts, coin)
    layout["meta"] = {
        "heading": _title(round_, temperature, coin) + overlap.words,
        "remark": coin.remark or overlap.remark,
        "drafted": {"heading": _draft_words(round_, temperature)} | _draft_alone(rows, texts),
    }
    return {"data": [overlap.area, target, draft, *coin.traces(), overlap.cut], "layout": layout}


def _draft_alone(rows: Sequence[DistributionRow], texts: Mapping[int, str]) -> dict[str, Any]:
    """Only what the draft itself names, by falling q: no row may tell where p will be large."""
    own = [(row.draft, row) for row in rows if row.is_own and row.draft is not None]
    if not own:
        return {"bars": None, "axis": None}
    own.sort(key=lambda pair: -pair[0])
    rest = max(0.0, 1 - sum(q for q, _ in own))
    places = list(range(len(own) + 1))
    bars = {
        "x": [*(q for q, _ in own), rest],
        "y": places,
        "width": [BAR_WIDTH for _ in places],
        "text": [*(percent(q) for q, _ in own), _rest_words(rest)],
        "customdata": [*(row.node for _, row in own), None],
    }
    names = [*(_tick(row, texts) for _, row in own), "other"]
    span = [max(len(places), ROOMY_ROWS) - 0.3, -0.5]  # few rows fill the height of many
    return {"bars": bars, "axis": {"tickvals": places, "ticktext": names, "range": span}}


def _rest_words(rest: float) -> str:
    if rest < _LEAST_SUM:
        return f"0{NO_BREAK}%"
    return f"under 0.1{NO_BREAK}%" if rest < 0.0005 else f"{100 * rest:.1f}{NO_BREAK}%"


def _draft_words(round_: Round, temperature: float) -> str:
    if not round_.tree.nodes:
        return "Nothing was drafted"
    if not has_own_distribution(round_):
        return "This draft gives its guesses no probabilities"
    if temperature == 0:
        return "q is raw, at temperature 1"
    if round_.tree.kind in (ProposalKind.DETERMINISTIC, ProposalKind.TYPICAL):
        return "q is the draft’s own confidence, at temperature 1"
    return f"q is what the draft drew from, at temperature {temperature:g}"


def _title(round_: Round, temperature: float, coin: Coin) -> str:
    if temperature == 0:
        return "Raw p and q, at temperature 1: at temperature 0 those of the rule are 0 or 1"
    if not round_.tree.nodes:
        return f"Nothing was drafted: the target draws alone, from p at temperature {temperature:g}"
    if not round_.tree.kind.is_lossless:
        return "A lossy rule: it asks whether p is large enough, not how often the draft proposes"
    when = "before the first sibling was tried" if coin.comes_after_a_rejection else ""
    if round_.tree.kind is ProposalKind.DETERMINISTIC:
        return _point_mass_title(round_, temperature, when)
    return f"p and q {when or 'as the rule compares them'}, at temperature {temperature:g}"


def _point_mass_title(round_: Round, temperature: float, when: str) -> str:
    """q is 1 for the rule, so what shows as q takes no part in it."""
    known = "q is only the draft’s own confidence, at temperature 1"
    q = known if has_own_distribution(round_) else "this draft gives no probabilities"
    p = (
        f"p {when}, at temperature {temperature:g}"
        if when
        else f"The rule accepts with p, at temperature {temperature:g}"
    )
    return f"{p}; {q}"


def _bars(
    rows: Sequence[DistributionRow],
    role: str,
    values: Sequence[float | None],
    written: Sequence[str],
    offset: float,
) -> dict[str, Any]:
    chosen = [(index, value) for index, value in enumerate(values) if value is not None]
    return {
        "type": "bar",
        "orientation": "h",
        "name": {"target": "target p", "draft": "draft q"}[role],
        "x": [value for _, value in chosen],
        "y": [index + offset for index, _ in chosen],
        "width": [BAR_WIDTH] * len(chosen),
        "text": [written[index] for index, _ in chosen],
        "textposition": "outside",
        "textangle": 0,
        "constraintext": "none",
        "cliponaxis": False,
        "textfont": {"size": SMALL, "color": LIGHT["muted"]},
        "customdata": [rows[index].node for index, _ in chosen],
        "hoverinfo": "skip",
        "marker": {"color": LIGHT[role], "line": {"width": 0}},
        "showlegend": bool(chosen),
        "meta": {"role": role},
    }


def _layout(
    rows: Sequence[DistributionRow], texts: Mapping[int, str], coin: Coin
) -> dict[str, Any]:
    bottom = coin.y + 1.2  # the number below the bar of the draw stays clear of the remark
    layout = base_layout(round((bottom + 0.5) * ROW_PIXELS) + 48)
    layout |= probability_bars()
    layout["yaxis"] = quiet_axis(
        range=[bottom, -0.5],
        showgrid=False,
        ticklabelstandoff=6,
        tickvals=[*range(len(rows)), coin.y],
        ticktext=[*(_tick(row, texts) for row in rows), coin.label],
        tickfont={"family": MONOSPACE, "size": 12, "color": LIGHT["ink"]},
    )
    layout["showlegend"] = True
    layout["legend"] = legend_above()
    return layout


def _tick(row: DistributionRow, texts: Mapping[int, str]) -> str:
    if row.token_id is None:
        return "other"
    text = visible_text(texts.get(row.token_id, f"#{row.token_id}"))
    return f"<b>{text}</b>" if row.is_examined else text
