"""The training text: documents per task from four public sources, the held-out ones, and prompts.

A document is the task's tag, text and `<|endoftext|>`; `Corpus` holds the text alone. GSM8K's test
part and HELD_OUT documents of every other task never reach training, nor does any function or
English sentence in them. Lengths are in characters.
"""

import ast
import gzip
import json
import random
import re
import sysconfig
import tarfile
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# ---- the running interpreter's standard library: chunks of modules, functions with summaries


CHUNK_CHARS = 2400
LONGEST_STATEMENT = 1500  # longer assignments are tables of data
FUNCTION_CHARS = range(80, 1000)
SUMMARY_CHARS = range(15, 140)
_SKIPPED_FOLDERS = {
    "test", "tests", "idle_test", "encodings", "pydoc_data", "site-packages", "dist-packages",
    "lib2to3", "turtledemo", "__pycache__", "_bundled", "tkinter", "idlelib",
}  # fmt: skip
_SKIPPED_PREFIXES = ("_sysconfigdata", "antigravity", "this", "__phello__", "entities")


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """Lines as in the file, the text without docstring, the docstring's first sentence."""

    lines: str
    body: str
    summary: str


def standard_library() -> Path:
    """Where the running interpreter keeps its library."""
    return Path(sysconfig.get_paths()["stdlib"])


def module_sources(folder: Path) -> Iterator[str]:
    """The text of every module under `folder` that is neither a test nor data, in a fixed order."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        skipped = any(part in _SKIPPED_FOLDERS or part.startswith("config-") for part in parts[:-1])
        if not skipped and not path.name.startswith(_SKIPPED_PREFIXES):
            yield path.read_text(encoding="utf-8", errors="ignore").replace("\f", "")


def chunks(source: str) -> Iterator[str]:
    """Consecutive statements, about CHUNK_CHARS together; a long class repeats its header.

    A chunk starts anew at a top-level function or class once it holds a third of CHUNK_CHARS.
    """
    gathered = ""
    for piece, starts in _pieces(source):
        full = len(gathered) + len(piece) > CHUNK_CHARS
        if gathered and (full or (starts and len(gathered) > CHUNK_CHARS // 3)):
            yield gathered.strip("\n")
            gathered = ""
        gathered += piece
    if gathered.strip():
        yield gathered.strip("\n")


def functions(source: str) -> Iterator[LibraryFunction]:
    """Every function and method of a module that has a docstring, a body and a fitting length."""
    lines = source.splitlines()
    for node in ast.walk(_parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(node.body) > 1:
            docstring = ast.get_docstring(node)
            if docstring and (summary := first_sentence(docstring)):
                text = _between(lines, node.lineno, node.end_lineno)
                body = _without_docstring(lines, node)
                if len(body) in FUNCTION_CHARS:
                    yield LibraryFunction(text, body, summary)


def first_sentence(docstring: str) -> str:
    """The first sentence, on one line, with a full stop; empty if it is no sentence.

    "Return x.  More." -> "Return x."
    """
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s", paragraph)[0].rstrip(".:;, ")
    if (
        len(sentence) not in SUMMARY_CHARS
        or not sentence[0].isupper()
        or ">>>" in sentence
        or "->" in sentence
    ):
        return ""
    return sentence + "."


def _parse(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _between(lines: list[str], first: int, last: int | None) -> str:
    return "\n".join(lines[first - 1 : last])


def _without_docstring(lines: list[str], node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    head = _between(lines, node.lineno, node.body[0].lineno - 1)
    tail = _between(lines, (node.body[0].end_lineno or 0) + 1, node.end_lineno).lstrip("\n")
    text = textwrap.dedent(f"{head}\n{tail}").strip("\n")
    return re.sub(r"\n\s*\n+", "\n", text)


def _pieces(source: str) -> Iterator[tuple[str, bool]]:
    """(text, whether a new chunk may well start here) of each statement or part of a class."""
    lines = source.splitlines()
    previous_end = 0
    for node in _parse(source).body:
        text = _between(lines, previous_end + 1, node.end_lineno) + "\n"
        previous_end = node.end_lineno or previous_end
        if isinstance(node, ast.ClassDef) and len(text) > CHUNK_CHARS:
            yield from _members(node, lines)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield text, True
        elif len(text) < LONGEST_STATEMENT:
            yield text, False


def _members(node: ast.ClassDef, lines: list[str]) -> Iterator[tuple[str, bool]]:
    """A long class in parts of about CHUNK_CHARS, each under the class's header."""
    header = "\n" + _between(lines, node.lineno, node.body[0].lineno - 1).rstrip()
    part = header
    previous_end = node.body[0].lineno - 1
    for member in node.body:
        text = "\n" + _between(lines, previous_end + 1, member.end_lineno)
        previous_end = member.end_lineno or previous_end
        if len(part) + len(text) > CHUNK_CHARS and part != header:
            yield part + "\n", True
            part = header
        part += text
    yield part + "\n", True


