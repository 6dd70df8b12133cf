"""The results of a GPU probe: one JSON object per line, saved before the next part begins.

A killed process therefore loses no finished measurement. The module imports only the standard
library, so that even a failing import can be stored as a result.
"""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OK, FAILED, LATE = "ok", "failed", "out of time"
LINES, SUMMARY, ARCHIVE = "results.jsonl", "summary.txt", "probe.tar.gz"


@dataclass(frozen=True, slots=True)
class Entry:
    """The result of one part; `label` is STEP/PART, `seconds` is its duration."""

    label: str
    status: str  # OK, FAILED or LATE
    seconds: float = 0.0
    values: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    traceback: str = ""


class Results:
    """The entries of a results folder; a new entry replaces an earlier one with the same label."""

    def __init__(self, folder: Path, earlier: Path | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        kept = "" if earlier is None else earlier.read_text(encoding="utf-8")
        self._file = (folder / LINES).open("w", encoding="utf-8")
        self._entries: dict[str, Entry] = {}
        for line in kept.splitlines():
            self.add(Entry(**json.loads(line)))

    def add(self, entry: Entry) -> None:
        """Append an entry as one line and wait until it is on the disk."""
        self._entries[entry.label] = entry
        self._file.write(json.dumps(asdict(entry)) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def latest(self) -> dict[str, Entry]:
        """Return the newest entry of every label, in the order of their first lines."""
        return dict(self._entries)

    def has_passed(self, label: str) -> bool:
        return label in self._entries and self._entries[label].status == OK

    def write(self, name: str, text: str) -> None:
        """Write a text file into the folder that will be packed."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def pack(self) -> Path:
        """Pack all files of the folder into one archive, which replaces an older archive."""
        path = self.folder / ARCHIVE
        part = path.with_suffix(".part")
        with tarfile.open(part, "w:gz") as archive:
            for file in sorted(self.folder.rglob("*")):
                if file.is_file() and file not in (path, part):
                    archive.add(file, file.relative_to(self.folder))
        part.replace(path)
        return path
