"""Examples of grammars that the race page offers, each with a prompt that it suits."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GrammarExample:
    """A grammar that the page offers: the name of its button, a prompt, and the grammar itself."""

    title: str
    prompt: str
    grammar: str


_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "job": {"enum": ["teacher", "nurse", "farmer"]},
        "languages": {"type": "array", "items": {"enum": ["English", "French", "Hindi"]}},
    },
    "required": ["name", "age", "job", "languages"],
    "additionalProperties": False,
}
PERSON = GrammarExample(
    "a person as JSON",
    "Invent a person. Give their name, age, job and languages as JSON.",
    json.dumps(_PERSON),
)
EXAMPLES = (
    PERSON,
    GrammarExample(
        "a date",
        "On which date did people first walk on the moon?",
        "It was on (January|February|March|April|May|June|July|August|September|October|November|"
        "December) [1-3]?[0-9], [12][0-9]{3}\\.",
    ),
    GrammarExample(
        "multiple choice",
        "Which planet is the largest? (A) Mars (B) Venus (C) Jupiter",
        "The correct answer is \\((A|B|C)\\), because [^.\\n]+\\.",
    ),
)
