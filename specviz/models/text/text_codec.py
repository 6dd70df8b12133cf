"""Convert text to token ids and back, and apply the chat template of an instruct model.

Typed text never becomes a control token: `<|endoftext|>` in a prompt is encoded letter by letter.
The only exception is a prompt that the user marks as raw text.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from specviz.errors import InputError, is_panic
from specviz.models.text.template_process import process
from specviz.records import Prompt, RawText, Turn, turns_of

# Matches the mark in a rendered template at which the text of a turn belongs. Its private-use
# characters occur in no template.
_PLACE = re.compile("\ue000([0-9]+)\ue001")


# SHA-256 of the chat model's own template. We trust this template, so no separate process needs to
# render it.
HARMLESS = frozenset({"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"})


def token_ids(tokenizer: Any, text: str, **options: Any) -> list[int]:
    """Return the token ids of a text.

    Raises InputError if the tokenizer fails, for example because its regular expression takes too
    long.
    """
    try:
        return list(tokenizer(text, verbose=False, **options).input_ids)
    except BaseException as error:
        if not is_panic(error):
            raise
        raise InputError(
            "the model's tokenizer fails on this text: choose another model or a shorter prompt"
        ) from None


class ChatTemplate:
    """The chat template of one tokenizer, with its control tokens `special_ids`.

    The template may be hostile, so a process with limits renders it.
    """

    def __init__(self, tokenizer: Any, special_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._special_ids = special_ids

    def ends_turns_with(self, ends: Iterable[str]) -> bool:
        """Return whether the template writes one of the tokens `ends` after an answer.

        A model that was trained with the template ends its answers with such a token. Base models
        often have the template of their family, but their texts end with another token or never
        end.
        """
        text, _ = self._answered
        return any(end in text for end in ends)

    @property
    def fault(self) -> str | None:
        """Return why the template cannot be filled in; None if it can be, or if there is none."""
        return self._answered[1]

    @cached_property
    def _answered(self) -> tuple[str, str | None]:
        """Return the rendered text of a question with its answer, and the error if that fails.

        Raises InputError if rendering takes too much time or memory.
        """
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        if not getattr(self._tokenizer, "chat_template", None):
            return "", None
        try:
            return self._render(turns), None
        except InputError:
            raise
        except Exception as error:  # Catch every error, because a template may raise any error.
            return "", str(error) or type(error).__name__

    def encode(self, turns: Sequence[Turn]) -> list[int]:
        """Return the token ids of a conversation, up to the start of the next answer.

        Typed text never becomes a control token.
        """
        ids = self._ids(self._question(turns))
        parts = self._parts(turns)
        written = [token_id for part in parts[::2] for token_id in self._special(self._ids(part))]
        return ids if self._special(ids) == written else self._joined(parts, turns)

    def control_ids(self, turns: Sequence[Turn]) -> frozenset[int]:
        """Return the ids of the control tokens that the template writes around these turns."""
        parts = self._parts(turns)[::2]
        return frozenset(token_id for part in parts for token_id in self._special(self._ids(part)))

    def _parts(self, turns: Sequence[Turn]) -> list[str]:
        """Render the template and split the text at the turns.

        In the result, every second entry is the index of a turn. The entries between them are text
        of the template itself.
        """
        places = [Turn(turn.role, f"\ue000{at}\ue001") for at, turn in enumerate(turns)]
        return _PLACE.split(self._question(places))

    def _joined(self, parts: list[str], turns: Sequence[Turn]) -> list[int]:
        """Join the token ids of the template's text and of the turns to one list.

        Control tokens in a turn are encoded as text.
        """
        joined = self._ids(parts[0])
        for number, part in zip(parts[1::2], parts[2::2], strict=True):
            joined += self._ids(turns[int(number)].content, split_special_tokens=True)
            joined += self._ids(part)
        return joined

    def _question(self, turns: Sequence[Turn]) -> str:
        given = [{"role": turn.role, "content": turn.content} for turn in turns]
        try:
            return self._render(given, add_generation_prompt=True)
        except InputError:
            raise
        except Exception:  # Catch every error, because a template may raise any error.
            roles = ", ".join(turn.role for turn in turns)
            raise InputError(
                f"the model's chat template does not accept turns of {roles} in this order"
            ) from None

    def _render(self, turns: list[dict[str, str]], **options: Any) -> str:
        template = str(self._tokenizer.get_chat_template())
        if hashlib.sha256(template.encode()).hexdigest() in HARMLESS:
            return str(self._tokenizer.apply_chat_template(turns, tokenize=False, **options))
        return process.render(template, turns, **options, **self._tokenizer.special_tokens_map)

    def _ids(self, text: str, **options: Any) -> list[int]:
        """Return the ids of a text without start tokens, because the template writes those."""
        return token_ids(self._tokenizer, text, add_special_tokens=False, **options)

    def _special(self, ids: list[int]) -> list[int]:
        return [token_id for token_id in ids if token_id in self._special_ids]


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"prompt must be valid Unicode text, got half of a surrogate pair at character "
            f"{error.start + 1}; delete or retype that character"
        ) from None


_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """Map the 256 characters that byte-level vocabularies use for bytes to these bytes.

    A printable byte is represented by itself. All other bytes are represented by the characters
    from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + i): byte for i, byte in enumerate(others)})
    return alphabet


