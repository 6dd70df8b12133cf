"""Write a file completely or not at all. If the disk is full, the old file stays unchanged."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path | str, content: bytes) -> None:
    """Write the content to a file next to `path`, then rename it.

    If the function raises OSError, the old file is unchanged. A device or a pipe cannot be renamed,
    so it is written directly.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            # Write the data to the disk now, because some file systems report a full disk only
            # here.
            os.fsync(file.fileno())
        part.replace(target)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
