"""Update the examples in the documents with what their commands print now: `make examples`.

An example is a comment with the command. The block after it contains what the command prints:

    <!-- prints: size --gpus 4 | head -1 -->

`head -N` keeps the first N lines. Commands must print the same on every machine, so they measure
nothing. `tests/test_documents.py` fails if a block differs.
"""

from __future__ import annotations

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from specviz.cli import main

FOLDER = Path(__file__).parent
EXAMPLE = re.compile(r"(<!-- prints: (.+?)(?: \| head -(\d+))? -->\n```\n)(.*?)(```\n)", re.DOTALL)


def printed(command: str, lines: str | None = None) -> str:
    """Return what a command prints, or its first lines. Raise ValueError if the command fails."""
    text = StringIO()
    with redirect_stdout(text):
        status = main(shlex.split(command))
    if status:
        raise ValueError(f"{command} ended with exit status {status}")
    kept = text.getvalue().splitlines()[: int(lines) if lines else None]
    return "".join(f"{line}\n" for line in kept)


def renewed(document: str) -> str:
    """Return the document, in which every example holds what its command prints now."""
    return EXAMPLE.sub(lambda m: m[1] + printed(m[2], m[3]) + m[5], document)


def write_all(folder: Path = FOLDER) -> None:
    """Renew the examples of all documents in a folder and of the README in its parent folder."""
    for path in (*sorted(folder.rglob("*.md")), folder.parent / "README.md"):
        text = path.read_text(encoding="utf-8")
        path.write_text(renewed(text), encoding="utf-8")


if __name__ == "__main__":
    write_all()
