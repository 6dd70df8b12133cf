"""The reasons why two texts differ: one frozen type per reason, with the numbers that show it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from specviz.records import FinishReason


class Reason(Enum):
    """The names of all reasons for which two texts can differ."""

    PROMPT = "another prompt"
    ENDED = "one text ended"
    DISTRIBUTION = "another distribution"
    PROPOSAL = "another proposal"
    DRAW = "another draw"


class Distribution(Enum):
    """The kind of distribution whose probabilities differ between two runs."""

    TARGET = "target"
    DRAFT = "draft"
    ACCEPTANCE = "acceptance"  # the acceptance probability of a drafted token
    RESIDUAL = "residual"  # the residual after all drafted tokens at the position were rejected


@dataclass(frozen=True, slots=True)
class OtherPrompt:
    reason = Reason.PROMPT


@dataclass(frozen=True, slots=True)
class TextEnded:
    """One text ended before the other.

    `which` names the run with the shorter text, "a" or "b". `finish` is the reason why that text
    ended; it is None if the run was saved before its text ended.
    """

    which: str
    finish: FinishReason | None
    reason = Reason.ENDED


@dataclass(frozen=True, slots=True)
class OtherDistribution:
    """The token whose probability differs most, and its probabilities in run a and run b.

    `same_setting` is True if both runs have the same target with the same sampling settings. If the
    distribution is the draft's, both runs must also have the same draft model and the same
    settings. The probabilities can then differ only because of rounding or because of different
    weights. Rounding depends on the order of sums, the number format and the machine. For a
    quantised draft it also depends on the other tokens in the forward.
    """

    distribution: Distribution
    token_id: int
    probs: tuple[float, float]
    same_setting: bool
    reason = Reason.DISTRIBUTION


@dataclass(frozen=True, slots=True)
class OtherProposal:
    """The first drafted tokens that differ between the runs, at the first differing text position.

    A token is None if its run had drafted no further token at this position.
    """

    token_ids: tuple[int | None, int | None]
    reason = Reason.PROPOSAL


@dataclass(frozen=True, slots=True)
class OtherDraw:
    """The drafted token that one run accepted and the other rejected, and both uniform draws.

    If the targets themselves drew different tokens, the token and both draws are None, because a
    record does not contain the uniform numbers of such draws.
    """

    token_id: int | None
    draws: tuple[float | None, float | None]
    reason = Reason.DRAW


Cause = OtherPrompt | TextEnded | OtherDistribution | OtherProposal | OtherDraw
