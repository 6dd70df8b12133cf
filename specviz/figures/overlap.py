"""The overlap of p and q as an area behind their bars, and the draw u as a line across one row.

The functions turn records into Plotly traces. A token x that was drawn from q is accepted if u *
q(x) < p(x). So a line at u * q(x) is inside the area of its row if the token is accepted, and
outside it otherwise. For a token that was chosen without a random draw, q is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specviz.figures.distribution_rows import DistributionRow
from specviz.figures.labels import drawn, percent
from specviz.figures.rule_words import rule_words
from specviz.figures.theme import LIGHT
from specviz.records import Outcome, Position, Round, Verdict

AREA_WIDTH = 1.0  # height of the area in rows; the areas of adjacent rows touch
AREA_OPACITY = 0.22
# The upper and the lower end of the line of the draw, in rows from the middle of the token's row.
# The line crosses the bar of q but not the numbers of p.
CUT_FROM, CUT_TO = 0.0, 0.45
# The two ends of the line if the token was chosen without a random draw. q is then 1, and the line
# crosses the whole row.
PICKED_FROM, PICKED_TO = -0.45, 0.45


@dataclass(frozen=True, slots=True)
class Overlap:
    """The overlap of p and q in each row, and the row whose token a draw accepted or rejected.

    `shares` has min(p, q) of each row; it is empty if the acceptance rule does not compare
    distributions. `total` is the sum of min(p, q) over all tokens. `judged` is the index of the row
    with the token that the draw accepted or rejected, and the verdict on that token. `is_picked`
    says that the drafted tokens were chosen without a random draw. In that case, the area shows the
    first sibling, and `is_of_the_first` says that the user has selected another sibling.
    """

    shares: tuple[float, ...]
    total: float
    judged: tuple[int, Verdict] | None
    is_picked: bool
    is_of_the_first: bool

    @classmethod
    def of(
        cls,
        position: Position | None,
        round_: Round,
        child: int | None,
        rows: Sequence[DistributionRow],
        is_drawn: bool,
    ) -> Overlap:
        is_picked = not round_.tree.drawing.is_drawn
        compares = rule_words(round_.rule).compares
        parent = None if position is None else position.parent
        drafted = [] if parent is None else round_.tree.children(parent)
        if position is None or not is_drawn or not compares or not drafted:
            return cls((), 0.0, None, is_picked, is_of_the_first=False)
        first = round_.tree.nodes[drafted[0]].token_id
        shares = [_share(row, first if is_picked else None) for row in rows]
        # The last row stands for all other tokens, of which the record has only the sum.
        if rows and rows[-1].token_id is None:
            shares[-1] = max(0.0, position.overlap - sum(shares[:-1]))
        judged, is_later = _judged(round_, child, rows), child not in (None, drafted[0])
        return cls(tuple(shares), position.overlap, judged, is_picked, is_picked and is_later)

    @property
    def area(self) -> dict[str, Any]:
        return {
            "type": "bar",
            "orientation": "h",
            "name": "in both",
            "x": list(self.shares),
            "y": list(range(len(self.shares))),
            "width": [AREA_WIDTH for _ in self.shares],
            "hoverinfo": "skip",
            "opacity": AREA_OPACITY,
            "marker": {"color": LIGHT["accepted"], "line": {"width": 0}},
            "showlegend": False,
            "meta": {"role": "accepted", "part": "overlap"},
        }

    @property
    def words(self) -> str:
        """Return the words that explain the area in the chart's heading; "" without an area."""
        if not self.shares:
            return ""
        guess = "first sibling" if self.is_of_the_first else "guess"
        area = f"how often the {guess} passes" if self.is_picked else "what both have in common"
        return f". Shaded: {area}, {percent(self.total)}"

    @property
    def cut(self) -> dict[str, Any]:
        """Return the line of the draw u across a row. Its x is u times `meta.scale`, which is q."""
        at = [] if self.judged is None else [self.judged[0]]
        lines = [self._drawn for _ in at]
        return {
            "type": "scatter",
            "mode": "lines",
            "x": [x for x in lines for _ in range(2)],
            "y": [y + side for y in at for side in self._reach],
            "line": {"color": LIGHT["ink"], "width": 2},
            "hoverinfo": "skip",
            "showlegend": False,
            "meta": {"role": "ink", "part": "cut", "scale": self._scale},
        }

    @property
    def remark(self) -> str:
        """Return a sentence that says whether the line of the draw is inside the row's area."""
        if self.judged is None:
            return ""
        verdict = self.judged[1]
        draw = drawn(verdict.acceptance_prob, verdict.uniform_draw or 0.0)[1]
        is_within = verdict.outcome is Outcome.ACCEPTED
        side, fate = ("Inside", "accepted") if is_within else ("Outside", "rejected")
        area = "bar of p" if self.is_picked else "overlap of p and q"
        line = "the draw u" if self.is_picked else "u × q"
        return f"Line: {line}, at u = {draw}. {side} the shaded {area}: {fate}"

    @property
    def _reach(self) -> tuple[float, float]:
        return (PICKED_FROM, PICKED_TO) if self.is_picked else (CUT_FROM, CUT_TO)

    @property
    def _scale(self) -> float:
        return 1.0 if self.judged is None else self.judged[1].draft_prob

    @property
    def _drawn(self) -> float:
        assert self.judged is not None
        return self._scale * (self.judged[1].uniform_draw or 0.0)


def _share(row: DistributionRow, picked: int | None) -> float:
    """Return min(p, q) of one row.

    `picked` is the token that was chosen without a random draw, if there is one. Its q is 1, and
    the q of all other tokens is 0.
    """
    if picked is not None:
        return row.target if row.token_id == picked else 0.0
    return min(row.target, row.draft or 0.0)


def _judged(
    round_: Round, child: int | None, rows: Sequence[DistributionRow]
) -> tuple[int, Verdict] | None:
    """Return the index of the row of `child` and its verdict.

    The result is None if the bars do not show the p and q that the acceptance rule compared. For
    example, after an earlier sibling was rejected, the rule compares the residual with q.
    """
    if child is None or round_.follows_rejection(child):
        return None
    verdict = round_.verdicts[child]
    is_seen = verdict.outcome is not Outcome.UNREACHED and verdict.uniform_draw is not None
    at = next((i for i, row in enumerate(rows) if row.is_examined), None)
    return (at, verdict) if is_seen and at is not None else None
