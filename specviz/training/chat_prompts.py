"""Make messages for a chat model, for six tasks, from the training corpus and lists of subjects.

No drafter is trained on messages that were made from held-out documents, functions or subjects.
"""

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeVar

from specviz.training.corpus import (
    LibraryFunction,
    functions,
    module_sources,
    read_corpus,
    standard_library,
)

CHAT_TASKS = ("code", "story", "maths", "translate", "summarise", "chat")
# Every tenth function is held out from training, and every tenth subject of messages.
HELD_OUT_SHARE = 10
PASSAGE_CHARS = 900

# Everyday questions. Each pattern of ABOUT_THINGS is combined with each of THINGS, and each pattern
# of ABOUT_SKILLS with each of SKILLS.
THINGS = """
photosynthesis; gravity; the moon; earthquakes; rainbows; the water cycle; volcanoes; magnets;
sound; electricity; vaccines; sleep; memory; the heart; muscles; vitamins; bees; whales;
dinosaurs; spiders; trees; mushrooms; coral reefs; the Roman Empire; the printing press; the steam
engine; the Silk Road; the French Revolution; ancient Egypt; the Vikings; inflation; taxes; banks;
the stock market; insurance; democracy; a constitution; the United Nations; a court of law; an
operating system; the internet; a database; encryption; a search engine; a compiler; machine
learning; a neural network; recursion; version control; jazz; opera; impressionism; poetry; chess;
photography; architecture; philosophy; logic; statistics; probability; prime numbers; the
Pythagorean theorem; fractions; negative numbers; algebra; geometry; bread; cheese; coffee; tea;
chocolate; rice; olive oil; salt; honey; soap; glass; paper; steel; concrete; plastic; batteries;
bicycles; aeroplanes; ships; bridges; lighthouses; clocks; mirrors; telescopes; microscopes;
thermometers; umbrellas
"""
SKILLS = """
learn a new language; remember names; sleep better; start running; swim; cook rice; bake bread;
make an omelette; brew coffee; plan a week of meals; save money; make a budget; write a letter of
application; prepare for an interview; give a short speech; take notes in a lecture; study for an
exam; read faster; write a poem; draw a portrait; take better photographs; play the guitar; grow
tomatoes; keep house plants alive; repair a bicycle tyre; paint a room; clean a kitchen; pack a
suitcase; plan a journey by train; make friends in a new city; apologise; say no politely; calm
down before a test; stop procrastinating; wake up early; drink more water; train a puppy; adopt a
cat; choose a laptop; make a strong password; back up files; learn to program; write a clear
e-mail; organise a birthday party; choose a present; write a diary; start a small business; hold a
meeting; work from home; learn chess
"""
ABOUT_THINGS = (
    "What is {}?",
    "Explain {} to a child of ten.",
    "Tell me three interesting facts about {}.",
    "Why does {} matter?",
    "Write a short paragraph about {}.",
    "What are common misunderstandings about {}?",
    "Give me a simple example that has to do with {}.",
)
ABOUT_SKILLS = (
    "How do I {}?",
    "Give me five tips to {}.",
    "I want to {}. Where should I begin?",
    "What mistakes do people make when they {}?",
    "Write a short plan for someone who wants to {}.",
)


_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ChatPrompts:
    """The messages of each task: those for training, and held-out messages for measurements."""

    training: dict[str, tuple[str, ...]]
    held_out: dict[str, tuple[str, ...]]


def chat_prompts(corpus: Path, library: Path | None = None, seed: int = 0) -> ChatPrompts:
    """Return all messages of every task, shuffled; `seed` determines their order.

    Raises ValueError if a file of the corpus is missing.
    """
    documents = read_corpus(corpus, library or standard_library(), seed)
    sources = module_sources(library or standard_library())
    found = [each for source in sources for each in functions(source) if _stands_alone(each)]
    training, held_out = _split(found)
    things, other_things = _split(_subjects(THINGS))
    skills, other_skills = _split(_subjects(SKILLS))
    return ChatPrompts(
        _shuffled(documents.training, training, things, skills, seed),
        _shuffled(documents.held_out, held_out, other_things, other_skills, seed),
    )


