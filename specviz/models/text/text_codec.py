"""Text to token ids and back, the visible text of a single token, and an instruct model's template.

Typed text never becomes a control token: `<|endoftext|>` in a prompt is encoded letter by letter,
unless the prompt is a raw text.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from specviz.errors import InputError
from specviz.models.text.template_process import process
from specviz.records import Prompt, RawText, Turn, turns_of

# where a turn's text stands; of private-use characters, which no template writes
_PLACE = re.compile("\ue000([0-9]+)\ue001")


# SHA-256 of the chat model's own template, which needs no process of its own
HARMLESS = frozenset({"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"})


class ChatTemplate:
    """The template of one tokenizer; `special_ids` are its control tokens.

    It may come from anywhere, so it is rendered in a process with limits.
    """

    def __init__(self, tokenizer: Any, special_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._special_ids = special_ids

    def ends_turns_with(self, ends: Iterable[str]) -> bool:
        """Whether an answer that it writes is closed by one of these tokens.

        So it is with the models that were trained on it. Base models often come with the template
        of their family, but end with another token, or never.
        """
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        if not getattr(self._tokenizer, "chat_template", None):
            return False
        try:
            text = self._render(turns)
        except InputError:
            raise
        except Exception:  # a template may raise anything
            return False
        return any(end in text for end in ends)

    def encode(self, turns: Sequence[Turn]) -> list[int]:
        """Token ids of a conversation, up to where the answer begins.

        What somebody typed never becomes a control token.
        """
        ids = self._ids(self._question(turns))
        parts = self._parts(turns)
        written = [token_id for part in parts[::2] for token_id in self._special(self._ids(part))]
        return ids if self._special(ids) == written else self._joined(parts, turns)

    def control_ids(self, turns: Sequence[Turn]) -> frozenset[int]:
        """The control tokens that it writes around these turns."""
        parts = self._parts(turns)[::2]
        return frozenset(token_id for part in parts for token_id in self._special(self._ids(part)))

    def _parts(self, turns: Sequence[Turn]) -> list[str]:
        """What it writes itself, and between two such parts the number of a turn."""
        places = [Turn(turn.role, f"\ue000{at}\ue001") for at, turn in enumerate(turns)]
        return _PLACE.split(self._question(places))

    def _joined(self, parts: list[str], turns: Sequence[Turn]) -> list[int]:
        """The template's parts and, between them, the texts with control tokens spelled out."""
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
        except Exception:  # a template may raise anything
            roles = ", ".join(turn.role for turn in turns)
            raise InputError(
                f"the model's chat template cannot be filled in for the turns {roles}"
            ) from None

    def _render(self, turns: list[dict[str, str]], **options: Any) -> str:
        template = str(self._tokenizer.get_chat_template())
        if hashlib.sha256(template.encode()).hexdigest() in HARMLESS:
            return str(self._tokenizer.apply_chat_template(turns, tokenize=False, **options))
        return process.render(template, turns, **options, **self._tokenizer.special_tokens_map)

    def _ids(self, text: str, **options: Any) -> list[int]:
        """Without the tokens that a tokenizer puts around a text: the template has its own."""
        options |= {"add_special_tokens": False, "verbose": False}
        return list(self._tokenizer(text, **options).input_ids)

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
    """The printable characters that byte-level vocabularies write their 256 bytes with.

    Printable bytes stand for themselves; the others take the characters from U+0100 on, in order.
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
    """A tokenizer of transformers (fast kind), reduced to what the app needs."""

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
        """The ids that end a sequence."""
        return self._eos_ids

    @cached_property
    def vocabulary(self) -> tuple[str | None, ...]:
        """The token string of every id (None where the id has none)."""
        names: list[str | None] = [None] * self._vocab_size
        for name, token_id in self._tokenizer.get_vocab().items():
            if token_id < self._vocab_size:
                names[token_id] = name
        return tuple(names)

    @cached_property
    def is_instruct(self) -> bool:
        """Whether prompts are put to the model as questions, in its chat template.

        So it is where the template ends an answer with one of the model's end tokens.
        """
        return self._template.ends_turns_with(
            self._added[token_id] for token_id in self._eos_ids if token_id in self._added
        )

    def encode(self, prompt: Prompt, tag: str | None = None) -> list[int]:
        """Token ids of a prompt.

        An instruct model is asked it in the chat template. For a base model it is the beginning of
        a text (of a conversation the turns' texts, with empty lines between), after the model's own
        token for the task `tag` if it has one. A raw text is taken as it is, for either.
        """
        if isinstance(prompt, RawText):
            return self._encode_raw(prompt.text)
        turns = turns_of(prompt)
        for turn in turns:
            _check_unicode(turn.content)
        if self.is_instruct:
            return self._template.encode(turns)
        text = "\n\n".join(turn.content for turn in turns)
        ids = self._tokenizer(text, split_special_tokens=True, verbose=False).input_ids
        return [*self._tag_ids(tag), *ids]

    def _encode_raw(self, text: str) -> list[int]:
        """Control tokens by their names; what the tokenizer puts before every text stands once."""
        _check_unicode(text)
        ids = list(self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids)
        start = list(self.start_ids)
        return ids if ids[: len(start)] == start else [*start, *ids]

    def template_tokens_in(self, prompt: Prompt) -> tuple[str, ...]:
        """Control tokens that the chat template writes and the prompt's own text names already.

        So it is with a text that was put into the template before. None for a base model, and for a
        raw text, which gets no template.
        """
        if isinstance(prompt, RawText) or not self.is_instruct:
            return ()
        turns = turns_of(prompt)
        names = (self._added[token_id] for token_id in sorted(self._template.control_ids(turns)))
        return tuple(name for name in names if any(name in turn.content for turn in turns))

    def encode_part(self, text: str) -> list[int]:
        """Token ids of a piece of text, with nothing around it: no template, no tag, no start."""
        ids: list[int] = self._tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, verbose=False
        ).input_ids
        return ids

    def beginning(self, text: str, tokens: int) -> str:
        """The longest beginning with at most so many tokens; at least one character."""

        def count(length: int) -> int:
            return len(self.encode_part(text[:length]))

        return text[: max(1, bisect_right(range(len(text) + 1), tokens, key=count) - 1)]

    @cached_property
    def start_ids(self) -> tuple[int, ...]:
        """What the tokenizer itself puts before every text."""
        return tuple(self._tokenizer("", verbose=False).input_ids)

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """The ids of the control tokens by their names."""
        return {self._added[token_id]: token_id for token_id in sorted(self._special)}

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the tokens, control tokens left out."""
        text: str = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def token_text(self, token_id: int) -> str:
        """One token, visible: bytes that are no whole character are shown as ⟨F0⟩."""
        if token_id in self._added:
            return self._added[token_id]
        data = self.token_bytes(token_id)
        return f"⟨{token_id}⟩" if data is None else data.decode("utf-8", "specviz-show")

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes that a token stands for; None for control tokens and unused ids."""
        if token_id in self._special:
            return None
        if token_id in self._added:
            return self._added[token_id].encode("utf-8")
        piece = self._tokenizer.convert_ids_to_tokens(token_id)
        return None if piece is None else self._piece_bytes(str(piece))

    def text_tokens(self) -> dict[bytes, int]:
        """The token of every text that one token stands for, by the text's bytes.

        Where several stand for the same, it is the one that is no bare byte (`<0x41>`, which only
        serves where there is no other), and of those the first.
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
