"""Token texts, names and numbers as chart labels.

Plotly reads tags and entities in every text of a chart, links among them. So the texts of models go
through `visible_text`, and names that a file may bring through `plain_text`.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from html import escape, unescape

LABEL_LENGTH = 14
NAME_LENGTH = 40  # of a token in a sentence
USUAL_FIGURES, KEPT_FIGURES = 2, 6  # of a probability, and of a recorded one
LEAST, MOST = 1e-6, 1 - 1e-4  # nearer to 0 or 1 no figures are given
ALMOST = 0.9995  # from here on three decimals read as 1
DRAW_PLACES, MOST_PLACES = 3, 6  # decimals of a draw, where no more are needed to tell two apart
PLACES_APART = 16  # of two draws that differ only in the sixth figure, however small
NO_BREAK = "\u00a0"
_WHITESPACE = {" ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍"}


# Tokens that end a text, by what they do: nobody reads a name such as <|im_end|> as that.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>")
_TEXT_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>")
ENDINGS = dict.fromkeys(_TURN_ENDS, "⟨end of the answer⟩") | dict.fromkeys(
    _TEXT_ENDS, "⟨end of the text⟩"
)
_SHORT_ENDING = "⟨end⟩"
_SPACE = "⟨space⟩"  # a token of its own: a dot alone would say nothing


def visible_text(text: str, length: int = LABEL_LENGTH) -> str:
    """Token text with whitespace shown, at most `length` characters, `& < >` escaped.

    A token that ends a text is called so.

    >>> visible_text(" <b>\\n")
    '·&lt;b&gt;⏎'
    >>> visible_text("internationalisation", 8)
    'interna…'
    >>> visible_text("<|im_end|>"), visible_text("<|im_end|>", 40)
    ('⟨end⟩', '⟨end of the answer⟩')
    >>> visible_text(" "), visible_text(" ", 4), visible_text("  ")
    ('⟨space⟩', '·', '··')
    """
    if text == " " and len(_SPACE) <= length:
        return _SPACE
    if text in ENDINGS:
        return ENDINGS[text] if len(ENDINGS[text]) <= length else _SHORT_ENDING
    shown = "".join(_visible(character) for character in text[: 4 * length]) or "∅"
    return escape(shown if len(shown) <= length else shown[: length - 1] + "…", quote=False)


def token_name(text: str) -> str:
    """Token text as a sentence of the page names it: that is no chart, so nothing is escaped.

    >>> token_name(" <b>")
    '·<b>'
    """
    return unescape(visible_text(text, NAME_LENGTH))


def plain_text(text: str) -> str:
    """A name as it is, `& < >` escaped.

    >>> plain_text("<a href='//x'>draft</a>")
    "&lt;a href='//x'&gt;draft&lt;/a&gt;"
    """
    return escape(text, quote=False)


def _visible(character: str) -> str:
    if character in _WHITESPACE:
        return _WHITESPACE[character]
    if character.isprintable():
        return character
    code = ord(character)
    return chr(0x2400 + code) if code < 32 else f"\\u{code:04x}"


def percent(value: float, figures: int = USUAL_FIGURES) -> str:
    """A probability, in tables, charts and sentences: only 0 and 1 read as nothing or as all.

    `percent` of the browser's `number_words.js` is the same rule.

    >>> [percent(p).replace(NO_BREAK, " ") for p in (0.27, 0.0284, 0.003, 0.9991, 0.9996, 0.0, 1.0)]
    ['27.0 %', '2.8 %', '0.30 %', '99.9 %', '99.96 %', '0 %', '100 %']
    >>> [percent(p).replace(NO_BREAK, " ") for p in (0.000032, 3e-8, 0.999999)]
    ['0.0032 %', 'under 0.0001 %', 'over 99.99 %']
    """
    if figures == USUAL_FIGURES and 0 < value < LEAST:
        return f"under 0.0001{NO_BREAK}%"
    if figures == USUAL_FIGURES and MOST < value < 1:
        return f"over 99.99{NO_BREAK}%"
    places = _places(value, figures)
    if figures == USUAL_FIGURES and 0.01 <= value < 1:
        places = 3 if value < ALMOST else 4
    return f"{100 * Decimal(value):.{max(0, places - 2)}f}{NO_BREAK}%"


def compared(p: float, q: float | None) -> tuple[str, str]:
    """p and q beside each other, with as many figures as it takes to see which is larger.

    `compared` of the browser's `number_words.js` is the same rule; None is a q that nobody knows.

    >>> [each.replace(NO_BREAK, " ") for each in compared(0.33334, 0.33327)]
    ['33.334 %', '33.327 %']
    >>> [each.replace(NO_BREAK, " ") for each in compared(0.25, None)], compared(6e-7, 2e-13)[0][:5]
    (['25.0 %', '—'], 'under')
    """
    if q is None:
        return percent(p), "—"
    counts = range(USUAL_FIGURES, KEPT_FIGURES)
    pairs = ((percent(p, n), percent(q, n)) for n in counts)
    told = (pair for pair in pairs if pair[0] != pair[1] or p == q or max(p, q) < LEAST)
    return next(told, (percent(p, KEPT_FIGURES), percent(q, KEPT_FIGURES)))


def in_proportion(part: float, whole: float, ratio: str) -> tuple[str, str]:
    """Two shares in percent, told apart, beside their `ratio` as it is shown.

    As many figures as it takes that a reader who divides them finds it. `inProportion` of the
    browser's `number_words.js` is the same rule.

    >>> [each.replace(NO_BREAK, " ") for each in in_proportion(0.1037, 0.1071, "0.968")]
    ['10.37 %', '10.71 %']
    >>> [each.replace(NO_BREAK, " ") for each in in_proportion(0.25, 0.5, "0.500")]
    ['25.0 %', '50.0 %']
    """
    counts = range(USUAL_FIGURES, KEPT_FIGURES + 1)
    pairs = ((percent(part, n), percent(whole, n)) for n in counts)
    exact = (pair for pair in pairs if _is_quotient(*pair, ratio))
    usual = compared(part, whole)
    return usual if ratio == "1" or max(part, whole) < LEAST else next(exact, usual)


def _is_quotient(part: str, whole: str, ratio: str) -> bool:
    try:
        a, b, told = (Decimal(each.removesuffix(f"{NO_BREAK}%")) for each in (part, whole, ratio))
    except InvalidOperation:  # one of them says only what it is under or over
        return False
    return b > 0 and (a / b).quantize(told, ROUND_HALF_UP) == told


def drawn(threshold: float, draw: float) -> tuple[str, str]:
    """A threshold and the uniform draw that met it, wherever either is shown.

    Three decimals, or as many as show which of the two is larger. `drawn` of the browser's
    `number_words.js` is the same rule.

    >>> drawn(0.1042, 0.9951), drawn(0.10423, 0.10418), drawn(1.0, 0.99996), drawn(0.00002, 0.5)
    (('0.104', '0.995'), ('0.10423', '0.10418'), ('1', '0.99996'), ('0.000020', '0.500'))
    >>> drawn(0.000089255, 0.0000892549)
    ('0.0000892550', '0.0000892549')
    >>> drawn(2.96e-8, 0.5), drawn(0.99999997, 0.5)
    (('under 0.00001', '0.500'), ('over 0.999999', '0.500'))
    """
    counts = range(DRAW_PLACES, PLACES_APART)
    differ = (n for n in counts if round(threshold, n) != round(draw, n))
    places = DRAW_PLACES if threshold == draw else next(differ, PLACES_APART)
    return decimals(threshold, places), decimals(draw, places)


def decimals(value: float, places: int = DRAW_PLACES) -> str:
    """As many decimals; where those would read as 0, two figures, where as 1, more.

    In words where that is too long.
    """
    if value in (0, 1):
        return f"{value:.0f}"
    first = 1 - math.floor(math.log10(value)) if value < 0.5 * 10**-places else places
    texts = (f"{value:.{n}f}" for n in range(first, max(places, MOST_PLACES) + 1))
    extreme = "under 0.00001" if value < 0.5 else "over 0.999999"
    return next((text for text in texts if 0 < float(text) < 1), extreme)


def _places(value: float, figures: int) -> int:
    """Decimal places that show `figures` of the value, and of what it lacks to 1 one less."""
    if value <= 0 or value >= 1:
        return 0
    own, lack = (-math.floor(math.log10(each)) for each in (value, 1 - value))
    return max(own + figures - 1, lack + figures - 2)


def milliseconds(seconds: float) -> str:
    """Three figures: 0.412 ms, 4.12 ms, 41.2 ms, 412 ms.

    >>> milliseconds(0.0412)
    '41.2 ms'
    """
    value = seconds * 1000
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} ms"