def _shuffled(
    documents: dict[str, tuple[str, ...]],
    found: Sequence[LibraryFunction],
    things: Sequence[str],
    skills: Sequence[str],
    seed: int,
) -> dict[str, tuple[str, ...]]:
    made = {
        "code": _code(found),
        "story": _stories(documents["story"]),
        "maths": _maths(documents["maths"]),
        "translate": _translations(documents["translate"]),
        "summarise": _summaries(documents["story"]),
        "chat": _questions(things, skills),
    }
    shuffled = {}
    for task in CHAT_TASKS:
        texts = list(dict.fromkeys(made[task]))
        random.Random(f"{seed} chat {task}").shuffle(texts)
        shuffled[task] = tuple(texts)
    return shuffled


def _split(items: Sequence[_Item]) -> tuple[list[_Item], list[_Item]]:
    """Divide the items into those for training and those that are held out."""
    held_out = list(items[::HELD_OUT_SHARE])
    return [item for i, item in enumerate(items) if i % HELD_OUT_SHARE], held_out


def _subjects(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", " ").split(";")]


def _code(found: Sequence[LibraryFunction]) -> Iterator[str]:
    """Yield one message per function: a request to explain, to write or to improve it."""
    for index, function in enumerate(found):
        body = function.body
        if index % 3 == 0:
            yield f"Explain what this Python function does.\n\n```python\n{body}\n```"
        elif index % 3 == 1:
            name = _name(body)
            yield f'Write a Python function `{name}`. Its docstring is: "{function.summary}"'
        else:
            yield (
                "Improve this Python function: clearer names, a docstring, and no other behaviour."
                f"\n\n```python\n{body}\n```"
            )


def _stands_alone(function: LibraryFunction) -> bool:
    """Return whether Python can parse the function's text. It cannot parse an indented method."""
    try:
        ast.parse(function.body)
    except SyntaxError:
        return False
    return True


def _name(body: str) -> str:
    node = ast.parse(body).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef), body
    return f"{node.name}({ast.unparse(node.args)})"


def _stories(documents: Sequence[str]) -> Iterator[str]:
    for index, text in enumerate(documents):
        first = text.split("\n\n")[0]
        sentence = first[: first.find(". ") + 1] or first[:160]
        if not 20 <= len(sentence) <= 240:
            continue
        if index % 2:
            yield f'Write a short story that begins with: "{sentence}"'
        else:
            yield f"Continue this story with one more paragraph.\n\n{first[:PASSAGE_CHARS]}"


def _maths(documents: Sequence[str]) -> Iterator[str]:
    for text in documents:
        yield text.split("\n")[0]


def _translations(documents: Sequence[str]) -> Iterator[str]:
    """Yield requests to translate; each contains three sentences of a phrase book."""
    for text in documents:
        lines = text.split("\n")
        english = lines[::2]
        for start in range(0, len(english) - 2, 3):
            yield f"Translate into French:\n\n{' '.join(english[start : start + 3])}"


def _summaries(documents: Sequence[str]) -> Iterator[str]:
    """Yield messages with a passage of a story, whose words the answer is likely to repeat."""
    for index, text in enumerate(documents):
        passage = text[:PASSAGE_CHARS].rpartition(". ")[0] + "."
        if index % 3 == 0:
            yield f"Summarise this passage in two sentences.\n\n{passage}"
        elif index % 3 == 1:
            yield f"Correct the spelling of this passage and repeat it.\n\n{passage}"
        else:
            yield f"Who appears in this passage, and what happens?\n\n{passage}"


def _questions(things: Sequence[str], skills: Sequence[str]) -> Iterator[str]:
    for pattern, subject in product(ABOUT_THINGS, things):
        yield pattern.format(subject)
    for pattern, subject in product(ABOUT_SKILLS, skills):
        yield pattern.format(subject)
