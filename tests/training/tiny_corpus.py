"""Write a corpus folder and a library folder of a few kilobytes, for tests of training."""

import gzip
import io
import json
import random
import tarfile
from pathlib import Path

WORDS = (
    "the old king found a small red boat near his quiet garden and told every child about it"
).split()


def write_corpus(folder: Path) -> Path:
    """Write all four source files of the corpus."""
    chance = random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    _write_books(folder / "books.tar.gz", chance)
    for part, count in (("train", 60), ("test", 12)):
        with gzip.open(folder / f"gsm8k-{part}.jsonl.gz", "wt", encoding="utf-8") as lines:
            lines.writelines(json.dumps(_problem(part, number)) + "\n" for number in range(count))
    with gzip.open(folder / "tatoeba-eng-fra.tsv.gz", "wt", encoding="utf-8") as lines:
        for number in range(400):
            english = f"{_sentence(chance)} Number {number}."
            french = f"Phrase {number}\u202f: l'été {chance.randint(0, 99)} est déjà là."
            lines.write(f"{english}\t{french}\n")
    return folder


def write_library(folder: Path) -> Path:
    """Write one module of documented functions, and a test file that must be left out."""
    chance = random.Random(1)
    (folder / "test").mkdir(parents=True)
    (folder / "test" / "test_secret.py").write_text("SECRET = 1\n")
    functions = (_function(number, chance) for number in range(120))
    (folder / "module.py").write_text("import os\n\n\n" + "\n\n".join(functions))
    return folder


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(8, 14))).capitalize() + "."


def _write_books(path: Path, chance: random.Random) -> None:
    paragraphs = (" ".join(_sentence(chance) for _ in range(4)) for _ in range(300))
    data = "\n\n".join(["Produced by Nobody", "CHAPTER I", *paragraphs]).encode()
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("books/00001-a-book.txt")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))


def _problem(part: str, number: int) -> dict[str, str]:
    question = (
        f"In the {part} garden Ann has {number} pears and Ben has 4 times as many pears as Ann has."
        " How many pears do they have together?"
    )
    ben = 4 * number
    answer = f"Ben has {number}*4=<<{number}*4={ben}>>{ben} pears.\n#### {number + ben}"
    return {"question": question, "answer": answer}


def _function(number: int, chance: random.Random) -> str:
    steps = "\n".join(
        f"    total = total + {chance.randint(0, 999)}  # step {step}"
        for step in range(1 if number % 3 else 24)
    )
    documented = f'"""Compute total number {number} of a value.\n\n    The offset stays.\n    """'
    head = f"def compute_{number}(value, offset=None):\n    {documented}\n    total = value"
    return f"{head}\n{steps}\n    return total\n"
