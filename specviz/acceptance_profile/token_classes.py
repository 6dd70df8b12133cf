"""What kind of text a token is, told from its form and from the character before it.

Knows no tokenizer, no language and no trace: only visible token texts.
"""

from __future__ import annotations

import re
from enum import Enum
from keyword import kwlist

_BYTES = re.compile(r"⟨[0-9A-F]{2}⟩")  # how a token text shows bytes that are no whole character
_CONTROL = re.compile(r"<\|[^|]+\|>|⟨\d+⟩|</?s>|<(?:eos|bos|pad|unk|end_of_turn)>")
_NAME_MARK = re.compile(r"[_@$.]$")  # what stands before the rest of a name: self.x, load_all
_INNER_CAPITAL = re.compile(r"[^\W\d_][A-Z]|[A-Z]{2}")
_LETTER = re.compile(r"[^\W\d_]")
_KEYWORDS = frozenset(kwlist)


class TokenClass(Enum):
    """Kinds of tokens; every token is of exactly one.

    A KEYWORD is a whole word that Python reserves; in prose these (and, for, in, is, not, …) are
    function words. An IDENTIFIER is a word in a form that only names in programs have: with an
    underscore, a digit or an inner capital, or directly behind `.`, `_`, `@` or `$`. Any other
    word starts (WORD_START) or goes on directly behind a letter (WORD_CONTINUATION), so a plain
    name such as `total` is a word. OTHER has no text at all.
    """

    LINE_BREAK = "line break"
    WHITESPACE = "whitespace"
    NUMBER = "number"
    PUNCTUATION = "punctuation"
    KEYWORD = "keyword"
    IDENTIFIER = "identifier"
    WORD_START = "word start"
    WORD_CONTINUATION = "word continuation"
    BYTES = "byte piece"
    CONTROL = "control token"
    OTHER = "other"


def token_class(text: str, before: str = "") -> TokenClass:
    """The class of a token text that stands behind the text `before`.

    >>> [token_class(text, before).value for text, before in ((" return", ":"), ("urn", "ret"))]
    ['keyword', 'word continuation']
    >>> [token_class(text).value for text in ("\\n    ", "    ", " 42", '"):', " the", "_lines")]
    ['line break', 'whitespace', 'number', 'punctuation', 'word start', 'identifier']
    """
    if not text:
        return TokenClass.OTHER
    if _BYTES.search(text):  # before the unused ids, which bytes of two digits look like
        return TokenClass.BYTES
    if _CONTROL.fullmatch(text):
        return TokenClass.CONTROL
    if not text.strip():
        return TokenClass.LINE_BREAK if "\n" in text or "\r" in text else TokenClass.WHITESPACE
    if _LETTER.search(text):
        return _word_class(text, before)
    if any(character.isdigit() for character in text):
        return TokenClass.NUMBER
    return TokenClass.IDENTIFIER if set(text.strip()) == {"_"} else TokenClass.PUNCTUATION


def _word_class(text: str, before: str) -> TokenClass:
    """Of a token with a letter; `lead` is what stands directly before its first one."""
    first = _LETTER.search(text)
    assert first is not None
    lead, word = (before + text[: first.start()])[-1:], text[first.start() :].rstrip()
    if word in _KEYWORDS and not (lead.isalnum() or _NAME_MARK.search(lead)):
        return TokenClass.KEYWORD
    has_mark = "_" in word or any(character.isdigit() for character in word)
    if has_mark or _INNER_CAPITAL.search(word) or _NAME_MARK.search(lead):
        return TokenClass.IDENTIFIER
    return TokenClass.WORD_CONTINUATION if lead.isalnum() else TokenClass.WORD_START
