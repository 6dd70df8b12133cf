"""Experiments for a class of students: each asks a question and runs settings that answer it.

A run is given as parameters of the race page's address. Runs that need a draft model name the
bundled pair; all other runs use the page's default pair. The page chooses the sentence that answers
the question by the measured numbers and inserts them, so no text here assumes a result.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

Query = dict[str, str]

# At temperature 0 both lanes write the same text, so both are measured over the same tokens.
_DRAFT: Query = {"pair": "bundled", "method": "draft-model", "k": "4", "temperature": "0"}
_LOOKUP: Query = {"method": "prompt-lookup", "temperature": "0"}
_SUMMARY: Query = {"temperature": "0", "task": "summarise", "k": "8"}

# Above temperature 0, a text may end early. With this seed, the texts of all lanes have the same
# length.
_DRAWN: Query = {"temperature": "1", "seed": "2"}


class Measure(StrEnum):
    """A measured number of a run; `assets/player/race/preset_answer.js` compares or quotes it."""

    SPEEDUP = "speedup"
    ACCEPTANCE = "acceptance"  # share of the examined guesses that the target accepted
    USED = "used"  # share of all guesses that the target accepted, whether examined or not
    TOKENS = "tokens"  # tokens written per target forward


COMPARED = (Measure.SPEEDUP, Measure.ACCEPTANCE)


@dataclass(frozen=True, slots=True)
class ClassRun:
    """A run of an experiment: the label of its button, and the settings of its race."""

    label: str
    query: Query


@dataclass(frozen=True, slots=True)
class MeasuredAnswer:
    """The sentences that can answer an experiment's question.

    A sentence may contain measured values: `{speedup.0}` is the speedup of the first run. `leads`
    has one sentence per run, which is used if this run has the highest `measure`. `close` is used
    if the best two runs differ by no more than chance or timing noise.
    """

    measure: Measure  # one of COMPARED, the measures that the page can compare
    leads: tuple[str, ...]
    close: str


@dataclass(frozen=True, slots=True)
class ClassPreset:
    """An experiment: a question, two or more runs, a sentence on their result, and what to learn.

    The sentence on what to learn is true whatever speeds and acceptance rates the runs have.
    """

    name: str
    title: str
    question: str
    runs: tuple[ClassRun, ...]
    finding: MeasuredAnswer
    lesson: str


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
        MeasuredAnswer(
            Measure.SPEEDUP,
            (
                "The bad draft cost time: {speedup.1} the baseline’s speed, against {speedup.0} "
                "with the good one.",
                "The bad draft was faster here, {speedup.1} against {speedup.0}: its guesses "
                "cost less.",
            ),
            "The two were about equally fast here: {speedup.0} and {speedup.1}.",
        ),
        "Of the examined guesses, {acceptance.0} of the good draft and {acceptance.1} of the bad "
        "one passed. The text does not suffer: at temperature 0 the target replaces every wrong "
        "guess by its own most probable token, so both texts are the target’s own, word for word "
        "(a word can differ only if two tokens are equally probable up to rounding). Above "
        "temperature 0 the words are drawn at random, and their distribution stays the same.",
    ),
    ClassPreset(
        "temperature",
        "Temperature 0 or 1",
        "When is a text easier to guess: when the model always takes its most probable token, or "
        "when it draws tokens at random?",
        (
            ClassRun("Temperature 0", _DRAFT | {"task": "story"}),
            ClassRun("Temperature 1", _DRAFT | {"task": "story"} | _DRAWN),
        ),
        MeasuredAnswer(
            Measure.ACCEPTANCE,
            (
                "Temperature 0 was easier to guess here: {acceptance.0} of the examined guesses "
                "passed, against {acceptance.1} at temperature 1.",
                "Temperature 1 was easier to guess here: {acceptance.1} of the examined guesses "
                "passed, against {acceptance.0} at temperature 0.",
            ),
            "So few guesses cannot tell: {acceptance.0} of the examined ones passed at "
            "temperature 0 and {acceptance.1} at temperature 1.",
        ),
        "At temperature 0 a guess passes if it is the target’s most probable token, so the two "
        "models need to agree only on this token. At 1 it passes with probability min(1, p/q), so "
        "the two distributions must be close. Also read the texts: at temperature 0 a small model "
        "tends to repeat itself, which is easy to guess.",
    ),
    ClassPreset(
        "draft-length",
        "Guess 1 or 12",
        "Guessing more tokens in each round may save more. Why not always guess 12?",
        (
            ClassRun("K = 1", _DRAFT | {"task": "story", "k": "1"} | _DRAWN),
            ClassRun("K = 12", _DRAFT | {"task": "story", "k": "12"} | _DRAWN),
            ClassRun("K = 4", _DRAFT | {"task": "story", "k": "4"} | _DRAWN),
        ),
        MeasuredAnswer(
            Measure.SPEEDUP,
            (
                "K = 1 was the fastest here: {speedup.0}, against {speedup.2} at K = 4 and "
                "{speedup.1} at K = 12.",
                "K = 12 was the fastest here: {speedup.1}, against {speedup.0} at K = 1 and "
                "{speedup.2} at K = 4.",
                "K = 4, between the two, was the fastest here: {speedup.2}, against {speedup.0} "
                "at K = 1 and {speedup.1} at K = 12.",
            ),
            "The two fastest are too close to tell apart by one run: {speedup.0} at K = 1, "
            "{speedup.2} at K = 4, {speedup.1} at K = 12.",
        ),
        "After the first rejection all later guesses of a round are dropped, but each one has "
        "cost time: these are the grey boxes in the strip. Of all guesses, {used.0} ended up in "
        "the text at K = 1, {used.2} at K = 4 and {used.1} at K = 12; each forward of the target "
        "brought {tokens.0}, {tokens.2} and {tokens.1} tokens.",
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
        MeasuredAnswer(
            Measure.SPEEDUP,
            (
                "Better for the summary: {speedup.0} the baseline’s speed, against {speedup.1} for "
                "the story.",
                "Better for the story here: {speedup.1} the baseline’s speed, against {speedup.0} "
                "for the summary. Read it: a text that repeats itself is easy to copy.",
            ),
            "The two were about equally fast here: {speedup.0} for the summary and {speedup.1} "
            "for the story.",
        ),
        "Each forward of the target brought {tokens.0} tokens of the summary and {tokens.1} of "
        "the story. If an answer repeats words of the prompt, or its own words, there is something "
        "to copy. Otherwise, a round drafts nothing, or copies tokens that do not fit.",
    ),
    ClassPreset(
        "tree",
        "A tree or a chain",
        "A tree makes several guesses for each position and checks all of them at once. Is it "
        "faster?",
        (
            ClassRun("A chain", _DRAFT | {"task": "story"}),
            ClassRun(
                "A tree",
                _DRAFT | {"task": "story", "method": "draft-tree", "branching": "2,2,1,1"},
            ),
        ),
        MeasuredAnswer(
            Measure.SPEEDUP,
            (
                "The tree was slower here: {speedup.1} the baseline’s speed, against {speedup.0} "
                "for the chain.",
                "The tree was faster here: {speedup.1} the baseline’s speed, against {speedup.0} "
                "for the chain.",
            ),
            "One run cannot tell: {speedup.1} the baseline’s speed, the chain’s {speedup.0}.",
        ),
        "Each forward of the target brought {tokens.1} tokens with the tree and {tokens.0} with "
        "the chain. Both guess 4 tokens deep, but the chain with 4 guesses in a round and the "
        "tree with 14, all of which are drafted and checked. A tree pays if a forward over "
        "many tokens takes little longer than one over few.",
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
        MeasuredAnswer(
            Measure.SPEEDUP,
            (
                "Temperature 0 was faster here: {speedup.0} the baseline’s speed, against "
                "{speedup.1} at temperature 0.8.",
                "Temperature 0.8 was faster here: {speedup.1} the baseline’s speed, against "
                "{speedup.0} at temperature 0.",
            ),
            "The two were about equally fast here: {speedup.0} and {speedup.1}.",
        ),
        "Of the examined guesses {acceptance.0} passed at temperature 0 and {acceptance.1} at "
        "0.8. Check whether the text at temperature 0 repeats itself in a loop. A loop is easy to "
        "copy, so its speedup says little about real text. Read the text before you believe a "
        "number.",
    ),
    ClassPreset(
        "copy",
        "Copy the last match, or count",
        "Prompt lookup copies what followed the last match. Suffix decoding counts what followed "
        "all matches, and after a short match it drafts little. Which of them is faster?",
        (
            ClassRun("Prompt lookup", _SUMMARY | {"method": "prompt-lookup"}),
            ClassRun("Suffix decoding", _SUMMARY | {"method": "suffix"}),
        ),
        MeasuredAnswer(
            Measure.SPEEDUP,
            (
                "Prompt lookup was faster here: {speedup.0} the baseline’s speed, against "
                "{speedup.1} with suffix decoding.",
                "Suffix decoding was faster here: {speedup.1} the baseline’s speed, against "
                "{speedup.0} with prompt lookup.",
            ),
            "The two were about equally fast here: {speedup.0} and {speedup.1}.",
        ),
        "Of all guesses, {used.0} of prompt lookup and {used.1} of suffix decoding ended up in the "
        "text, and each forward of the target brought {tokens.0} and {tokens.1} tokens. After a "
        "match of m tokens suffix decoding drafts at most m. It wastes fewer guesses, but it "
        "needs some rounds before it drafts a long copy. That pays if every guess costs time, as "
        "in a large batch. If guesses are cheap, try a higher value of “Draft per match”.",
    ),
)


def class_presets() -> list[dict[str, Any]]:
    """Return all experiments as JSON-ready dicts."""
    return [asdict(preset) for preset in PRESETS]
