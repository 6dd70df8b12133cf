"""A label shows the model's text unchanged and never as markup."""

from __future__ import annotations

from decimal import Decimal
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specviz.figures.labels import (
    LEAST,
    MOST,
    NO_BREAK,
    compared,
    drawn,
    in_proportion,
    milliseconds,
    percent,
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
def test_text_is_shown_unchanged(text: str, shown: str) -> None:
    assert visible_text(text) == shown


@example(" ", 2)
@given(st.text(max_size=60), st.integers(2, 20))
def test_text_never_becomes_a_tag_or_too_long(text: str, length: int) -> None:
    shown = visible_text(text, length)
    assert "<" not in shown and ">" not in shown
    assert 1 <= len(unescape(shown)) <= max(length, len("⟨end⟩")) or "&" in text


@given(st.text(max_size=60))
def test_every_character_of_a_label_is_visible(text: str) -> None:
    assert visible_text(text).isprintable()


def test_shortening_never_cuts_an_html_entity() -> None:
    assert visible_text("<" * 20, 4) == "&lt;&lt;&lt;…"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0.0, "0 %"), (1.0, "100 %"), (0.34, "34.0 %"), (0.0049, "0.49 %"), (0.0096, "0.96 %")),
        *((2.5e-6, "0.00025 %"), (5e-8, "under 0.0001 %"), (0.9951, "99.5 %")),
        (0.999999, "over 99.99 %"),
    ],
)
def test_a_positive_number_is_never_shown_as_zero(value: float, shown: str) -> None:
    assert percent(value) == shown.replace(" %", f"{NO_BREAK}%")


@given(st.floats(LEAST, 1).filter(lambda q: q <= MOST), st.floats(0.001, 1))
def test_dividing_the_shown_p_by_the_shown_q_gives_the_shown_probability(
    q: float, chance: float
) -> None:
    p, q = (float(f"{each:.6g}") for each in (q * chance, q))
    ratio = drawn(min(1.0, p / q), 0.5)[0]
    texts = in_proportion(p, q, ratio)
    shown = [Decimal(each.removesuffix(f"{NO_BREAK}%")) for each in texts if "under" not in each]
    if len(shown) == 2 and ratio != "1":
        half = Decimal(10) ** -len(ratio.partition(".")[2]) / 2
        assert abs(shown[0] / shown[1] - Decimal(ratio)) <= half, (texts, ratio)


@given(st.floats(0, 1), st.floats(-1e-4, 1e-4))
@example(0.01, -1.5e-5)
def test_p_and_q_have_enough_digits_to_show_which_is_larger(p: float, more: float) -> None:
    q = min(1.0, max(0.0, round(p + more, 6)))
    p = round(p, 6)  # a record keeps six digits
    words = {"under ": "0", "over ": "", "99.99\xa0%": "99.9999\xa0%", "\xa0%": ""}
    written = []
    for text in compared(p, q):
        for word, digits in words.items():
            text = text.replace(word, digits)
        written.append(float(text))
    assert (written[0] - written[1]) * (p - q) > 0 or p == q


def test_durations_have_three_significant_digits() -> None:
    assert [milliseconds(s) for s in (0.000412, 0.00412, 0.0412, 0.412)] == [
        *("0.41 ms", "4.12 ms", "41.2 ms", "412 ms"),
    ]
