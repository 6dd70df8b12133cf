"""Why two texts part: one frozen type per kind of reason, with the numbers that show it.

Pure values; knows nothing of how they are found or told.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from specviz.records import FinishReason


class Reason(Enum):
    """Why two texts part."""

    PROMPT = "another prompt"
    ENDED = "one text ended"
    DISTRIBUTION = "another distribution"
    PROPOSAL = "another proposal"
    DRAW = "another draw"


class Distribution(Enum):
    """Whose probabilities differ."""

    TARGET = "target"
    DRAFT = "draft"
    ACCEPTANCE = "acceptance"  # of a drafted token, by the rule
    RESIDUAL = "residual"  # what is left after all drafted tokens failed


@dataclass(frozen=True, slots=True)
class OtherPrompt:
    reason = Reason.PROMPT


@dataclass(frozen=True, slots=True)
class TextEnded:
    """The shorter text, "a" or "b", and why it ended (None: it had not ended when it was saved)."""

    which: str
    finish: FinishReason | None
    reason = Reason.ENDED


@dataclass(frozen=True, slots=True)
class OtherDistribution:
    """The token whose probability differs most, and its probabilities in a and b.

    `same_setting`: the same target under the same sampling; where it is the draft's, the same draft
    and setting as well. Then rounding made the difference (another order of sums, another number
    format or machine, for a quantised draft also what is read together), or the weights are not
    the same.
    """

    distribution: Distribution
    token_id: int
    probs: tuple[float, float]
    same_setting: bool
    reason = Reason.DISTRIBUTION


@dataclass(frozen=True, slots=True)
class OtherProposal:
    """The first drafted tokens in that place that differ, None where a run had drafted no more."""

    token_ids: tuple[int | None, int | None]
    reason = Reason.PROPOSAL


@dataclass(frozen=True, slots=True)
class OtherDraw:
    """The drafted token that passed in one run and failed in the other, and its uniform draws.

    None for the target's own draw of the token, of which no record holds the number.
    """

    token_id: int | None
    draws: tuple[float | None, float | None]
    reason = Reason.DRAW


Cause = OtherPrompt | TextEnded | OtherDistribution | OtherProposal | OtherDraw
