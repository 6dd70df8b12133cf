"""What target and draft have in common after one prefix, as an area behind their bars, and the draw
as a line across the bars of the token that it judged.

Pure: records to Plotly traces. A guess drawn from q passes where u * q(x) < p(x): so a line at
u * q(x) lies within the area of its row, or beyond it. A guess that was picked counts as q = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specviz.figures.distribution_rows import DistributionRow
from specviz.figures.labels import drawn, percent
from specviz.figures.theme import LIGHT
from specviz.records import Outcome, Position, ProposalKind, Round, Verdict

AREA_WIDTH = 1.0  # of a row: the rows make one area
AREA_OPACITY = 0.22
CUT_FROM, CUT_TO = 0.0, 0.45  # of a row: over the bar of q, and not over the numbers of p
PICKED_FROM, PICKED_TO = -0.45, 0.45  # where p's bar stands alone in its row, or q takes no part


@dataclass(frozen=True, slots=True)
class Overlap:
    """`shares`: min(p, q) of each row, empty where the rule compares no distributions; `total` is
    of all tokens. `judged` is the row of the token that a draw decided, at its place among them.
    """

    shares: tuple[float, ...]
    total: float
    judged: tuple[int, Verdict] | None
    is_picked: bool
    is_of_the_first: bool  # of several siblings, and another one is looked at

    @classmethod
    def of(
        cls,
        position: Position | None,
        round_: Round,
        child: int | None,
        rows: Sequence[DistributionRow],
        is_drawn: bool,
    ) -> Overlap:
        kind = round_.tree.kind
        is_picked = kind is ProposalKind.DETERMINISTIC
        parent = None if position is None else position.parent
        drafted = [] if parent is None else round_.tree.children(parent)
        if position is None or not is_drawn or not kind.is_lossless or not drafted:
            return cls((), 0.0, None, is_picked, is_of_the_first=False)
        first = round_.tree.nodes[drafted[0]].token_id
        shares = [_share(row, first if is_picked else None) for row in rows]
        if rows and rows[-1].token_id is None:  # of the others the record keeps the sum
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
        """What the area is, behind the heading of the bars."""
        if not self.shares:
            return ""
        guess = "first sibling" if self.is_of_the_first else "guess"
        area = f"how often the {guess} passes" if self.is_picked else "what both have in common"
        return f". Shaded: {area}, {percent(self.total)}"

    @property
    def cut(self) -> dict[str, Any]:
        """`meta.scale` is what a draw is multiplied with to stand on the scale of the bars."""
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
        """Where the line lies."""
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
    """Of a picked guess everything that q has is at its own token."""
    if picked is not None:
        return row.target if row.token_id == picked else 0.0
    return min(row.target, row.draft or 0.0)


def _judged(
    round_: Round, child: int | None, rows: Sequence[DistributionRow]
) -> tuple[int, Verdict] | None:
    """None where the bars are not what was compared: after a sibling's rejection."""
    if child is None or round_.follows_rejection(child):
        return None
    verdict = round_.verdicts[child]
    is_seen = verdict.outcome is not Outcome.UNREACHED and verdict.uniform_draw is not None
    at = next((i for i, row in enumerate(rows) if row.is_examined), None)
    return (at, verdict) if is_seen and at is not None else None
