"""The training text: documents per task from four public sources, held-out documents, and prompts.

A document in training is the tag of its task, its text and `<|endoftext|>`; `Corpus` holds only the
text. No model is trained on the test part of GSM8K, or on HELD_OUT documents of every other task.
No model is trained on a function or an English sentence that occurs in these documents. Lengths are
in characters.
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

# The constants and functions below make documents for the tasks "code" and "summarise" from the
# standard library of the running Python.


CHUNK_CHARS = 2400
# largest number of characters of an assignment; longer ones are tables of data and are left out
LONGEST_STATEMENT = 1500
FUNCTION_CHARS = range(80, 1000)
SUMMARY_CHARS = range(15, 140)
_SKIPPED_FOLDERS = {
    "test", "tests", "idle_test", "encodings", "pydoc_data", "site-packages", "dist-packages",
    "lib2to3", "turtledemo", "__pycache__", "_bundled", "tkinter", "idlelib",
}  # fmt: skip
_SKIPPED_PREFIXES = ("_sysconfigdata", "antigravity", "this", "__phello__", "entities")


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A function of Python's standard library: its lines, its code, and a summary.

    `lines` are the lines as in the file. The code is the text without the docstring. The summary is
    the first sentence of the docstring.
    """

    lines: str
    body: str
    summary: str


def standard_library() -> Path:
    """Return the folder of the running Python's standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def module_sources(folder: Path) -> Iterator[str]:
    """Yield the text of every module in a folder, in a fixed order; leave out tests and data."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        skipped = any(part in _SKIPPED_FOLDERS or part.startswith("config-") for part in parts[:-1])
        if not skipped and not path.name.startswith(_SKIPPED_PREFIXES):
            yield path.read_text(encoding="utf-8", errors="ignore").replace("\f", "")


def chunks(source: str) -> Iterator[str]:
    """Divide a module into chunks of consecutive statements, with about CHUNK_CHARS characters.

    A long class is split, and each part repeats the header of the class. A function or class at the
    top level starts a new chunk if the current one has at least a third of CHUNK_CHARS.
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
    """Yield every function and method that has a docstring, a body and a suitable length."""
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
    """Return the first sentence of a docstring on one line, with a full stop.

    The result is empty if the text is not a sentence. "Return x.  More." -> "Return x."
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
    """Yield each statement of a module, and whether a new chunk of text may start with it.

    A long class is divided into parts, and each part counts as a statement.
    """
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
    """Yield the parts of a long class.

    Each part has about CHUNK_CHARS characters, and repeats the header of the class.
    """
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


# Prompts are natural beginnings of held-out documents, without the tag of the task.
#
# A prompt ends at the end of a line or sentence, but never with a newline or a space. In the
# training text, that newline or space belongs to the next token. A prompt and its continuation
# therefore split into tokens exactly as in training.


PROMPTS_PER_TASK = 40
# The smallest number of characters that a document must have after its prompt (about 200 tokens).
REST_CHARS = 700
PROMPT_CHARS = range(90, 400)
# Prompts with code are shorter than others, because code has more tokens per character.
DENSE_PROMPT_CHARS = range(90, 330)


def beginning(task: str, text: str) -> str:
    """Return a natural beginning of a document as a prompt, or "" if no beginning is suitable.

    For the task "maths", the beginning is the question: "Q?\\nA..." -> "Q?"
    """
    prompt = _BEGINNINGS[task](text)
    roomy = task == "maths" or len(text) - len(prompt) >= REST_CHARS
    tidy = prompt.isascii() or task == "translate"
    fitting = DENSE_PROMPT_CHARS if task in ("code", "summarise") else PROMPT_CHARS
    return prompt if roomy and tidy and len(prompt) in fitting else ""


def prompts(task: str, documents: Iterable[str]) -> list[str]:
    """Return at most PROMPTS_PER_TASK beginnings of documents as prompts.

    Beginnings of private functions come last.
    """
    found = [prompt for text in documents if (prompt := beginning(task, text))]
    return sorted(found[:PROMPTS_PER_TASK], key=_is_private)


def _is_private(prompt: str) -> bool:
    return prompt.startswith("def _") or "DEPRECATED" in prompt


def _code(text: str) -> str:
    """Return a prompt for code: a function's signature, docstring and first line of code."""
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
    """Return a prompt for a story: the first sentences of its first paragraph.

    The prompt has at most 220 characters.
    """
    paragraph = text.split("\n\n")[0]
    ends = [match.end() for match in re.finditer(r"[a-z][.!?]\"?(?= [\"A-Z])", paragraph)]
    fitting = [end for end in ends if end <= 220]
    return paragraph[: fitting[-1]] if fitting and text[0].isupper() else ""


