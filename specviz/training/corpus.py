"""The training text: documents per task from four public sources, and what of it is held out.

A document is the task's tag, text and `<|endoftext|>`; `Corpus` holds the text alone. GSM8K's test
part and HELD_OUT documents of every other task never reach training, nor does any function or
English sentence in them. Knows nothing of tokens.
"""

import gzip
import json
import random
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from specviz.training.library_code import LibraryFunction, chunks, functions, module_sources
from specviz.training.prompts import beginning

TASKS = ("code", "story", "maths", "translate", "summarise")
FILES = ("books.tar.gz", "gsm8k-train.jsonl.gz", "gsm8k-test.jsonl.gz", "tatoeba-eng-fra.tsv.gz")
HELD_OUT = 40
STORY_CHARS = 2800


@dataclass(frozen=True, slots=True)
class Corpus:
    """Per task: documents to train on, and documents held out."""

    training: dict[str, tuple[str, ...]]
    held_out: dict[str, tuple[str, ...]]


def read_corpus(folder: Path, library: Path, seed: int = 0) -> Corpus:
    """All documents, from the four files in `folder` and the Python library in `library`.

    Raises ValueError if a file is missing.
    """
    for name in FILES:
        if not (folder / name).is_file():
            raise ValueError(f"corpus must be a folder that holds {name}, got {str(folder)!r}")
    parts = {
        "story": _split(_stories(folder / FILES[0]), "story", seed),
        "maths": (tuple(_problems(folder / FILES[1])), tuple(_problems(folder / FILES[2]))),
        "translate": _phrase_books(folder / FILES[3], seed),
        **_code_and_summaries(library, seed),
    }
    return Corpus(
        {task: parts[task][0] for task in TASKS}, {task: parts[task][1] for task in TASKS}
    )


def _split(
    documents: Iterable[str], task: str, seed: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(training, held out): of those with a natural beginning HELD_OUT, at most a third of all."""
    unique = list(dict.fromkeys(documents))
    random.Random(f"{seed} {task}").shuffle(unique)
    count = min(HELD_OUT, len(unique) // 3)
    held_out = [text for text in unique if beginning(task, text)][:count]
    kept = dict.fromkeys(unique)
    for text in held_out:
        del kept[text]
    return tuple(kept), tuple(held_out)


def _stories(path: Path) -> Iterator[str]:
    """Runs of paragraphs of one book, about STORY_CHARS each; no headings, no lists of contents."""
    with tarfile.open(path) as archive:
        members = sorted(
            (member for member in archive if member.isfile()), key=lambda member: member.name
        )
        for member in members:
            handle = archive.extractfile(member)
            assert handle is not None
            yield from _runs(_paragraphs(handle.read().decode("utf-8")))


def _paragraphs(book: str) -> Iterator[str]:
    for raw in re.split(r"\n\s*\n", book):
        text = " ".join(raw.split())
        spoken = text.endswith((".", "!", "?", '"', "'", "”", "’"))
        if (
            len(text) > 20
            and spoken
            and not text.isupper()
            and not re.match(r"\d|Produced by|CHAPTER|\[", text)
        ):
            yield text


def _runs(paragraphs: Iterable[str]) -> Iterator[str]:
    run = ""
    for paragraph in paragraphs:
        run += ("\n\n" if run else "") + paragraph
        if len(run) > STORY_CHARS:
            yield run
            run = ""
    if run:
        yield run


def _problems(path: Path) -> Iterator[str]:
    """Question, then the worked answer on the following lines, without calculator notes."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            answer = re.sub(r"<<.*?>>", "", record["answer"]).strip()
            yield f"{' '.join(record['question'].split())}\n{answer}"


def _phrase_books(path: Path, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(training, held out): English line, French line, and so on, 8 to 14 pairs a document."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        pairs = [tuple(_tidy(part) for part in line.rstrip("\n").split("\t")[:2]) for line in lines]
    chance = random.Random(f"{seed} translate")
    chance.shuffle(pairs)
    kept, held_out = _split(_books(pairs, chance), "translate", seed)
    reserved = {line for text in held_out for line in text.split("\n")[::2]}
    training = (_without_lines(text, reserved) for text in kept)
    return tuple(text for text in training if text), held_out


def _tidy(sentence: str) -> str:
    """One line with plain spaces: the source mixes three kinds before French punctuation."""
    return re.sub(r"[\s\u00a0\u202f\u2009]+", " ", sentence).strip()


def _books(pairs: list[tuple[str, ...]], chance: random.Random) -> Iterator[str]:
    start = 0
    while start < len(pairs):
        count = chance.randint(8, 14)
        yield "\n".join(f"{pair[0]}\n{pair[1]}" for pair in pairs[start : start + count])
        start += count


def _without_lines(text: str, reserved: set[str]) -> str:
    """The phrase book without the pairs whose English line is reserved."""
    lines = text.split("\n")
    kept = (pair for pair in zip(lines[::2], lines[1::2], strict=True) if pair[0] not in reserved)
    return "\n".join(f"{english}\n{french}" for english, french in kept)


def _code_and_summaries(
    library: Path, seed: int
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Both kinds share functions: one that is held out of one kind is kept out of the other."""
    sources = list(module_sources(library))
    code, held_code = _split(
        (chunk for source in sources for chunk in chunks(source)), "code", seed
    )
    held_text = "\n".join(held_code)
    found = {function.body: function for source in sources for function in functions(source)}
    usable = [function for function in found.values() if function.lines not in held_text]
    chance = random.Random(f"{seed} summarise")
    chance.shuffle(usable)
    groups = {_items(group): group for group in _groups(usable, chance)}
    summaries, held_summaries = _split(groups, "summarise", seed)
    reserved = [function.lines for text in held_summaries for function in groups[text]]
    code = tuple(text for text in code if not any(lines in text for lines in reserved))
    return {"code": (code, held_code), "summarise": (summaries, held_summaries)}


def _groups(
    found: list[LibraryFunction], chance: random.Random
) -> Iterator[tuple[LibraryFunction, ...]]:
    start = 0
    while start < len(found):
        count = chance.randint(3, 6)
        yield tuple(found[start : start + count])
        start += count


def _items(group: tuple[LibraryFunction, ...]) -> str:
    """Function, blank line, summary; items a blank line apart."""
    return "\n\n".join(f"{function.body}\n\n{function.summary}" for function in group)
