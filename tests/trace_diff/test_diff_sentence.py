"""The sentence about the first difference of two runs is plain, short and one line."""

import pytest

from specviz.records import FinishReason
from specviz.trace_diff import difference
from specviz.trace_diff.sentence import sentence
from tests.random_traces import changed, random_trace
from tests.trace_diff.two_runs import (
    FORCED,
    NODE,
    ROUND,
    TRACE,
    a_hair_less,
    changed_place,
    halved,
    with_verdict,
)

TEXTS = {i: f" t{i}" for i in range(100)}


def short_by(finish, rounds=3):
    return changed(TRACE, rounds=TRACE.rounds[:rounds], finish=finish)


BOTH = (
    "Token 5 is the first to differ: ' t27' (recovered after a rejection, round 2) in a, "
    "' t36' (an accepted guess, round 2) in b. The reason: "
)
EXTRAS = (
    "Token 5 is the first to differ: ' t27' (recovered after a rejection, round 2) in a, "
    "' t2' (recovered after a rejection, round 2) in b. The reason: "
)
DRAFTED = TRACE.rounds[ROUND].verdicts[NODE]
AGAIN = ", although the target and the sampling are the same"
GOLDEN = {
    "draw": (FORCED, BOTH + "the draw on ' t36' was 0.863 in a, 0 in b."),
    "proposal": (
        with_verdict(FORCED, token_id=5),
        BOTH.replace("t36", "t5") + "a had drafted ' t36' at this position, and b ' t5'.",
    ),
    "draft distribution": (
        with_verdict(FORCED, draft_prob=DRAFTED.draft_prob / 2),
        BOTH + "the draft gives ' t36' probability 0.0702 in a, 0.0351 in b, although all settings "
        "are the same. A forward over several tokens may round differently from forwards over one "
        "token, and a quantised draft rounds visibly. Both texts are exact.",
    ),
    "rule": (
        with_verdict(FORCED, acceptance_prob=1.0),
        BOTH + "' t36' passes with probability 0.725 in a, 1 in b.",
    ),
    "near tie": (
        with_verdict(FORCED, uniform_draw=DRAFTED.uniform_draw),
        BOTH + "the draw on ' t36' almost equals its acceptance probability, 0.725, so rounding "
        "decided.",
    ),
    "target distribution": (
        changed_place(TRACE, halved("target_probs")),
        EXTRAS + f"the target gives ' t27' probability 0.149 in a, 0.0747 in b{AGAIN}.",
    ),
    "draft distribution behind rejections": (
        changed_place(TRACE, halved("draft_probs")),
        EXTRAS + "the draft gives ' t27' probability 0.0892 in a, 0.0446 in b.",
    ),
    "residual": (
        changed_place(TRACE, halved("residual_probs")),
        EXTRAS + "after the rejections ' t27' has probability 0.163 in a, 0.0815 in b.",
    ),
    "border": (
        changed_place(TRACE, a_hair_less),
        EXTRAS + "the target's own draw was so close to the border between two tokens that "
        "rounding decided.",
    ),
    "own draw": (
        changed_place(TRACE, lambda position: position),
        EXTRAS + "the target drew the token with another random number.",
    ),
    "stopped": (
        short_by(FinishReason.STOPPED),
        "The first 8 tokens are the same. Then b ends because it was stopped, and "
        "a continues with ' t3' (an accepted guess, round 4).",
    ),
    "end of sequence": (
        short_by(FinishReason.END_OF_SEQUENCE, rounds=0),
        "The first token is the same. Then b ends at the end of its sequence, and "
        "a continues with ' t30' (an accepted guess, round 1).",
    ),
    "unfinished": (
        changed(TRACE, prefill=None, rounds=(), finish=None),
        "b has no text yet, and a begins with ' t6' (drawn after the prompt).",
    ),
    "prompt": (
        random_trace(4, rounds=3),
        "Token 1 is the first to differ: ' t6' (drawn after the prompt) in a, "
        "' t30' (drawn after the prompt) in b. The reason: the prompts differ.",
    ),
}


@pytest.mark.parametrize("b, expected", GOLDEN.values(), ids=GOLDEN)
def test_the_sentence_is_plain(b, expected):
    assert sentence(difference(TRACE, b), TEXTS) == expected


def test_equal_texts_are_called_equal():
    assert sentence(difference(TRACE, TRACE), TEXTS) == "Both texts are the same."


def test_an_unknown_draw_is_called_unknown():
    unseen = with_verdict(FORCED, uniform_draw=None, residual_prob=None)
    assert "unknown in b" in sentence(difference(TRACE, unseen), TEXTS)


def test_a_token_without_a_text_is_named_by_its_number():
    assert "#36 (an accepted guess, round 2) in b" in sentence(difference(TRACE, FORCED), {})


def test_texts_of_any_length_and_content_give_one_short_line():
    texts = dict.fromkeys(range(100), "\x1b[2J\n" + "x" * 1_000_000)
    expected = sentence(difference(TRACE, FORCED), texts)
    assert len(expected) < 300 and expected.isprintable()