def _maths(text: str) -> str:
    return text.split("\n")[0]


def _translate(text: str) -> str:
    """Return a prompt for a translation: three pairs of sentences and an English line.

    If the pairs are long, the prompt has only two of them.
    """
    lines = text.split("\n")
    long = sum(map(len, lines[:7])) > 300
    return "\n".join(lines[: 5 if long else 7])


def _summarise(text: str) -> str:
    """Return a prompt for a summary: a function with its summary, then only a function."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(paragraphs[:3])


_BEGINNINGS = {
    "code": _code,
    "story": _story,
    "maths": _maths,
    "translate": _translate,
    "summarise": _summarise,
}


TASKS = ("code", "story", "maths", "translate", "summarise")
FILES = ("books.tar.gz", "gsm8k-train.jsonl.gz", "gsm8k-test.jsonl.gz", "tatoeba-eng-fra.tsv.gz")
HELD_OUT = 40
STORY_CHARS = 2800


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of each task: those to train on, and those that are held out."""

    training: dict[str, tuple[str, ...]]
    held_out: dict[str, tuple[str, ...]]


def read_corpus(folder: Path, library: Path, seed: int = 0) -> Corpus:
    """Read all documents, from four files in `folder` and the Python library in `library`.

    Raise ValueError if a file is missing.
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
    """Split documents into those to train on and those that are held out.

    HELD_OUT documents with a natural beginning are held out, but at most a third of all documents.
    """
    unique = list(dict.fromkeys(documents))
    random.Random(f"{seed} {task}").shuffle(unique)
    count = min(HELD_OUT, len(unique) // 3)
    held_out = [text for text in unique if beginning(task, text)][:count]
    kept = dict.fromkeys(unique)
    for text in held_out:
        del kept[text]
    return tuple(kept), tuple(held_out)


def _stories(path: Path) -> Iterator[str]:
    """Yield consecutive paragraphs of one book, about STORY_CHARS at a time.

    Headings and tables of contents are left out.
    """
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
    """Yield each question, followed on the next lines by its worked answer.

    GSM8K annotates its answers for a calculator, as in <<48/2=24>>. The annotations are removed.
    """
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            answer = re.sub(r"<<.*?>>", "", record["answer"]).strip()
            yield f"{' '.join(record['question'].split())}\n{answer}"


def _phrase_books(path: Path, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return documents of sentence pairs: those to train on, and those that are held out.

    A document has 8 to 14 pairs; each is an English line followed by a French line.
    """
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        pairs = [tuple(_tidy(part) for part in line.rstrip("\n").split("\t")[:2]) for line in lines]
    chance = random.Random(f"{seed} translate")
    chance.shuffle(pairs)
    kept, held_out = _split(_books(pairs, chance), "translate", seed)
    reserved = {line for text in held_out for line in text.split("\n")[::2]}
    training = (_without_lines(text, reserved) for text in kept)
    return tuple(text for text in training if text), held_out


def _tidy(sentence: str) -> str:
    """Return a sentence on one line with plain spaces.

    The file of sentence pairs has three kinds of spaces before French punctuation.
    """
    return re.sub(r"[\s\u00a0\u202f\u2009]+", " ", sentence).strip()


def _books(pairs: list[tuple[str, ...]], chance: random.Random) -> Iterator[str]:
    start = 0
    while start < len(pairs):
        count = chance.randint(8, 14)
        yield "\n".join(f"{pair[0]}\n{pair[1]}" for pair in pairs[start : start + count])
        start += count


def _without_lines(text: str, reserved: set[str]) -> str:
    """Return a document without the pairs whose English line also occurs in a held-out document."""
    lines = text.split("\n")
    kept = (pair for pair in zip(lines[::2], lines[1::2], strict=True) if pair[0] not in reserved)
    return "\n".join(f"{english}\n{french}" for english, french in kept)


def _code_and_summaries(
    library: Path, seed: int
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the documents of the tasks "code" and "summarise".

    Both use the same functions, so a function that is held out for one task is not trained on in
    the other.
    """
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
    """Return a document that has each function, a blank line, and the summary of the function.

    A blank line separates the functions.
    """
    return "\n\n".join(f"{function.body}\n\n{function.summary}" for function in group)
