"""Find comments and docstrings that fail at first reading: `python -m tests.prose [PATH ...]`.

The check reports two kinds of text: a text whose first sentence is a fragment without a main verb,
and a text that contains a banned phrase. It is a filter, not a grammar: it finds the worst texts,
and at most one hit in ten should be wrong. The words `prose: ok` in a text exclude it from the
check.

`UNREAD` lists the folders that nobody has rewritten yet. The list may only become shorter.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKED = ("app.py", "specviz", "tests", "docs", "assets/player")
UNREAD: tuple[str, ...] = ()
EXCUSE = "prose: ok"

# First word of a sentence -> number of verbs in the clause that the word opens. One more verb means
# that the sentence has a main clause.
OPENERS = {"of": 0, "for": 0, "as": 1, "those": 1, "where": 1, "what": 1, "who": 1}
# First words whose clause may have many verbs, as in "Whether it is long or was cut, …". Only a
# comma shows where such a clause ends.
ALWAYS = ("none", "whether")
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|does|do|can|may|must|will|would|should|cannot|"
    r"(?:return|raise|use|give|take|need|make|hold|count|run|stop|keep|fail|come|read|write|"
    r"stay|say|show|start|end|mean|get|see|find|leave|add|set|call|know)s?|go|goes|pass|passes)\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"\s*(?:which|who|where|if|as|and)\b")  # words that open no main clause
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])|\n\s*\n")

# Banned phrase -> what plain English says instead.
BANNED = {
    r"(?:is|are|was|were|be|been) told": "say who tells whom",
    r"mend(?:s|ed|ing)?": "fix",
    r"at the most": "at most",
    r"who(?:so)?ever": "the user, the caller, the reader",
    r"giv(?:e|es|ing) way": "yield, or wait",
    r"to be had": "available",
    r"stands? (?:beside|there|here)": "is",
    r"beside (?:it|them|others|each other|one another)": "next to, or compared with",
    r"heed(?:s|ed|ing)?": "obey, or follow",
    r"all else": "everything else",
    r"lies? (?:beside|there|here)": "is",
    r"as it lies": "as it is",
    r"comes? out (?:as|so|of it)": "is, or returns",
}
_BANNED = re.compile("|".join(rf"(\b(?:{phrase})\b)" for phrase in BANNED), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Prose:
    """A docstring or comment with its file and first line number."""

    path: Path
    line: int
    text: str


def fault(text: str) -> str | None:
    """Return what is wrong with a text, or None.

    >>> fault("Of one guess for each row.")
    "begins with 'Of' and has no main verb"
    >>> fault("Where nothing is left, p stays as it is.") is None
    True
    """
    if EXCUSE in text:
        return None
    first, words = _SENTENCE.split(text.strip())[0], re.findall(r"[\w'-]+", text)
    if words and _is_fragment(first, words[0].lower()):
        return f"begins with {words[0]!r} and has no main verb"
    if found := _BANNED.search(text):
        instead = list(BANNED.values())[(found.lastindex or 1) - 1]
        return f"says {found[0]!r}: {instead}"
    return None


def _is_fragment(sentence: str, word: str) -> bool:
    if word not in OPENERS and word not in ALWAYS:
        return False
    if not re.match(r"[A-Za-z]", sentence):
        return False
    _, _, behind = re.sub(r"[;:—]", ",", sentence).partition(",")
    if _VERB.search(behind) and not _RELATIVE.match(behind):
        return False
    return word in ALWAYS or len(_VERB.findall(sentence)) <= OPENERS[word]


def prose_of(path: Path) -> Iterator[Prose]:
    """Yield the docstrings and comments of a Python file, or the comments of a JavaScript file."""
    source = path.read_text(encoding="utf-8")
    yield from _of_python(path, source) if path.suffix == ".py" else _of_javascript(path, source)


def _of_python(path: Path, source: str) -> Iterator[Prose]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield Prose(path, node.body[0].lineno, text)
    lines: list[str] = []
    start = end = column = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("#").strip()
        # this line continues the comment above
        if lines and (line, token.start[1]) == (end + 1, column):
            lines.append(text)
        else:
            if lines:
                yield Prose(path, start, " ".join(lines))
            lines, start = [text], line
        end, column = line, token.start[1]
    if lines:
        yield Prose(path, start, " ".join(lines))


_COMMENT = re.compile(r"/\*(.*?)\*/|(?:^|(?<=[\s;{},]))//([^\n]*(?:\n[ \t]*//[^\n]*)*)", re.DOTALL)


def _of_javascript(path: Path, source: str) -> Iterator[Prose]:
    for match in _COMMENT.finditer(source):
        text = re.sub(r"^[ \t]*(?:\*|//)?[ \t]?", "", match[1] or match[2], flags=re.MULTILINE)
        yield Prose(path, source.count("\n", 0, match.start()) + 1, text.strip())


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the Python and JavaScript files below the paths, in order."""
    for path in paths:
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (each for each in found if each.suffix in {".py", ".js"})


def is_unread(path: Path) -> bool:
    """Return whether nobody has rewritten the file's folder yet."""
    return any(path.is_relative_to(ROOT / each) for each in UNREAD)


def main(arguments: list[str]) -> int:
    """Print every fault, and return 1 if there is one.

    Paths in `arguments` are checked even if they belong to `UNREAD`.
    """
    named = [Path(each).resolve() for each in arguments]
    paths = files(named or [ROOT / each for each in CHECKED])
    count = 0
    for path in paths:
        if not named and is_unread(path):
            continue
        for each in prose_of(path):
            if why := fault(each.text):
                count += 1
                shown = " ".join(each.text.split())[:80]
                print(f"{path.relative_to(ROOT)}:{each.line}: {why}: {shown}")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