_BYTE_OF = _byte_alphabet()


def _show_bytes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    shown = "".join(f"⟨{byte:02X}⟩" for byte in error.object[error.start : error.end])
    return shown, error.end


codecs.register_error("specviz-show", _show_bytes)


class TextCodec:
    """A fast tokenizer of transformers, with only the functions that this app needs."""

    def __init__(self, tokenizer: Any, vocab_size: int, eos_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._eos_ids = frozenset(eos_ids)
        added = tokenizer.added_tokens_decoder
        self._added = {int(token_id): str(token.content) for token_id, token in added.items()}
        self._special = frozenset(int(token_id) for token_id in added if added[token_id].special)
        self._template = ChatTemplate(tokenizer, self._special)
        self._is_byte_level = _has_byte_level(tokenizer)

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @property
    def eos_ids(self) -> frozenset[int]:
        return self._eos_ids

    @cached_property
    def vocabulary(self) -> tuple[str | None, ...]:
        """Return, for every id, the token as the tokenizer writes it, or None for unused ids."""
        names: list[str | None] = [None] * self._vocab_size
        for name, token_id in self._tokenizer.get_vocab().items():
            if token_id < self._vocab_size:
                names[token_id] = name
        return tuple(names)

    @cached_property
    def is_instruct(self) -> bool:
        """Return whether prompts are questions that must be put into the chat template.

        They are questions if the template writes one of the model's end tokens after an answer.
        """
        return self._template.ends_turns_with(
            self._added[token_id] for token_id in self._eos_ids if token_id in self._added
        )

    @property
    def template_fault(self) -> str | None:
        """Return the error of a chat template that cannot be filled in, otherwise None.

        A model with such a template is treated as a base model.
        """
        return self._template.fault

    def encode(self, prompt: Prompt, tag: str | None = None) -> list[int]:
        """Return the token ids of a prompt.

        For an instruct model, the prompt is put into the chat template. For a base model, the
        prompt is the start of a text. If the model has a token for the task `tag`, that token comes
        first. The turns of a conversation are joined by empty lines. A raw text is encoded
        unchanged for both kinds of models.
        """
        if isinstance(prompt, RawText):
            return self._encode_raw(prompt.text)
        turns = turns_of(prompt)
        for turn in turns:
            _check_unicode(turn.content)
        if self.is_instruct:
            return self._template.encode(turns)
        text = "\n\n".join(turn.content for turn in turns)
        ids = token_ids(self._tokenizer, text, split_special_tokens=True)
        return [*self._tag_ids(tag), *ids]

    def _encode_raw(self, text: str) -> list[int]:
        """Encode a raw text, in which the names of control tokens become control tokens.

        The tokenizer's start tokens come first; they are not repeated if the text contains them.
        """
        _check_unicode(text)
        ids = token_ids(self._tokenizer, text, add_special_tokens=False)
        start = list(self.start_ids)
        return ids if ids[: len(start)] == start else [*start, *ids]

    def template_tokens_in(self, prompt: Prompt) -> tuple[str, ...]:
        """Return the names of the template's control tokens that occur in the prompt's text.

        Such tokens are a sign that the user pasted a text that was already rendered with the
        template. The result is empty for a base model, and for a raw text, to which no template is
        applied.
        """
        if isinstance(prompt, RawText) or not self.is_instruct:
            return ()
        turns = turns_of(prompt)
        names = (self._added[token_id] for token_id in sorted(self._template.control_ids(turns)))
        return tuple(name for name in names if any(name in turn.content for turn in turns))

    def encode_part(self, text: str) -> list[int]:
        """Return the token ids of a piece of text; add no template, task token or start tokens."""
        return token_ids(self._tokenizer, text, add_special_tokens=False, split_special_tokens=True)

    def beginning(self, text: str, tokens: int) -> str:
        """Return the longest beginning of a text with at most `tokens` tokens.

        The result has at least one character, even if that character has more tokens.
        """

        def count(length: int) -> int:
            return len(self.encode_part(text[:length]))

        return text[: max(1, bisect_right(range(len(text) + 1), tokens, key=count) - 1)]

    @cached_property
    def start_ids(self) -> tuple[int, ...]:
        """Return the tokens that the tokenizer writes before every text."""
        return tuple(token_ids(self._tokenizer, ""))

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """Return the ids of the control tokens by name."""
        return {self._added[token_id]: token_id for token_id in sorted(self._special)}

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of the tokens, leaving out control tokens."""
        text: str = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def token_text(self, token_id: int) -> str:
        """Return the text of one token for display.

        Incomplete characters are shown as bytes, such as ⟨F0⟩.
        """
        if token_id in self._added:
            return self._added[token_id]
        data = self.token_bytes(token_id)
        return f"⟨{token_id}⟩" if data is None else data.decode("utf-8", "specviz-show")

    def token_bytes(self, token_id: int) -> bytes | None:
        """Return the bytes of a token, or None for control tokens and unused ids."""
        if token_id in self._special:
            return None
        if token_id in self._added:
            return self._added[token_id].encode("utf-8")
        piece = self._tokenizer.convert_ids_to_tokens(token_id)
        return None if piece is None else self._piece_bytes(str(piece))

    def text_tokens(self) -> dict[bytes, int]:
        """Map the bytes of every text that is a single token to that token.

        If several tokens have the same bytes, the map has the first one. It has a token such as
        `<0x41>`, which represents a bare byte, only if no other token has that byte.
        """
        found: dict[bytes, int] = {}
        bare: dict[bytes, int] = {}
        for token_id, name in enumerate(self.vocabulary):
            if name is None or token_id in self._special:
                continue
            data = name.encode() if token_id in self._added else self._piece_bytes(name)
            if data:
                (bare if _BYTE_PIECE.fullmatch(name) else found).setdefault(data, token_id)
        return {**bare, **found}

    def _piece_bytes(self, piece: str) -> bytes:
        if self._is_byte_level:
            return bytes(_BYTE_OF[character] for character in piece)
        if match := _BYTE_PIECE.fullmatch(piece):
            return bytes([int(match[1], 16)])
        return piece.replace("▁", " ").encode("utf-8")

    def _tag_ids(self, tag: str | None) -> list[int]:
        if tag is None:
            return []
        return [i for i in sorted(self._special) if self._added[i] == f"<|{tag}|>"]


def _has_byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return "ByteLevel" in repr(getattr(backend, "decoder", None))
