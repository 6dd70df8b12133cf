"""How an instruct model wants a question put: its chat template, filled in.

Knows nothing of models. The template is Jinja text that comes with a tokenizer; the library runs it
in a sandbox.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from specviz.errors import InputError

_PLACE = "\ue000specviz\ue000"  # private-use characters: no template writes them


class ChatTemplate:
    """The template of one tokenizer; `special_ids` are its control tokens."""

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
        except Exception:  # a template may raise anything
            return False
        return any(end in text for end in ends)

    def encode(self, text: str) -> list[int]:
        """Token ids of a user's question, up to where the answer begins.

        What the user typed never becomes a control token.
        """
        try:
            ids = self._ids(self._question(text))
            parts = self._question(_PLACE).split(_PLACE)
        except Exception:  # a template may raise anything
            raise InputError("the model's chat template cannot be filled in") from None
        written = [token_id for part in parts for token_id in self._special(self._ids(part))]
        return ids if self._special(ids) == written else self._joined(parts, text)

    def _joined(self, parts: list[str], text: str) -> list[int]:
        """The template's parts and, between them, the text with every control token spelled out."""
        typed = self._ids(text, split_special_tokens=True)
        joined = self._ids(parts[0])
        for part in parts[1:]:
            joined += [*typed, *self._ids(part)]
        return joined

    def _question(self, text: str) -> str:
        return self._render([{"role": "user", "content": text}], add_generation_prompt=True)

    def _render(self, turns: list[dict[str, str]], **options: Any) -> str:
        return str(self._tokenizer.apply_chat_template(turns, tokenize=False, **options))

    def _ids(self, text: str, **options: Any) -> list[int]:
        """Without the tokens that a tokenizer puts around a text: the template has its own."""
        options |= {"add_special_tokens": False, "verbose": False}
        return list(self._tokenizer(text, **options).input_ids)

    def _special(self, ids: list[int]) -> list[int]:
        return [token_id for token_id in ids if token_id in self._special_ids]
