"""A sentence that describes the first difference between two runs in plain English."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping

from specviz.records import FinishReason
from specviz.trace_diff.arrival import Arrival, Origin
from specviz.trace_diff.cause import (
    Distribution,
    OtherDistribution,
    OtherDraw,
    OtherPrompt,
    OtherProposal,
    TextEnded,
)
from specviz.trace_diff.first_difference import SAME_PROB, Difference

_ORIGINS = {
    Origin.FIRST: "drawn after the prompt",
    Origin.ACCEPTED: "an accepted guess",
    Origin.RECOVERED: "recovered after a rejection",
    Origin.BONUS: "a bonus token",
    Origin.PLAIN: "written by the target alone",
}
_ENDS = {
    FinishReason.END_OF_SEQUENCE: "at the end of its sequence",
    FinishReason.LENGTH: "at its token limit",
    FinishReason.STOPPED: "because it was stopped",
    None: "unfinished",
}


def sentence(
    difference: Difference | None,
    texts: Mapping[int, str],
    names: tuple[str, str] = ("a", "b"),
    shown: Callable[[str], str] = reprlib.repr,
) -> str:
    """Return a sentence that says what differs first, and why.

    The sentence counts tokens and rounds from 1.

    `texts` maps token ids to texts; a token without a text is shown by its id. `names` are the
    names of the two runs, and `shown` formats the text of a token.
    """
    if difference is None:
        return "Both texts are the same."
    return _Sentence(difference, texts, names, shown).whole


class _Sentence:
    """The difference between two runs as a sentence; each method returns a part of the sentence."""

    def __init__(
        self,
        difference: Difference,
        texts: Mapping[int, str],
        names: tuple[str, str],
        shown: Callable[[str], str],
    ) -> None:
        self.difference, self.texts, self.names, self.shown = difference, texts, names, shown

    @property
    def whole(self) -> str:
        difference = self.difference
        if isinstance(difference.cause, TextEnded):
            return self._ended(difference.cause)
        assert difference.a is not None and difference.b is not None
        one, other = (
            f"{self._origin(token)} in {name}"
            for token, name in zip((difference.a, difference.b), self.names, strict=True)
        )
        return (
            f"Token {difference.index + 1} is the first to differ: {one}, {other}. The reason: "
            f"{self._why()}."
        )

    def _ended(self, cause: TextEnded) -> str:
        index = self.difference.index
        ended, other = self.names if cause.which == "a" else reversed(self.names)
        longer = self.difference.b if cause.which == "a" else self.difference.a
        assert longer is not None
        if index == 0:
            return f"{ended} has no text yet, and {other} begins with {self._origin(longer)}."
        same = "token is" if index == 1 else f"{index} tokens are"
        ends = f"Then {ended} ends {_ENDS[cause.finish]}"
        return (
            f"The first {same} the same. {ends}, and {other} continues with {self._origin(longer)}."
        )

    def _origin(self, token: Arrival) -> str:
        place = "" if token.round_index is None else f", round {token.round_index + 1}"
        return f"{self._text(token.token_id)} ({_ORIGINS[token.origin]}{place})"

    def _text(self, token_id: int) -> str:
        """Return a token's text, formatted for the sentence, or its id if the text is unknown."""
        return self.shown(self.texts[token_id]) if token_id in self.texts else f"#{token_id}"

    def _why(self) -> str:
        match self.difference.cause:
            case OtherPrompt():
                return "the prompts differ"
            case OtherProposal(token_ids=(one, other)):
                drafted = [self._drafted(each) for each in (one, other)]
                return (
                    f"{self.names[0]} had drafted {drafted[0]} at this position, and "
                    f"{self.names[1]} {drafted[1]}"
                )
            case OtherDraw(token_id=None):
                return "the target drew the token with another random number"
            case OtherDraw(token_id=int() as token_id, draws=draws):
                return f"the draw on {self._text(token_id)} was {self._numbers(*draws)}"
            case OtherDistribution() as cause:
                return self._distribution(cause)
        raise AssertionError(self.difference.cause)

    def _drafted(self, token_id: int | None) -> str:
        return "nothing more" if token_id is None else self._text(token_id)

    def _distribution(self, cause: OtherDistribution) -> str:
        text, (one, other) = self._text(cause.token_id), cause.probs
        numbers, is_hair = self._numbers(one, other), abs(one - other) <= SAME_PROB
        match cause.distribution:
            case Distribution.TARGET if is_hair:
                return (
                    "the target's own draw was so close to the border between two tokens that "
                    "rounding decided"
                )
            case Distribution.ACCEPTANCE if is_hair:
                return (
                    f"the draw on {text} almost equals its acceptance probability, {_number(one)}, "
                    "so rounding decided"
                )
            case Distribution.ACCEPTANCE:
                return f"{text} passes with probability {numbers}"
            case Distribution.RESIDUAL:
                return f"after the rejections {text} has probability {numbers}"
            case Distribution.DRAFT if cause.same_setting:
                return (
                    f"the draft gives {text} probability {numbers}, although all settings are the "
                    "same. A forward over several tokens may round differently from forwards over "
                    "one token, and a quantised draft rounds visibly. Both texts are exact"
                )
        given = f"the {cause.distribution.value} gives {text} probability {numbers}"
        same = ", although the target and the sampling are the same" if cause.same_setting else ""
        return given + same

    def _numbers(self, one: float | None, other: float | None) -> str:
        return f"{_number(one)} in {self.names[0]}, {_number(other)} in {self.names[1]}"


def _number(value: float | None) -> str:
    """Return a number as text with 3 significant digits, or with more if these round to 0 or 1."""
    if value is None:
        return "unknown"
    if value in (0, 1) or 1e-3 <= value <= 0.999:
        return f"{value:.3g}"
    text = f"{value:.6g}"
    if "e" not in text:
        return text
    return f"{value:.{5 - math.floor(math.log10(value))}f}".rstrip("0")
