"""Model text is shown as it is and never read as markup."""

from __future__ import annotations

from decimal import Decimal
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.figures.labels import (
    LEAST,
    NO_BREAK,
    compared,
    milliseconds,
    percent,
    probability,
    visible_text,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "·the"),
        ("\n", "⏎"),
        ("\t\t", "⇥⇥"),
        ("\r\n", "␍⏎"),
        ("    ", "····"),
        ("", "∅"),
        ("\x00\x1b", "␀␛"),
        ("\u202e", "\\u202e"),
        ("<img src=x>", "&lt;img·src=x&gt;"),
        ("&lt;", "&amp;lt;"),
        ("${pwned()}", "${pwned()}"),
        ("internationalisation", "international…"),
    ],
)
def test_text_is_shown_as_it_is(text: str, shown: str) -> None:
    assert visible_text(text) == shown


@given(st.text(max_size=60), st.integers(2, 20))
def test_no_text_makes_a_tag_or_grows_too_long(text: str, length: int) -> None:
    shown = visible_text(text, length)
    assert "<" not in shown and ">" not in shown
    assert 1 <= len(unescape(shown)) <= length or "&" in text


@given(st.text(max_size=60))
def test_every_character_of_a_label_can_be_seen(text: str) -> None:
    assert visible_text(text).isprintable()


def test_shortening_never_cuts_an_entity() -> None:
    assert visible_text("<" * 20, 4) == "&lt;&lt;&lt;…"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0.0, "0"), (1.0, "1"), (0.34, "0.340"), (0.0049, "0.0049"), (0.0096, "0.0096")),
        *((2.5e-7, "2.5e-7"), (5e-8, "5e-8"), (0.9951, "0.995"), (0.999999, ">0.9999")),
    ],
)
def test_something_never_reads_as_nothing(value: float, shown: str) -> None:
    assert probability(value) == shown


@given(st.floats(0, 1).filter(lambda p: p in (0, 1) or LEAST <= p <= 1 - LEAST))
def test_a_sentence_and_a_chart_write_a_probability_equally_exactly(p: float) -> None:
    assert Decimal(percent(p).removesuffix(f"{NO_BREAK}%")) == 100 * Decimal(probability(p))


@given(st.floats(0, 1), st.floats(-1e-4, 1e-4))
def test_p_and_q_beside_each_other_show_which_is_larger(p: float, more: float) -> None:
    q = min(1.0, max(0.0, round(p + more, 6)))
    p = round(p, 6)  # as far as a record keeps it
    written = [float(each.replace(">0.9999", "0.99995")) for each in compared(p, q)]
    assert (written[0] - written[1]) * (p - q) > 0 or p == q


def test_durations_have_three_figures() -> None:
    assert [milliseconds(s) for s in (0.000412, 0.00412, 0.0412, 0.412)] == [
        *("0.41 ms", "4.12 ms", "41.2 ms", "412 ms"),
    ]
