"""Token texts, names and numbers as labels of charts.

Plotly interprets tags, links and entities in every text of a chart. Texts of models must therefore
go through `visible_text`, and names from files through `plain_text`.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from html import escape, unescape

LABEL_LENGTH = 14
NAME_LENGTH = 40  # number of characters to which a sentence cuts a longer token text
# Number of significant digits of a probability in a label, and of one in a record.
USUAL_FIGURES, KEPT_FIGURES = 2, 6
# A probability below LEAST is written as "under" LEAST, and a probability above MOST as "over"
# MOST.
LEAST, MOST = 1e-6, 1 - 1e-4
ALMOST = 0.9995  # smallest probability that three decimals would round to 1.000
# The usual number of decimals of a draw, and the largest number. More are used only if two nearly
# equal numbers must look different.
DRAW_PLACES, MOST_PLACES = 3, 6
# With this number of decimals, two recorded draws look different even if they are very small and
# differ only in their sixth digit.
PLACES_APART = 16
NO_BREAK = "\u00a0"
_WHITESPACE = {" ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍"}


# Names of tokens that end a text. A label says what the token does, because some readers do not
# know texts such as <|im_end|>.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>")
_TEXT_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>")
ENDINGS = dict.fromkeys(_TURN_ENDS, "⟨end of the answer⟩") | dict.fromkeys(
    _TEXT_ENDS, "⟨end of the text⟩"
)
_SHORT_ENDING = "⟨end⟩"
# The name of a token that is only a space, because a single dot would be unclear.
_SPACE = "⟨space⟩"


def visible_text(text: str, length: int = LABEL_LENGTH) -> str:
    r"""Return a token's text with visible whitespace and `& < >` escaped, at most `length`
    characters.

    A token that ends a text gets a label that says so.

    >>> visible_text(" <b>\n")
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
    """Return a token's text for a sentence on the page.

    It is not escaped, because it is not in a chart.

    >>> token_name(" <b>")
    '·<b>'
    """
    return unescape(visible_text(text, NAME_LENGTH))


def plain_text(text: str) -> str:
    """Return a name with `& < >` escaped.

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
    """Return a probability in percent. Only exactly 0 and 1 are shown as 0 % and 100 %.

    The browser's function `percent` in `number_words.js` follows the same rule.

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
    """Return p and q in percent, with as many decimals as are needed to see which is larger.

    None is an unknown q. `compared` in the browser's `number_words.js` is the same rule.

    >>> [each.replace(NO_BREAK, " ") for each in compared(0.33334, 0.33327)]
    ['33.334 %', '33.327 %']
    >>> [each.replace(NO_BREAK, " ") for each in compared(0.01, 0.009985)]
    ['1.00 %', '0.999 %']
    >>> [each.replace(NO_BREAK, " ") for each in compared(0.25, None)], compared(6e-7, 2e-13)[0][:5]
    (['25.0 %', '—'], 'under')
    """
    if q is None:
        return percent(p), "—"
    counts = range(USUAL_FIGURES, KEPT_FIGURES)
    pairs = ((percent(p, n), percent(q, n)) for n in counts)
    distinct = (pair for pair in pairs if _differ(*pair) or p == q or max(p, q) < LEAST)
    return next(distinct, (percent(p, KEPT_FIGURES), percent(q, KEPT_FIGURES)))


def _differ(one: str, other: str) -> bool:
    """Return whether two percentages are different numbers; 1.0 % and 1.00 % are the same one."""
    try:
        a, b = (Decimal(each.removesuffix(f"{NO_BREAK}%")) for each in (one, other))
    except InvalidOperation:  # a text such as "under 0.0001 %" is no number
        return one != other
    return a != b


def in_proportion(part: float, whole: float, ratio: str) -> tuple[str, str]:
    """Return two shares in percent, with enough decimals that dividing them gives the shown
    `ratio`.

    `inProportion` in the browser's `number_words.js` is the same rule.

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
        a, b, shown = (Decimal(each.removesuffix(f"{NO_BREAK}%")) for each in (part, whole, ratio))
    except InvalidOperation:  # a text such as "under 0.0001 %" is no number
        return False
    return b > 0 and (a / b).quantize(shown, ROUND_HALF_UP) == shown


def drawn(threshold: float, draw: float) -> tuple[str, str]:
    """Return a threshold and the uniform draw that was compared with it, as text.

    Both have three decimals, or as many as are needed to see which is larger. `drawn` in the
    browser's `number_words.js` is the same rule.

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
    """Return a value with `places` decimals, or more if it would otherwise be rounded to 1.

    A small value has enough decimals for two significant figures, so that `percent` shows the same
    number. A value that would need too many decimals is returned as a bound, such as "under
    0.00001".

    >>> decimals(0.000061, 4), decimals(0.0051), decimals(0.104), decimals(0.9996)
    ('0.000061', '0.0051', '0.104', '0.9996')
    """
    if value in (0, 1):
        return f"{value:.0f}"
    first = max(places, 1 - math.floor(math.log10(value)))
    texts = (f"{value:.{n}f}" for n in range(first, max(places, MOST_PLACES) + 1))
    extreme = "under 0.00001" if value < 0.5 else "over 0.999999"
    return next((text for text in texts if 0 < float(text) < 1), extreme)


def _places(value: float, figures: int) -> int:
    """Return the number of decimals that a probability needs in a label.

    With these decimals, the label shows at least `figures` significant digits of the value v. It
    also shows at least `figures` - 1 significant digits of 1 - v.
    """
    if value <= 0 or value >= 1:
        return 0
    own, lack = (-math.floor(math.log10(each)) for each in (value, 1 - value))
    return max(own + figures - 1, lack + figures - 2)


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds: 0.412 ms, 4.12 ms, 41.2 ms, 412 ms.

    >>> milliseconds(0.0412)
    '41.2 ms'
    """
    value = seconds * 1000
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} ms"
