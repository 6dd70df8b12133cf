"""The first difference of two runs in one plain sentence.

Knows nothing of how it was found.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping

from specviz.diff_cause import (
    Law,
    OtherDraw,
    OtherLaw,
    OtherPrompt,
    OtherProposal,
    TextEnded,
)
from specviz.records import FinishReason
from specviz.trace_arrival import Arrival, Origin
from specviz.trace_diff import SAME_PROB, Difference

_ORIGINS = {
    Origin.FIRST: "drawn behind the prompt",
    Origin.ACCEPTED: "an accepted draft",
    Origin.RECOVERED: "recovered after a rejection",
    Origin.BONUS: "a bonus token",
}
_ENDS = {
    FinishReason.END_OF_SEQUENCE: "at the end of its sequence",
    FinishReason.LENGTH: "at its token limit",
    FinishReason.STOPPED: "because it was stopped",
    None: "unfinished",
}


def sentence(found: Difference | None, texts: Mapping[int, str]) -> str:
    """What differs first and why; tokens and rounds are counted from 1.

    `texts` are those of the tokens by id; a token without one is shown by its number.
    """
    if found is None:
        return "Both texts are the same."
    if isinstance(found.cause, TextEnded):
        return _ended(found, found.cause, texts)
    assert found.a is not None and found.b is not None
    what = f"{_token(found.a, texts, 'a')}, {_token(found.b, texts, 'b')}"
    return f"Token {found.index + 1} is the first to differ: {what}; {_why(found, texts)}."


def _ended(found: Difference, cause: TextEnded, texts: Mapping[int, str]) -> str:
    longer = found.b if cause.which == "a" else found.a
    other = "b" if cause.which == "a" else "a"
    assert longer is not None
    if found.index == 0:
        return f"{cause.which} has no text yet, {other} begins with {_origin(longer, texts)}."
    same = "token is" if found.index == 1 else f"{found.index} tokens are"
    ends = f"{cause.which} ends there {_ENDS[cause.finish]}"
    return f"The first {same} the same; {ends}, {other} goes on with {_origin(longer, texts)}."


def _token(token: Arrival, texts: Mapping[int, str], name: str) -> str:
    return f"{_origin(token, texts)} in {name}"


def _origin(token: Arrival, texts: Mapping[int, str]) -> str:
    place = "" if token.round_index is None else f", round {token.round_index + 1}"
    return f"{_text(token.token_id, texts)} ({_ORIGINS[token.origin]}{place})"


def _text(token_id: int, texts: Mapping[int, str]) -> str:
    """Quoted, and shortened where it is long: a trace from elsewhere may hold any text."""
    return reprlib.repr(texts[token_id]) if token_id in texts else f"#{token_id}"


def _why(found: Difference, texts: Mapping[int, str]) -> str:
    match found.cause:
        case OtherPrompt():
            return "the prompts differ"
        case OtherProposal(token_ids=(one, other)):
            drafted = [_drafted(each, texts) for each in (one, other)]
            return f"a had drafted {drafted[0]} there, b {drafted[1]}"
        case OtherDraw(token_id=None):
            return "the target drew it with another random number"
        case OtherDraw(token_id=int() as token_id, draws=(one, other)):
            return f"the draw on {_text(token_id, texts)} was {_numbers(one, other)}"
        case OtherLaw() as cause:
            return _law(cause, texts)
    raise AssertionError(found.cause)


def _drafted(token_id: int | None, texts: Mapping[int, str]) -> str:
    return "nothing more" if token_id is None else _text(token_id, texts)


def _law(cause: OtherLaw, texts: Mapping[int, str]) -> str:
    text, (one, other) = _text(cause.token_id, texts), cause.probs
    numbers, is_hair = _numbers(one, other), abs(one - other) <= SAME_PROB
    match cause.law:
        case Law.TARGET if is_hair:
            return "the target's own draw fell between two tokens, and rounding moved the border"
        case Law.ACCEPTANCE if is_hair:
            return f"the draw on {text} all but equals its acceptance probability, {_number(one)}"
        case Law.ACCEPTANCE:
            return f"{text} passes with probability {numbers}"
        case Law.RESIDUAL:
            return f"after the rejections {text} has probability {numbers}"
    told = f"the {cause.law.value} gives {text} probability {numbers}"
    return f"{told}, although target and sampling are the same" if cause.same_setting else told


def _numbers(one: float | None, other: float | None) -> str:
    return f"{_number(one)} in a, {_number(other)} in b"


def _number(value: float | None) -> str:
    """3 digits, more for what would look like 0 or 1."""
    if value is None:
        return "unknown"
    return f"{value:.3g}" if value in (0, 1) or 1e-3 <= value <= 0.999 else f"{value:.6g}"
