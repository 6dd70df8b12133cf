"""What is put to a model: a message, a conversation, or a text as it is."""

from __future__ import annotations

from dataclasses import dataclass

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one of ROLES said."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns that a chat model answers, in its template; the last one is the user's."""

    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class RawText:
    """A text that no template is put around: names of control tokens in it are control tokens."""

    text: str


# A plain text is a user's message to a chat model, and the beginning of a text to a base model.
Prompt = str | Conversation | RawText


def turns_of(prompt: str | Conversation) -> tuple[Turn, ...]:
    """A plain text is one turn of the user's."""
    return (Turn("user", prompt),) if isinstance(prompt, str) else prompt.turns


def prompt_text(prompt: Prompt) -> str:
    """As people read it: of a conversation each turn behind its role.

    >>> prompt_text(Conversation((Turn("system", "Be brief."), Turn("user", "Why?"))))
    'system: Be brief.\\n\\nuser: Why?'
    """
    match prompt:
        case Conversation():
            return "\n\n".join(f"{turn.role}: {turn.content}" for turn in prompt.turns)
        case RawText():
            return prompt.text
    return prompt
