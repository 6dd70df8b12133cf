"""Grammars: a JSON schema or a regular expression that the whole answer must match.

The library llguidance compiles a grammar and says which tokens may come next. Where the grammar
fixes the next bytes, it allows only the tokens with which the tokenizer itself would spell them.
Such tokens are *forced*.

In shapes, N is the number of nodes of a draft tree, R = N + 1 the number of rows (the root, then
the nodes) and V the size of the vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from specviz.errors import InputError, short
from specviz.models.text.byte_text import byte_text
from specviz.models.text.text_codec import TextCodec

# A JSON text has one line, and spaces only where Python's `json.dumps` writes them. With optional
# spaces, the model would have a choice between any two parts of the text, and fewer tokens would be
# forced.
_LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

_DEAD_END = "NoExtensionBias"  # llguidance's error after a text that no token can continue


class GrammarState:
    """The position of a growing text in a grammar."""

    def __init__(self, matcher: Any, codec: TextCodec) -> None:
        self._matcher = matcher
        self._ends = codec.eos_ids
        self._vocab_size = codec.vocab_size
        self._count = 0  # number of tokens of the text
        self._has_ended = False

    def append(self, token_ids: Sequence[int]) -> None:
        """Add tokens to the text. Raises InputError for a token that the grammar forbids."""
        for token_id in token_ids:
            self._count += 1
            if token_id in self._ends:
                self._has_ended = True
            elif self._has_ended or not self._matcher.try_consume_tokens([token_id]):
                raise InputError(
                    "grammar must allow the text so far, but it forbids new token "
                    f"{self._count}, {token_id}"
                )

    def allowed(self, token_ids: Sequence[int] = (), parents: Sequence[int] = ()) -> Tensor:
        """Return which tokens may follow the text and each node of a tree. [N], [N] -> [R, V] bool

        Parents come before their children, and the root is -1. After a node that the grammar
        forbids, and after an end token, all tokens are allowed: no such row is ever used.
        """
        masks = [self._mask()]
        # the tokens from the root to each node, or None if the grammar forbids one of them
        paths: list[list[int] | None] = []
        tried: list[int] = []  # the tokens that the matcher has read after the text
        for token_id, parent in zip(token_ids, parents, strict=True):
            above = [] if parent < 0 else paths[parent]
            path = None if above is None or token_id in self._ends else [*above, token_id]
            if path is not None:
                tried = self._moved(tried, path)
                path = path if tried == path else None
            paths.append(path)
            masks.append(bytes([1]) * self._vocab_size if path is None else self._mask())
        self._moved(tried, [])
        joined = torch.frombuffer(bytearray(b"".join(masks)), dtype=torch.uint8)
        return joined.view(len(masks), self._vocab_size).bool()

    def forced(self, most: int) -> tuple[int, ...]:
        """Return the tokens that must follow, at most `most`, up to the first real choice."""
        if self._has_ended or most <= 0:
            return ()
        found = self._moved([], self._matcher.compute_ff_tokens()[:most])
        if len(found) < most and self._matcher.is_stopped() and len(self._ends) == 1:
            forced = (*found, *self._ends)
        else:
            forced = tuple(found)
        self._moved(found, [])
        return forced

    def _moved(self, tried: Sequence[int], path: Sequence[int]) -> list[int]:
        """Move the matcher from one path after the text to another one.

        Return the part of `path` that the grammar allows.
        """
        shared = 0
        while shared < min(len(tried), len(path)) and tried[shared] == path[shared]:
            shared += 1
        if len(tried) > shared:
            self._matcher.rollback(len(tried) - shared)
        read = self._matcher.try_consume_tokens(list(path[shared:])) if len(path) > shared else 0
        return list(path[: shared + read])

    def _mask(self) -> bytes:
        """Return one byte per token: 0 if the grammar forbids it here."""
        if self._has_ended:
            return bytes([1]) * self._vocab_size
        mask: bytes = self._matcher.compute_logit_bias()
        if self._matcher.is_error():
            why = _reason(self._matcher.get_error())
            if why == _DEAD_END:
                why = "no token of the vocabulary can follow"
            raise InputError(
                f"grammar must be one that llguidance can follow, but after {self._count} tokens: "
                f"{why}"
            )
        return mask


class Grammar:
    """A compiled grammar for the tokenizer of one model."""

    def __init__(self, text: str, codec: TextCodec) -> None:
        """Compile a grammar: a JSON schema if it begins with "{", otherwise a regular expression.

        Raises InputError for a bad grammar, and if the library is missing.
        """
        try:
            from llguidance import LLMatcher
        except ImportError:
            raise InputError(
                "grammar must be empty, because the library llguidance is not installed "
                f"(pip install llguidance), got {short(text)}"
            ) from None
        if not codec.eos_ids:
            raise InputError(
                "grammar must be empty for a model without an end token, which could not end its "
                f"text, got {short(text)}"
            )
        is_schema = text.lstrip().startswith("{")
        if is_schema:
            rules = LLMatcher.grammar_from_json_schema(_schema(text), overrides=_LAYOUT)
        else:
            rules = LLMatcher.grammar_from_regex(text)
        self._codec = codec
        self._matcher = LLMatcher(_tokenizer(codec), rules, log_level=0)
        if self._matcher.is_error():
            kind = "JSON schema" if is_schema else "regular expression"
            why = _reason(self._matcher.get_error())
            raise InputError(f"grammar must be a valid {kind}, got {short(text)}: {why}")
        first = self._matcher.deep_copy()
        first.compute_logit_bias()
        if first.is_error():
            raise InputError(
                "grammar must allow at least one text in the vocabulary of the model, got "
                f"{short(text)}"
            )

    def begin(self) -> GrammarState:
        """Return the position before the first token of a text."""
        return GrammarState(self._matcher.deep_copy(), self._codec)


@lru_cache(maxsize=32)
def compiled(text: str, codec: TextCodec) -> Grammar | None:
    """Return the compiled grammar, or None for an empty text. The most recent ones are cached."""
    return Grammar(text, codec) if text else None


def _schema(text: str) -> str:
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"grammar must be valid JSON if it begins with {{, got {short(text)}: {error}"
        ) from None


def _reason(error: str) -> str:
    """Return the part of an error of llguidance that says what is wrong.

    >>> _reason("at 1(8): regex parse error:\\n    a(b\\nerror: unclosed group\\n")
    'unclosed group'
    """
    lines = [line.strip() for line in error.strip().splitlines() if line.strip()]
    last = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (last or lines or ["unknown error"])[0]


class _Tokens:
    """A tokenizer in the form that llguidance reads."""

    bos_token_id = None

    def __init__(self, codec: TextCodec) -> None:
        names = codec.vocabulary
        control = set(codec.control_tokens.values()) | codec.eos_ids
        self._text = byte_text(codec)
        self.eos_token_id = min(codec.eos_ids)
        self.special_token_ids = sorted(control)
        self.tokens = [
            (name or "").encode() if token_id in control else codec.token_bytes(token_id) or b""
            for token_id, name in enumerate(names)
        ]

    def __call__(self, data: bytes) -> list[int]:
        return self._text.encode(data)


@lru_cache(maxsize=8)
def _tokenizer(codec: TextCodec) -> Any:
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(
        TokenizerWrapper(_Tokens(codec)),
        n_vocab=codec.vocab_size,
        eos_token=sorted(codec.eos_ids),
    )
