"""The class of a token, decided by its text and the character before it.

It does not depend on the tokenizer or on the language of the text.
"""

from __future__ import annotations

import re
from enum import Enum
from keyword import kwlist

# Matches a byte of an incomplete character, in the form in which a token's text shows it.
_BYTES = re.compile(r"⟨[0-9A-F]{2}⟩")
_CONTROL = re.compile(r"<\|[^|]+\|>|⟨\d+⟩|</?s>|<(?:eos|bos|pad|unk|end_of_turn)>")
# Matches a character after which a name continues, as in self.x and load_all.
_NAME_MARK = re.compile(r"[_@$.]$")
_INNER_CAPITAL = re.compile(r"[^\W\d_][A-Z]|[A-Z]{2}")
_LETTER = re.compile(r"[^\W\d_]")
_KEYWORDS = frozenset(kwlist)


class TokenClass(Enum):
    """The classes of tokens; every token has exactly one.

    A KEYWORD is a whole word that Python reserves; in prose these words (and, for, in, is, not, …)
    are function words. An IDENTIFIER has a form that only names in programs have: an underscore, a
    digit or a capital inside the word, or a position directly after `.`, `_`, `@` or `$`. Any other
    word is a WORD_START, or a WORD_CONTINUATION directly after a letter. A plain name such as
    `total` is therefore a word. OTHER has no text at all.
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
    r"""Return the class of a token with this text that follows the text `before`.

    >>> [token_class(text, before).value for text, before in ((" return", ":"), ("urn", "ret"))]
    ['keyword', 'word continuation']
    >>> [token_class(text).value for text in ("\n    ", "    ", " 42", '"):', " the", "_lines")]
    ['line break', 'whitespace', 'number', 'punctuation', 'word start', 'identifier']
    """
    if not text:
        return TokenClass.OTHER
    # Bytes are checked first, because a byte of two digits, such as ⟨42⟩, also matches _CONTROL.
    if _BYTES.search(text):
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
    """Return the class of a token that contains a letter."""
    first = _LETTER.search(text)
    assert first is not None
    lead, word = (before + text[: first.start()])[-1:], text[first.start() :].rstrip()
    if word in _KEYWORDS and not (lead.isalnum() or _NAME_MARK.search(lead)):
        return TokenClass.KEYWORD
    has_mark = "_" in word or any(character.isdigit() for character in word)
    if has_mark or _INNER_CAPITAL.search(word) or _NAME_MARK.search(lead):
        return TokenClass.IDENTIFIER
    return TokenClass.WORD_CONTINUATION if lead.isalnum() else TokenClass.WORD_START
