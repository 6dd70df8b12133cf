"""The running interpreter's standard library: chunks of modules, functions with summaries.

Knows nothing of tasks, tags or what is held out.
"""

import ast
import re
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    """Its lines as in the file, its text without docstring, the docstring's first sentence."""

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
