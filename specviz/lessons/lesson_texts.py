"""Rules for a lesson's texts.

A text may refer to values of the widget, such as {p}, and to words of the glossary. It must not
contain numbers, because an author's number could differ from the computed one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from specviz.errors import InputError, short
from specviz.glossary import term
from specviz.lessons.lesson import LessonFormula

_VALUE = re.compile(r"\{([^{}]*)\}")
_TERM = re.compile(r"\[([^\[\]]+)\]\(([^()]+)\)")
# A text may contain the numbers 0 and 1, because they are the bounds of a probability. Every other
# number must be a computed value.
_NUMBER = re.compile(
    r"(?<![\w.])(?:\d+(?:[.,]\d+)*)(?![\w])"
    r"|\b(?:four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|fifty|hundred|thousand)\b",
    re.IGNORECASE,
)
_ENDS = ("0", "1")
_TAGS = frozenset("math mrow mi mn mo mtext mfrac msup msub msubsup munder munderover".split())


def word_count(text: str) -> int:
    """Return the number of words that a student reads; a value counts as one word.

    >>> word_count("The *target* gives it {p}: [kept](accepted).")
    6
    """
    return len(_TERM.sub(r"\1", text).split())


def check_text(text: str, path: str, values: Sequence[str]) -> None:
    """Raise InputError for an unknown value, an unknown glossary word, or a number in the text."""
    for name in _VALUE.findall(text):
        if name not in values:
            known = ", ".join(values) or "none"
            raise InputError(f"{path} must name values among {known}, got {short(name)}")
    for _, key in _TERM.findall(text):
        _check_term(key, path)
    bare = _VALUE.sub("", _TERM.sub(r"\1", text))
    typed = [found for found in _NUMBER.findall(bare) if found not in _ENDS]
    if typed:
        raise InputError(
            f"{path} must have values such as {{p}} instead of typed numbers, got {short(typed[0])}"
        )


def _check_term(key: str, path: str) -> None:
    try:
        term(key)
    except InputError:
        raise InputError(f"{path} must name terms of the glossary, got {short(key)}") from None


def check_formula(formula: LessonFormula, path: str, values: Sequence[str]) -> None:
    """Raise InputError for invalid MathML, or for a symbol without a meaning or a value."""
    try:
        root = ElementTree.fromstring(f"<math>{formula.mathml}</math>")
    except ElementTree.ParseError as error:
        raise InputError(f"{path}.mathml must be MathML: {error}") from None
    for each in root.iter():
        if each.tag not in _TAGS:
            raise InputError(f"{path}.mathml must be MathML, got the element {short(each.tag)}")
    used = {each.get("data-symbol") for each in root.iter()} - {None}
    named = {symbol.name for symbol in formula.symbols}
    if used != named:
        rule = f"those of its MathML, {', '.join(sorted(map(str, used)))}"
        raise InputError(f"{path}.symbols must be {rule}, got {', '.join(sorted(named))}")
    for symbol in formula.symbols:
        check_text(symbol.meaning, f"{path}.symbols", values)
    for name in (formula.result, *(symbol.value for symbol in formula.symbols)):
        if name is not None and name not in values:
            raise InputError(f"{path} must name values among {', '.join(values)}, got {name!r}")
