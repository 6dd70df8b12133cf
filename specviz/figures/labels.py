"""Token texts, names and numbers as chart labels.

Plotly reads tags and entities in every text of a chart, links among them. So the texts of models go
through `visible_text`, and names that a file may bring through `plain_text`.
"""

from __future__ import annotations

from html import escape

LABEL_LENGTH = 14
_WHITESPACE = {" ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍"}


def visible_text(text: str, length: int = LABEL_LENGTH) -> str:
    """Token text with whitespace shown, at most `length` characters, `& < >` escaped.

    >>> visible_text(" <b>\\n")
    '·&lt;b&gt;⏎'
    >>> visible_text("internationalisation", 8)
    'interna…'
    """
    shown = "".join(_visible(character) for character in text[: 4 * length]) or "∅"
    return escape(shown if len(shown) <= length else shown[: length - 1] + "…", quote=False)


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
    """Two decimals, and more where two would read as nothing or as all.

    >>> [probability(p) for p in (0.5, 0.0031, 0.00031, 0.9962, 0.99999, 0.0, 1.0)]
    ['0.50', '0.0031', '3e-4', '0.9962', '>0.9999', '0', '1']
    """
    if value in (0, 1):
        return f"{value:.0f}"
    if value < 0.001:
        mantissa, exponent = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if value < 0.01:
        return f"{value:.2g}"
    if value < 0.995:
        return f"{value:.2f}"
    return f"{value:.4f}" if value < 0.99995 else ">0.9999"


def milliseconds(seconds: float) -> str:
    """Three figures: 0.412 ms, 4.12 ms, 41.2 ms, 412 ms.

    >>> milliseconds(0.0412)
    '41.2 ms'
    """
    value = seconds * 1000
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} ms"
