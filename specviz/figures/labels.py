"""Token texts, names and numbers as chart labels.

Plotly reads tags and entities in every text of a chart, links among them. So the texts of models go
through `visible_text`, and names that a file may bring through `plain_text`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from html import escape, unescape

LABEL_LENGTH = 14
NAME_LENGTH = 40  # of a token in a sentence
USUAL_FIGURES, KEPT_FIGURES = 2, 6  # of a probability in a sentence, and of a recorded one
LEAST = 1e-4  # nearer to 0 or 1 a sentence gives no figures
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
    >>> visible_text(" "), visible_text("  ")
    ('⟨space⟩', '··')
    """
    if text == " ":
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


def probability(value: float) -> str:
    """Three decimals, two figures of what is below a hundredth, and nothing but 1 reads as 1.

    `percent` writes as many, and `probability` of the browser's `number_words.js` is the same rule:
    a chart, a table and a sentence about one number show one number.

    >>> [probability(p) for p in (0.5, 0.003, 0.00031, 5e-8, 0.9962, 0.9996, 0.99999, 0.0, 1.0)]
    ['0.500', '0.0030', '3.1e-4', '5e-8', '0.996', '0.9996', '>0.9999', '0', '1']
    """
    if value in (0, 1):
        return f"{value:.0f}"
    if value < 0.001:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    if value < 0.01:
        return f"{value:#.2g}"
    if value < ALMOST:
        return f"{value:.3f}"
    return f"{value:.4f}" if value < 0.99995 else ">0.9999"


def percent(value: float, figures: int = USUAL_FIGURES) -> str:
    """For sentences: as exact as `probability`, and nothing but 0 and 1 reads as nothing or as all.

    >>> [percent(p).replace(NO_BREAK, " ") for p in (0.27, 0.0284, 0.003, 0.9991, 0.9996, 0.0, 1.0)]
    ['27.0 %', '2.8 %', '0.30 %', '99.9 %', '99.96 %', '0 %', '100 %']
    >>> [percent(p).replace(NO_BREAK, " ") for p in (3e-8, 0.999999)]
    ['under 0.01 %', 'over 99.99 %']
    """
    if figures == USUAL_FIGURES and 0 < value < LEAST:
        return f"under 0.01{NO_BREAK}%"
    if figures == USUAL_FIGURES and 1 - LEAST < value < 1:
        return f"over 99.99{NO_BREAK}%"
    places = _places(value, figures)
    if figures == USUAL_FIGURES and 0.01 <= value < 1:
        places = 3 if value < ALMOST else 4
    return f"{100 * Decimal(value):.{max(0, places - 2)}f}{NO_BREAK}%"


def fraction(value: float, figures: int = USUAL_FIGURES) -> str:
    """As `percent`, for what is compared with a draw.

    >>> [fraction(p) for p in (0.5, 0.104, 0.00031, 0.9962, 0.0, 1.0)]
    ['0.50', '0.10', '0.00031', '0.996', '0', '1']
    >>> [fraction(p) for p in (3e-8, 0.999999)]
    ['under 0.0001', 'over 0.9999']
    """
    if figures == USUAL_FIGURES and 0 < value < LEAST:
        return "under 0.0001"
    if figures == USUAL_FIGURES and 1 - LEAST < value < 1:
        return "over 0.9999"
    return f"{value:.{_places(value, figures)}f}"


def apart(a: float, b: float, write: Callable[[float, int], str] = fraction) -> tuple[str, str]:
    """Two numbers with as many figures as it takes to see that they differ; below `LEAST` none.

    >>> apart(0.10418, 0.10423), apart(6e-5, 2e-13)
    (('0.10418', '0.10423'), ('under 0.0001', 'under 0.0001'))
    """
    for figures in range(USUAL_FIGURES, KEPT_FIGURES):
        one, other = write(a, figures), write(b, figures)
        if one != other or a == b or max(a, b) < LEAST:
            return one, other
    return write(a, KEPT_FIGURES), write(b, KEPT_FIGURES)


def compared(p: float, q: float | None) -> tuple[str, str]:
    """p and q beside each other, with as many decimals as it takes to see which is larger.

    `compared` of the browser's `number_words.js` is the same rule; None is a q that nobody knows.

    >>> compared(0.3333, 0.3274), compared(0.33334, 0.33327), compared(0.25, None)
    (('0.333', '0.327'), ('0.33334', '0.33327'), ('0.250', '—'))
    """
    if q is None:
        return probability(p), "—"
    texts = probability(p), probability(q)
    return drawn(p, q) if p != q and texts[0] == texts[1] else texts


def in_proportion(part: float, whole: float, ratio: str) -> tuple[str, str]:
    """Two shares in percent, told apart, beside their `ratio` as it is shown.

    A figure more where a reader who divides them would get another ratio, by more than one in its
    last digit.

    >>> [each.replace(NO_BREAK, " ") for each in in_proportion(0.1037, 0.1071, "0.968")]
    ['10.4 %', '10.7 %']
    >>> [each.replace(NO_BREAK, " ") for each in in_proportion(0.25, 0.5, "0.500")]
    ['25.0 %', '50.0 %']
    """
    usual = apart(part, whole, percent)
    try:
        shown, of, told = (float(each.removesuffix(f"{NO_BREAK}%")) for each in (*usual, ratio))
    except ValueError:  # one of them says only what it is under or over
        return usual
    last_digit = 10.0 ** -len(ratio.partition(".")[2])
    if not of or abs(shown / of - told) <= 1.01 * last_digit:
        return usual
    return apart(part, whole, lambda value, figures: percent(value, figures + 1))


def drawn(threshold: float, draw: float) -> tuple[str, str]:
    """A threshold and the uniform draw that met it, wherever either is shown.

    Three decimals, or as many as show which of the two is larger. `drawn` of the browser's
    `number_words.js` is the same rule.

    >>> drawn(0.1042, 0.9951), drawn(0.10423, 0.10418), drawn(1.0, 0.99996), drawn(0.00002, 0.5)
    (('0.104', '0.995'), ('0.10423', '0.10418'), ('1', '0.99996'), ('0.000020', '0.500'))
    >>> drawn(0.000089255, 0.0000892549)
    ('0.0000892550', '0.0000892549')
    >>> drawn(2.96e-8, 0.5), drawn(0.99999997, 0.5)
    (('3e-8', '0.500'), ('>0.9999', '0.500'))
    """
    counts = range(DRAW_PLACES, PLACES_APART)
    differ = (n for n in counts if round(threshold, n) != round(draw, n))
    places = DRAW_PLACES if threshold == draw else next(differ, PLACES_APART)
    return decimals(threshold, places), decimals(draw, places)


def decimals(value: float, places: int = DRAW_PLACES) -> str:
    """As many decimals; where those would read as 0, two figures, where as 1, more.

    As `probability` writes it where that is too long.
    """
    if value in (0, 1):
        return f"{value:.0f}"
    first = 1 - math.floor(math.log10(value)) if value < 0.5 * 10**-places else places
    texts = (f"{value:.{n}f}" for n in range(first, max(places, MOST_PLACES) + 1))
    return next((text for text in texts if 0 < float(text) < 1), probability(value))


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
