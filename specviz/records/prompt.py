"""The prompts of a model: a message, a conversation, or a raw text."""

from __future__ import annotations

from dataclasses import dataclass

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation. Its role is one of ROLES, such as "user"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns to which a chat model writes the next answer; the last turn is the user's."""

    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class RawText:
    """A prompt that is used exactly as it is, without a chat template.

    If the text contains the name of a control token, the name becomes that token.
    """

    text: str


# A chat model takes a plain str as a user's message. A base model takes it as the beginning of a
# text.
Prompt = str | Conversation | RawText


def turns_of(prompt: str | Conversation) -> tuple[Turn, ...]:
    """Return the turns of a conversation; a plain text is one turn of the user."""
    return (Turn("user", prompt),) if isinstance(prompt, str) else prompt.turns


def prompt_text(prompt: Prompt) -> str:
    """Return a prompt as a readable text, with the role before each turn.

    >>> prompt_text(Conversation((Turn("system", "Be brief."), Turn("user", "Why?"))))
    'system: Be brief.\\n\\nuser: Why?'
    """
    match prompt:
        case Conversation():
            return "\n\n".join(f"{turn.role}: {turn.content}" for turn in prompt.turns)
        case RawText():
            return prompt.text
    return prompt
