"""The bars of p and q after one prefix, their overlap, and the draw that decided about a token.

The functions turn records into a Plotly dict. Only the arrays in its Plotly traces change from
round to round. The number and the order of the Plotly traces are always the same.
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
from specviz.figures.rule_words import rule_words
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
from specviz.records import Position, Round

ROW_PIXELS = 30
BAR_WIDTH = 0.28  # thickness of a bar as a share of the height of a row
# While only the draft's bars are shown, the chart is high enough for this number of rows. It then
# does not grow when p appears.
ROOMY_ROWS = 6
# A remaining probability below this is shown as 0: it may be an error of rounding, because a file
# keeps six significant digits of each probability.
_LEAST_SUM = 1e-5


def bars_figure(
    position: Position | None,
    round_: Round,
    texts: Mapping[int, str],
    temperature: float,
    child: int | None = None,
) -> Figure:
    """Return the bars of p and q at `position`, with the draw for the node `child` below them.

    At temperature 0 the bars show the raw distributions, because the processed ones are 0 or 1.
    They also show the raw q if the rule treats every drafted token as certain. Without a position
    (the walk never examined this prefix) the bars show only `child` and its siblings.

    A chart cannot wrap text, so `layout.meta` holds the heading and the remark, which the page
    shows above and below the chart. `layout.meta.drafted` has the heading, the bars and the axis of
    another chart: the draft's bars alone, which the page shows before p is known.
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
    """Return the arrays for a chart of the draft's tokens alone, sorted by decreasing q.

    The page shows this chart before p is known, so no row may reveal where p is large.
    """
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
    span = [max(len(places), ROOMY_ROWS) - 0.3, -0.5]  # range of the y-axis, from bottom to top
    return {"bars": bars, "axis": {"tickvals": places, "ticktext": names, "range": span}}


def _rest_words(rest: float) -> str:
    if rest < _LEAST_SUM:
        return f"0{NO_BREAK}%"
    return percent(rest)


def _draft_words(round_: Round, temperature: float) -> str:
    if not round_.tree.nodes:
        return "Nothing was drafted"
    if not has_own_distribution(round_):
        return "This draft gives its guesses no probabilities"
    if temperature == 0:
        return "q is raw, at temperature 1"
    if not round_.tree.drawing.is_drawn:
        return "q is the draft’s own confidence, at temperature 1"
    return f"q is what the draft drew from, at temperature {temperature:g}"


def _title(round_: Round, temperature: float, coin: Coin) -> str:
    if temperature == 0:
        return "Raw p and q, at temperature 1: at temperature 0 those of the rule are 0 or 1"
    if not round_.tree.nodes:
        return f"Nothing was drafted: the target draws alone, from p at temperature {temperature:g}"
    if title := rule_words(round_.rule).title:
        return title
    when = "before the first sibling was tried" if coin.comes_after_a_rejection else ""
    if not round_.tree.drawing.is_drawn:
        return _point_mass_title(round_, temperature, when)
    return f"p and q {when or 'as the rule compares them'}, at temperature {temperature:g}"


def _point_mass_title(round_: Round, temperature: float, when: str) -> str:
    """Return the heading for a rule that uses q = 1 for every drafted token.

    The bar of q then has no effect on the outcome. If the bars show p of an earlier moment than the
    rule used, `when` names this moment; otherwise it is "".
    """
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
    bottom = coin.y + 1.2  # space below the acceptance bar for the label of its probability
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