# ---- prompts: natural beginnings of held-out documents, without the task's tag
#
# No prompt ends with a newline or a space: each ends at the end of a line or sentence, where the
# training text goes on with a newline or a space that belongs to the next token. So prompt +
# continuation splits into tokens exactly as in training.


PROMPTS_PER_TASK = 40
REST_CHARS = 700  # about 200 tokens: room for the continuation before the document would end
PROMPT_CHARS = range(90, 400)
DENSE_PROMPT_CHARS = range(90, 330)  # code has more tokens per character


def beginning(task: str, text: str) -> str:
    """A tidy beginning of the document, or "" if it has none that leaves room for a continuation.

    maths: "Q?\\nA..." -> "Q?"
    """
    prompt = _BEGINNINGS[task](text)
    roomy = task == "maths" or len(text) - len(prompt) >= REST_CHARS
    tidy = prompt.isascii() or task == "translate"
    fitting = DENSE_PROMPT_CHARS if task in ("code", "summarise") else PROMPT_CHARS
    return prompt if roomy and tidy and len(prompt) in fitting else ""


def prompts(task: str, documents: Iterable[str]) -> list[str]:
    """The first PROMPTS_PER_TASK beginnings of the documents; private functions come last."""
    found = [prompt for text in documents if (prompt := beginning(task, text))]
    return sorted(found[:PROMPTS_PER_TASK], key=_is_private)


def _is_private(prompt: str) -> bool:
    return prompt.startswith("def _") or "DEPRECATED" in prompt


def _code(text: str) -> str:
    """A function's signature, its docstring and the first line after it."""
    if not text.startswith("def "):
        return ""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    if ast.get_docstring(function) is None or len(function.body) < 3:
        return ""
    first = function.body[1]
    if not isinstance(first, ast.Assign | ast.Expr) or first.end_lineno != first.lineno:
        return ""
    return "\n".join(text.split("\n")[: first.end_lineno])


def _story(text: str) -> str:
    """The first sentences of the first paragraph, up to about 220 characters."""
    paragraph = text.split("\n\n")[0]
    ends = [match.end() for match in re.finditer(r"[a-z][.!?]\"?(?= [\"A-Z])", paragraph)]
    fitting = [end for end in ends if end <= 220]
    return paragraph[: fitting[-1]] if fitting and text[0].isupper() else ""


def _maths(text: str) -> str:
    return text.split("\n")[0]


def _translate(text: str) -> str:
    """Three pairs and an English line; two pairs if the sentences are long."""
    lines = text.split("\n")
    long = sum(map(len, lines[:7])) > 300
    return "\n".join(lines[: 5 if long else 7])


def _summarise(text: str) -> str:
    """One item and the next function, without its summary."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(paragraphs[:3])


_BEGINNINGS = {
    "code": _code,
    "story": _story,
    "maths": _maths,
    "translate": _translate,
    "summarise": _summarise,
}


# ---- the corpus


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
