"""The draw that decided about a drafted token: a bar up to min(1, p/q), and a pin at u.

The functions turn a verdict into Plotly traces. The bars of p and q above this bar are in `bars`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specviz.figures.labels import DRAW_PLACES, compared, decimals, drawn, percent
from specviz.figures.rule_words import RuleWords, rule_words
from specviz.figures.theme import LIGHT, SMALL
from specviz.records import Drawing, ExtraKind, ExtraToken, Outcome, Round, Verdict


@dataclass(frozen=True, slots=True)
class Coin:
    """The acceptance bar of one drafted node: shaded up to acceptance_prob, with a pin at u.

    If no drafted node is shown, `verdict` is None and the bar is empty; `extra` is then the token
    that the target added. `is_drawn` says whether the run's temperature is above 0. At temperature
    0 and under a rule without draws, u has no effect on the outcome.
    """

    verdict: Verdict | None
    extra: ExtraToken | None
    drawing: Drawing
    rule: RuleWords
    is_drawn: bool
    y: float
    follows_rejection: bool

    @classmethod
    def of(cls, round_: Round, child: int | None, y: float, is_drawn: bool) -> Coin:
        verdict = None if child is None else round_.verdicts[child]
        extra = round_.extra if child is None else None
        follows = child is not None and round_.follows_rejection(child)
        return cls(
            verdict, extra, round_.tree.drawing, rule_words(round_.rule), is_drawn, y, follows
        )

    @property
    def is_point_mass(self) -> bool:
        return not self.drawing.is_drawn

    @property
    def is_tossed(self) -> bool:
        return self.is_drawn and self.rule.has_draws

    @property
    def comes_after_a_rejection(self) -> bool:
        """Return whether an earlier sibling was rejected.

        If one was rejected, the acceptance probability is computed from the residual, not from p.
        """
        is_examined = self.verdict is not None and self.verdict.outcome is not Outcome.UNREACHED
        return is_examined and self.follows_rejection

    @property
    def label(self) -> str:
        if self.verdict is None or not self.is_tossed:
            return ""
        if self.rule.is_joint:
            return "h"
        return "min(1, p/1)" if self.is_point_mass else "min(1, p/q)"

    @property
    def remark(self) -> str:
        """Return a sentence about what the bars of p and q do not show.

        It says that the acceptance rule used a residual instead of p, that the target drew the
        token, or that the walk ended before this node. It is "" if the bars show everything.
        """
        if self.verdict is None:
            return self._drawn
        if self.verdict.outcome is Outcome.UNREACHED and not self.rule.is_joint:
            return "never examined: the walk ended before it"
        if remark := self.rule.remark(self.verdict):
            return remark
        if not self.comes_after_a_rejection:
            return ""
        p, q = compared(self.verdict.compared_prob, self.verdict.draft_prob)
        words = f"p {p}" if self.is_point_mass else f"p {p} with q {q}"
        return f"after the rejected sibling the rule compared {words}"

    @property
    def _drawn(self) -> str:
        if self.extra is None or not self.is_drawn:
            return ""
        has_residual = self.extra.kind is ExtraKind.RECOVERED and self.rule.has_residual
        distribution = "the residual" if has_residual else "p"
        return f"drawn from {distribution} with probability {percent(self.extra.prob)}"

    @property
    def _words(self) -> tuple[str, str]:
        """Return two hover texts: of the acceptance bar, and of the pin at the uniform draw u.

        The second text is "" if the verdict has no draw.
        """
        assert self.verdict is not None
        accept, u = self.verdict.acceptance_prob, self.verdict.uniform_draw
        return (decimals(accept, DRAW_PLACES), "") if u is None else drawn(accept, u)

    def traces(self) -> list[dict[str, Any]]:
        shown = [self.verdict] if self.verdict and self.is_tossed else []
        tossed = [v for v in shown if v.outcome is not Outcome.UNREACHED]
        chances = [v.acceptance_prob for v in shown]
        return [
            self._bar("grid", [1.0 for _ in shown], 1.0),
            self._bar("accepted", chances, 0.4),
            self._pin([v.uniform_draw for v in tossed if v.uniform_draw is not None]),
            self._threshold(chances),
        ]

    def _bar(self, role: str, x: list[float], opacity: float) -> dict[str, Any]:
        return {
            "type": "bar",
            "orientation": "h",
            "x": x,
            "y": [self.y for _ in x],
            "width": [0.46 for _ in x],
            "hoverinfo": "skip",
            "marker": {"color": LIGHT[role], "opacity": opacity, "line": {"width": 0}},
            "showlegend": False,
            "meta": {"role": role},
        }

    def _threshold(self, chances: list[float]) -> dict[str, Any]:
        """Return the label of the acceptance probability, at which the shading ends.

        This label is below the bar, because the label of the draw u is above the bar.
        """
        x = chances[0] if chances else 0.0
        side = "right" if x < 0.2 else "left" if x > 0.8 else "center"
        return {
            "type": "scatter",
            "mode": "text",
            "x": chances,
            "y": [self.y + 0.56 for _ in chances],
            "text": [self._words[0] for _ in chances],
            "textposition": f"middle {side}",
            "textfont": {"size": SMALL, "color": LIGHT["muted"]},
            "cliponaxis": False,
            "hoverinfo": "skip",
            "showlegend": False,
            "meta": {"role": "muted", "part": "threshold"},
        }

    def _pin(self, draws: list[float]) -> dict[str, Any]:
        side = "middle left" if draws and draws[0] > 0.8 else "middle right"
        return {
            "type": "scatter",
            "mode": "lines+markers+text",
            "x": [u for u in draws for _ in range(2)],
            "y": [y for _ in draws for y in (self.y + 0.36, self.y - 0.52)],
            "text": [text for _ in draws for text in ("", f" u = {self._words[1]} ")],
            "textposition": side,
            "textfont": {"size": SMALL, "color": LIGHT["ink"]},
            "line": {"color": LIGHT["ink"], "width": 1.6},
            "marker": {"color": LIGHT["ink"], "size": [0, 8], "opacity": 1},
            "cliponaxis": False,
            "hoverinfo": "skip",
            "showlegend": False,
            "meta": {"role": "ink"},
        }
