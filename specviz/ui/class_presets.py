"""Experiments for a class: each one asks a question, then runs settings that answer it.

A run is given as parameters of the race page's address. Runs that need a draft model name the
bundled pair; the others take the pair that the page begins with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

Query = dict[str, str]

_DRAFT: Query = {"pair": "bundled", "method": "draft-model", "k": "4", "temperature": "0"}

# above 0, where a small model does not fall into a loop, which would be easy to copy
_LOOKUP: Query = {"method": "prompt-lookup", "temperature": "0.7"}


@dataclass(frozen=True, slots=True)
class ClassRun:
    """What the button says, and the setting that it races."""

    label: str
    query: Query


@dataclass(frozen=True, slots=True)
class ClassPreset:
    """The question is asked before the runs, two or more; the answer shows after all of them."""

    name: str
    title: str
    question: str
    runs: tuple[ClassRun, ...]
    answer: str


PRESETS = (
    ClassPreset(
        "bad-draft",
        "A bad draft",
        "If the draft is wrong most of the time: what happens to the text, and what to the time?",
        (
            ClassRun("A good draft", _DRAFT | {"task": "story"}),
            ClassRun(
                "A bad draft (the target’s first layer alone)",
                _DRAFT | {"task": "story", "method": "early-exit", "option-exit_layer": "1"},
            ),
        ),
        "At temperature 0, as here, the text is the same, word for word: the target replaces every "
        "wrong guess by its own token. A bad draft costs time and nothing else.",
    ),
    ClassPreset(
        "temperature",
        "Temperature 0 or 1",
        "When is a text easier to guess: when the model always takes its most probable token, or "
        "when it rolls dice?",
        (
            ClassRun("Temperature 0", _DRAFT | {"task": "story"}),
            ClassRun("Temperature 1", _DRAFT | {"task": "story", "temperature": "1"}),
        ),
        "The higher acceptance rate above is the text that is easier to guess here. At temperature "
        "0 a guess passes if it is the target's most probable token; at 1 it passes with "
        "probability min(1, p/q), so what counts is how close the two distributions are.",
    ),
    ClassPreset(
        "draft-length",
        "Guess 1 or 12",
        "Guessing more tokens in each round may save more. Why not always guess 12?",
        (
            ClassRun("K = 1", _DRAFT | {"task": "story", "k": "1", "temperature": "1"}),
            ClassRun("K = 12", _DRAFT | {"task": "story", "k": "12", "temperature": "1"}),
            ClassRun("K = 4", _DRAFT | {"task": "story", "k": "4", "temperature": "1"}),
        ),
        "After the first rejection all later guesses are thrown away, but each one was paid for: "
        "the grey boxes in the strip. A single guess wastes little and saves little. The best K "
        "lies between.",
    ),
    ClassPreset(
        "summary",
        "Copy from the prompt",
        "Prompt lookup has no draft model: it copies what followed the same words earlier in the "
        "text. For which of two tasks will that work?",
        (
            ClassRun("A summary", _LOOKUP | {"task": "summarise"}),
            ClassRun("A story", _LOOKUP | {"task": "story"}),
        ),
        "Where the answer repeats words of the prompt there is something to copy. In a new story "
        "there is little, and many rounds draft nothing.",
    ),
    ClassPreset(
        "tree",
        "A tree or a chain",
        "A tree makes several guesses for each place and checks all of them at once. Is it faster?",
        (
            ClassRun("A chain", _DRAFT | {"task": "story"}),
            ClassRun(
                "A tree",
                _DRAFT | {"task": "story", "method": "draft-tree", "branching": "2,2,1,1"},
            ),
        ),
        "The tree guesses 14 tokens a round, the chain 4. It writes more tokens per target "
        "forward, and each forward checks more. If its speedup above is the higher one, checking "
        "so many cost less on this machine than it brought; if not, more.",
    ),
    ClassPreset(
        "loop",
        "Greedy and the loop",
        "At temperature 0 a small model may repeat itself. What does that do to the speedup?",
        (
            ClassRun(
                "Temperature 0",
                _DRAFT | {"task": "code", "method": "prompt-lookup", "k": "8", "tokens": "256"},
            ),
            ClassRun(
                "Temperature 0.8",
                _DRAFT
                | {"task": "code", "method": "prompt-lookup", "k": "8", "tokens": "256"}
                | {"temperature": "0.8"},
            ),
        ),
        "A loop is easy to guess, so its speedup says little about real text. Read what was "
        "written before you believe a number.",
    ),
)


def class_presets() -> list[dict[str, Any]]:
    """All of them as the page takes them."""
    return [asdict(preset) for preset in PRESETS]
